"""Which phase reaches what, in whole trials, against a server that tells who came.

Every phase tries to reach an allowed name and another one, and is compared with its policy,
by what the phase itself saw and by what the server saw. The combinations:

* three multi-step tasks, one for each mode of ``[environment]``, whose nine steps are the
  nine pairs of modes of agent and verifier: all 27 combinations, each reached from another
  one, graded in the agent's box;
* nine single-step tasks from an orthogonal array of four columns with three values each:
  the modes of environment, agent and verifier, and how it is graded (in the agent's box, in
  one of its own, beside a service of compose). Every pair of values of two columns is there;
* one multi-step task with a separate verifier, three steps, each mode of agent and verifier once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path

import pytest

pytestmark = pytest.mark.docker

MODES = ("public", "no-network", "allowlist")
FORMS = ("shared", "separate", "compose")
REACHES = {"public": {"allowed", "other"}, "no-network": set(), "allowlist": {"allowed"}}
# A verifier's own box is asked for its health as well; its image has no such script.
CHECK = "if [ -e /reach.sh ]; then sh /reach.sh; fi"
COMPOSE = "services:\n  main: {{}}\n  side: {{image: '{image}', command: [sleep, infinity]}}\n"


@dataclass(frozen=True)
class Phase:
    """A phase of a trial, and the mode that holds in it."""

    task: str
    step: str
    name: str
    mode: str

    @property
    def key(self) -> str:
        return f"{self.task}/{self.step or '-'}/{self.name}"

    def token(self, target: str) -> str:
        return "esc" + sha256(f"{self.key}/{target}".encode()).hexdigest()[:13]

    def script(self, report: str) -> str:
        """Shell: try both names, write down how it went."""
        lines = [
            f"curl -s -o /dev/null --max-time 3 http://{target}.test/{self.token(target)} "
            f"&& echo {target} >> {report}"
            for target in ("allowed", "other")
        ]
        return "\n".join([f": > {report}", *lines, "true"]) + "\n"


@dataclass(frozen=True)
class Work:
    """A step, or a single-step task."""

    agent: str
    verifier: str
    step: str = ""


@dataclass(frozen=True)
class Plan:
    """One task."""

    name: str
    environment: str
    form: str
    works: tuple[Work, ...]

    @property
    def phases(self) -> Iterator[Phase]:
        yield Phase(self.name, "", "environment", self.environment)
        for work in self.works:
            yield Phase(self.name, work.step, "agent", work.agent)
            yield Phase(self.name, work.step, "verifier", work.verifier)


def pairs() -> tuple[Work, ...]:
    return tuple(
        Work(agent, verifier, f"s{number}")
        for number, (agent, verifier) in enumerate(product(MODES, MODES))
    )


def orthogonal() -> list[Plan]:
    return [
        Plan(
            f"single{a}{b}", MODES[a], FORMS[(a + 2 * b) % 3], (Work(MODES[b], MODES[(a + b) % 3]),)
        )
        for a, b in product(range(3), range(3))
    ]


DIAGONAL = tuple(Work(MODES[n], MODES[(n + 1) % 3], f"s{n}") for n in range(3))
PLANS = (
    *(Plan(f"steps{number}", mode, "shared", pairs()) for number, mode in enumerate(MODES)),
    *orthogonal(),
    Plan("apart", "public", "separate", DIAGONAL),
)


def network(mode: str) -> str:
    hosts = 'allowed_hosts = ["allowed.test"]\n' if mode == "allowlist" else ""
    return f'network_mode = "{mode}"\n{hosts}'


class Writer:
    """Writes the task of a plan."""

    def __init__(self, root: Path, image: str) -> None:
        self.root, self.image = root, image

    def __call__(self, plan: Plan) -> None:
        folder = self.root / plan.name
        check = Phase(plan.name, "", "environment", plan.environment)
        self.write(folder, "environment/reach.sh", check.script("/logs/artifacts/environment"))
        self.write(
            folder, "environment/Dockerfile", f"FROM {self.image}\nCOPY reach.sh /reach.sh\n"
        )
        if plan.form == "compose":
            self.write(folder, "environment/docker-compose.yaml", COMPOSE.format(image=self.image))
        toml = [
            f"[environment]\n{network(plan.environment)}",
            f'[environment.healthcheck]\ncommand = "{CHECK}"\ninterval_sec = 0.1\n',
        ]
        for work in plan.works:
            toml += self.work(folder, plan, work)
        self.write(folder, "task.toml", "".join(toml))

    def work(self, folder: Path, plan: Plan, work: Work) -> list[str]:
        base = f"steps/{work.step}/" if work.step else ""
        agent = Phase(plan.name, work.step, "agent", work.agent)
        verifier = Phase(plan.name, work.step, "verifier", work.verifier)
        test = "#!/bin/bash\n" + verifier.script(f"/logs/verifier/verifier{work.step}")
        # The instruction is a script here, which the agent runs.
        self.write(folder, f"{base}instruction.md", agent.script(f"/logs/agent/agent{work.step}"))
        self.write(folder, f"{base}tests/test.sh", test + "echo 1 > /logs/verifier/reward.txt\n")
        if plan.form == "separate":
            dockerfile = f"FROM {self.image}\nCOPY test.sh /tests/test.sh\n"
            self.write(folder, f"{base}tests/Dockerfile", dockerfile)
        mode = 'environment_mode = "separate"\n' if plan.form == "separate" else ""
        if not work.step:
            return [f"[agent]\n{network(work.agent)}[verifier]\n{mode}{network(work.verifier)}"]
        return [
            f'[[steps]]\nname = "{work.step}"\n[steps.agent]\n{network(work.agent)}'
            f"[steps.verifier]\n{mode}{network(work.verifier)}"
        ]

    @staticmethod
    def write(folder: Path, path: str, text: str) -> None:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def told(trial: Path, phase: Phase) -> set[str] | None:
    """What a phase wrote down of itself; None: it did not run."""
    found = list(trial.rglob(f"{phase.name}{phase.step}"))
    files = [file for file in found if file.is_file()]
    return set(files[0].read_text().split()) if files else None


@pytest.mark.long
def test_every_phase_reaches_what_its_policy_lets_through(lab, pytester: pytest.Pytester):
    writer = Writer(pytester.path / "tasks", lab.image)
    for plan in PLANS:
        writer(plan)
    result = pytester.runpytest(
        "-p", "no:cacheprovider", "-W", "default", "tasks", f"--harbor-uplink={lab.outside}",
        "--harbor-agent-command=sh {instruction_file}",
    )  # fmt: skip
    result.assert_outcomes(passed=len(PLANS))
    folders = {folder.name.split("__")[0]: folder for folder in pytester.path.glob("jobs/*/*__*")}
    tokens = {token for event in lab.events() for token in event["tokens"]}
    wrong = {}
    for plan in PLANS:
        for phase in plan.phases:
            served = {target for target in ("allowed", "other") if phase.token(target) in tokens}
            own = told(folders[plan.name], phase)
            if not served == own == REACHES[phase.mode]:
                wrong[phase.key] = f"{phase.mode}: server saw {served}, phase told {own}"
    assert wrong == {}


def test_the_combinations_cover_what_is_claimed():
    several = {
        (plan.environment, work.agent, work.verifier)
        for plan in PLANS
        if plan.name.startswith("steps")
        for work in plan.works
    }
    assert several == set(product(MODES, MODES, MODES))
    single = [(p.environment, p.works[0].agent, p.works[0].verifier, p.form) for p in orthogonal()]
    columns = list(zip(*single, strict=True))
    for first, second in ((a, b) for a in range(4) for b in range(a)):
        assert len(set(zip(columns[first], columns[second], strict=True))) == 9
