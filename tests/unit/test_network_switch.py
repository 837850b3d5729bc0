"""Which policy holds while what happens: whole trials in boxes that exist in memory only."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_harbor.agent.base import Agent
from pytest_harbor.environment.base import (
    DownloadReport,
    Environment,
    EnvironmentRequest,
    ExecResult,
)
from pytest_harbor.errors import EnvironmentFault, UnsupportedError
from pytest_harbor.result.network import PhaseRefusals, RefusedConnection
from pytest_harbor.result.reward import parse_reward
from pytest_harbor.task.network import Endpoint, NetworkPolicy
from pytest_harbor.task.reader import read_task
from pytest_harbor.trial.network_plan import in_words, task_network
from pytest_harbor.trial.network_switch import MAX_REFUSED, bounded
from pytest_harbor.trial.plan import RunOptions, plan_trial
from pytest_harbor.trial.record import TrialRecord
from pytest_harbor.trial.run import Trial
from pytest_harbor.trial.secrets import Redactor
from pytest_harbor.verifier.base import Verifier, VerifierReport

Seen = list[tuple[str, str]]

TOML = {"public": "public", "no-network": "no-network", "allowlist": "allowlist a.example"}


class Box(Environment):
    """A box without anything in it, that knows which policy holds."""

    name = "box"
    default_user = "root"
    workdir = "/app"
    network_control = "changing"

    def __init__(self, request: EnvironmentRequest, seen: Seen) -> None:
        self.request = request
        self.policy: NetworkPolicy | None = None
        self.seen = seen
        self.expected: list[NetworkPolicy] = []
        self.refused: list[RefusedConnection] = []
        self.breaks_at: str = ""
        self.error: Exception = EnvironmentFault("the gateway is gone")

    def note(self, what: str) -> None:
        assert self.policy is not None, f"{what} in a box that is not started"
        role = "" if self.request.role == "agent" else "other box: "
        self.seen.append((f"{role}{what}", in_words(self.policy)))

    def start(self, *, timeout_sec: float | None = None) -> None:
        self.policy = self.request.network[0]
        self.note("start")

    def stop(self) -> None:
        self.policy = None

    def set_network_policy(self, policy: NetworkPolicy) -> None:
        assert policy in self.request.network, "a policy that nobody asked for"
        assert len(self.request.network) > 1, "a switch where there is one policy only"
        if self.breaks_at == policy.mode:
            raise self.error
        self.policy = policy

    def expect_network_policy(self, policy: NetworkPolicy) -> None:
        assert policy in self.request.network, "a policy that nobody asked for"
        self.expected.append(policy)

    def refused_connections(self) -> list[RefusedConnection]:
        assert self.policy is not None, "asked of a box that is gone"
        taken, self.refused = self.refused, []
        return taken

    def exec(self, command: Any, **_options: Any) -> ExecResult:
        self.note(command if isinstance(command, str) else command[-1])
        return ExecResult(0, "", "", 0.0)

    def upload(self, source: Path, target: str, **_options: Any) -> None:
        self.note(f"upload {target}")

    def download(self, source: str, target: Path, **_options: Any) -> DownloadReport:
        self.note(f"download {source}")
        return DownloadReport()

    def archive(self, source: str, sink: Any, **_options: Any) -> DownloadReport:
        self.note(f"archive {source}")
        raise FileNotFoundError(source)

    def clear(self, folders: Any) -> None:
        self.note("clear")

    def read(self, path: str, **_options: Any) -> bytes:
        raise FileNotFoundError(path)

    def write(self, path: str, data: bytes | str, **_options: Any) -> None: ...


class Worker(Agent):
    """Says when it is set up and when it works."""

    name = "worker"

    def setup(self, environment: Environment, context: Any) -> None:
        environment.exec("set-up")

    def run(self, instruction: str, environment: Environment, context: Any) -> None:
        environment.exec("agent")


class Grader(Verifier):
    """Says when it grades, and gives 1."""

    def verify(self, environment: Environment, context: Any) -> VerifierReport:
        environment.exec("verifier")
        return VerifierReport(reward=parse_reward(None, b"1"))


class Silent:
    def before_phase(self, phase: str, step: str, environment: Environment) -> None: ...

    def after_phase(
        self, phase: str, step: str, environment: Environment, error: BaseException | None
    ) -> None: ...


class Ran(NamedTuple):
    """What became of a trial."""

    trial: Trial
    seen: Seen
    boxes: list[Box]

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.trial.record.path / "network.json").read_text())
        return found


Prepare = Callable[[Box], None]


@pytest.fixture
def run(make_task: Any, tmp_path: Path) -> Callable[..., Ran]:
    """Run a trial of a task in boxes of memory."""

    def ran(
        folder: Path,
        *,
        prepare: Prepare = lambda _box: None,
        agent: Agent | None = None,
        box: type[Box] = Box,
        **options: Any,
    ) -> Ran:
        task = read_task(folder)
        plan = plan_trial(
            task,
            agent or Worker(),
            task_network(task),
            RunOptions(run_id="run", job_dir=tmp_path / "job", **options),
            agent_name="worker",
        )
        seen: Seen = []
        boxes: list[Box] = []

        def make(request: EnvironmentRequest) -> Environment:
            boxes.append(box(request, seen))
            prepare(boxes[-1])
            return boxes[-1]

        trial = Trial(plan, TrialRecord(tmp_path / "job", "t", plan.redactor), Silent(), make, {})
        environment = trial.make_environment()
        try:
            trial.start(environment)
            trial.run(environment, Grader())
        except (EnvironmentFault, UnsupportedError) as error:
            trial.fail(error)
        return Ran(trial, seen, boxes)

    return ran


def write(
    make_task: Any,
    environment: str = "public",
    agent: str = "",
    verifier: str = "",
    *,
    separate: bool = False,
    steps: bool = False,
) -> Path:
    """A task with these modes; a task with steps has a second one that says nothing itself."""
    tables = [
        f"=version = '1.0'\nartifacts = ['/app/out']\n[environment]\n{_mode(environment)}",
        "[environment.healthcheck]\ncommand = 'health'\n",
        f"[agent]\n{_mode(agent)}",
        f"[verifier]\n{_mode(verifier)}" + ("environment_mode = 'separate'\n" if separate else ""),
        "[[verifier.collect]]\ncommand = 'hook'\n",
    ]
    if steps:
        tables += [
            "[[steps]]\nname = 'one'\n",
            "[[steps]]\nname = 'two'\n[steps.healthcheck]\ncommand = 'step health'\n",
        ]
    folder: Path = make_task(toml="".join(tables), remove=("instruction.md",) if steps else ())
    for step in ("one", "two") if steps else ():
        make_task.write(folder, f"steps/{step}/instruction.md", "Work.\n")
    return folder


def _mode(mode: str) -> str:
    hosts = "allowed_hosts = ['a.example']\n" if mode == "allowlist" else ""
    return f"network_mode = '{mode}'\n{hosts}" if mode else ""


def expected(environment: str, agent: str, verifier: str, *, separate: bool, steps: bool) -> Seen:
    """What happens, in its order, and the policy that has to hold at that moment."""
    start, work, grade = (TOML[mode] for mode in (environment, agent, verifier))
    seen = [("start", start), ("health", start), ("set-up", start)]
    for step in ("one", "two") if steps else ("",):
        if step == "two":
            # The last step's policy holds until its tests are gone; then the baseline again.
            seen += [("clear", work if separate else grade), ("step health", start)]
        seen += [("agent", work), ("hook", work)]
        if separate:
            places = ("archive /logs/artifacts", "archive /app/out", "download /logs/agent")
            seen += [(place, work) for place in places]
            seen += [(f"other box: {what}", grade) for what in ("start", "health", "verifier")]
        else:
            seen += [("archive /app/out", work), ("verifier", grade)]
    return seen


MODES = tuple(TOML)


@pytest.mark.parametrize("steps", [False, True], ids=["single", "steps"])
@pytest.mark.parametrize("separate", [False, True], ids=["shared", "separate"])
@pytest.mark.parametrize(
    ("environment", "agent", "verifier"),
    [pytest.param(*modes, id="-".join(modes)) for modes in product(MODES, repeat=3)],
)
def test_every_phase_runs_under_its_own_policy(
    make_task: Any,
    run: Callable[..., Ran],
    environment: str,
    agent: str,
    verifier: str,
    separate: bool,
    steps: bool,
) -> None:
    form = {"separate": separate, "steps": steps}
    ran = run(write(make_task, environment, agent, verifier, **form))
    assert ran.seen == expected(environment, agent, verifier, **form)
    assert ran.trial.result.passed


def test_the_next_policy_is_known_as_soon_as_a_phase_begins(
    make_task: Any, run: Callable[..., Ran]
) -> None:
    ran = run(write(make_task, "public", "no-network", "allowlist", steps=True))
    expected = [in_words(policy) for policy in ran.boxes[0].expected]
    # While the box starts, the agent's; while the agent works, the verifier's; and so on.
    once = ["no-network", "allowlist a.example", "public"]
    assert expected == [*once, *once[:2]]


def test_nothing_is_expected_where_nothing_changes(make_task: Any, run: Callable[..., Ran]) -> None:
    ran = run(write(make_task, "no-network", steps=True))
    assert (ran.boxes[0].expected, ran.boxes[0].request.network) == (
        [],
        (NetworkPolicy("no-network"),),
    )


def test_a_policy_is_set_as_the_box_was_told_of_it(make_task: Any, run: Callable[..., Ran]) -> None:
    folder = make_task(
        toml="=version = '1.0'\n[environment]\nnetwork_mode = 'no-network'\n"
        "[agent]\nnetwork_mode = 'public'\n"
        "[verifier]\nnetwork_mode = 'allowlist'\nallowed_hosts = []\n"
    )
    ran = run(folder)
    assert ran.boxes[0].request.network == (NetworkPolicy("no-network"), NetworkPolicy())
    assert dict(ran.seen) == {
        "start": "no-network",
        "set-up": "no-network",
        "agent": "public",
        "verifier": "no-network",
    }
    assert ran.trial.result.passed


# --- what the run adds


def test_the_runs_policy_holds_in_every_phase(make_task: Any, run: Callable[..., Ran]) -> None:
    folder = write(make_task, "public", "allowlist", "no-network", separate=True)
    ran = run(folder, network=NetworkPolicy("allowlist", ("*.example",), ("b.example",)))
    assert {seen for seen in ran.seen if seen[0] in ("start", "agent", "other box: verifier")} == {
        ("start", "allowlist *.example"),
        ("agent", "allowlist a.example"),
        ("other box: verifier", "no-network"),
    }
    assert ran.trial.result.to_json({})["pytest_harbor"]["network"] == {
        "environment": "allowlist *.example",
        "agent": "allowlist a.example",
        "verifier": "no-network",
        "run": "allowlist *.example",
        "asked": {
            "environment": "public",
            "agent": "allowlist a.example",
            "verifier": "no-network",
        },
        "denied": ["b.example"],
    }


def test_endpoints_are_open_under_every_policy_and_recorded(
    make_task: Any, run: Callable[..., Ran]
) -> None:
    of_run, of_agent = Endpoint("tools.example", 80), Endpoint("model.example", 443)
    agent = Worker()
    agent.endpoints = (of_agent,)
    folder = write(make_task, "no-network", "allowlist", "no-network")
    ran = run(folder, agent=agent, network=NetworkPolicy(endpoints=(of_run,)))
    start, work, grade = ran.boxes[0].request.network
    assert (start.mode, start.endpoints) == ("no-network", (of_run, of_agent))
    assert (work.mode, work.endpoints) == ("allowlist", (of_run, of_agent))
    assert (grade.mode, grade.endpoints) == ("no-network", (of_run,))
    told = ["tools.example:80", "model.example:443"]
    assert ran.trial.result.network["endpoints"] == told
    assert ran.document["endpoints"] == told
    assert ran.document["phases"][-1]["endpoints"] == told[:1]


def test_open_phases_are_one_policy_whatever_the_agent_names(
    make_task: Any, run: Callable[..., Ran]
) -> None:
    agent = Worker()
    agent.endpoints = (Endpoint("model.example", 443),)
    ran = run(write(make_task), agent=agent)
    assert [policy.is_open for policy in ran.boxes[0].request.network] == [True]
    assert ran.trial.result.passed


# --- when it cannot be done


@pytest.mark.parametrize("error", [EnvironmentFault("gone"), UnsupportedError("cannot")])
def test_a_switch_that_fails_ends_the_trial_as_the_environments(
    make_task: Any, run: Callable[..., Ran], error: Exception
) -> None:
    def breaks(box: Box) -> None:
        box.breaks_at, box.error = "no-network", error

    ran = run(write(make_task, "public", "no-network"), prepare=breaks)
    assert "agent" not in dict(ran.seen)
    assert ran.trial.result.category == "environment"
    assert str(error) in ran.trial.result.faults[0].message


@pytest.mark.parametrize(
    ("control", "modes", "told"),
    [
        ("none", ("public",), ""),
        ("none", ("no-network",), "restricts no network"),
        ("none", ("public", "allowlist"), "restricts no network"),
        ("fixed", ("public",), ""),
        ("fixed", ("allowlist",), ""),
        ("fixed", ("public", "no-network"), "cannot change its network"),
        ("fixed", ("no-network", "no-network", "public"), "cannot change its network"),
        ("changing", ("public", "no-network", "allowlist"), ""),
    ],
)
def test_a_backend_gets_no_policy_that_it_did_not_say_it_holds(
    make_task: Any, run: Callable[..., Ran], control: str, modes: tuple[str, ...], told: str
) -> None:
    kind = type("OwnBox", (Box,), {"network_control": control})
    ran = run(write(make_task, *modes), box=kind)
    result = ran.trial.result
    assert (result.category, bool(ran.seen)) == (("skipped", False) if told else ("reward", True))
    assert told in result.skip_reason
    if told:
        assert "OwnBox" in result.skip_reason
        assert modes[-1] in result.skip_reason


def test_a_separate_verifiers_box_may_have_another_policy_than_a_fixed_agents(
    make_task: Any, run: Callable[..., Ran]
) -> None:
    kind = type("OwnBox", (Box,), {"network_control": "fixed"})
    folder = write(make_task, "no-network", "no-network", "public", separate=True)
    assert run(folder, box=kind).trial.result.passed


# --- what was refused


class Curious(Worker):
    """Tries what its policy may refuse."""

    def run(self, instruction: str, environment: Environment, context: Any) -> None:
        environment.exec("agent")
        self.box.refused += [
            RefusedConnection("pypi.org", "tcp", 443, 2),
            RefusedConnection("s3cr3t.example", "dns"),
        ]

    box: Box


@pytest.fixture
def curious(make_task: Any, run: Callable[..., Ran]) -> Callable[..., Ran]:
    def ran(*modes: str, **form: Any) -> Ran:
        agent = Curious()

        def prepare(box: Box) -> None:
            if box.request.role == "agent":
                agent.box = box

        return run(
            write(make_task, *modes, **form),
            agent=agent,
            prepare=prepare,
            agent_env={"A_TOKEN": "s3cr3t"},
        )

    return ran


@pytest.mark.parametrize("separate", [False, True], ids=["shared", "separate"])
@pytest.mark.parametrize("steps", [False, True], ids=["single", "steps"])
def test_refusals_stand_with_their_phase_and_step(
    curious: Callable[..., Ran], separate: bool, steps: bool
) -> None:
    ran = curious("public", "allowlist", "public", separate=separate, steps=steps)
    refused = (
        RefusedConnection("pypi.org", "tcp", 443, 2),
        RefusedConnection("[REDACTED].example", "dns"),
    )
    names = ("one", "two") if steps else ("",)
    assert ran.trial.result.refusals == [PhaseRefusals("agent", name, refused) for name in names]
    total = 3 * len(names)
    assert ran.trial.result.to_json({})["pytest_harbor"]["refused_connections"] == total
    document = ran.document
    assert document["refused_connections"] == total
    agents = [phase for phase in document["phases"] if phase["phase"] == "agent"]
    assert [phase["step"] or "" for phase in agents] == list(names)
    assert agents[0]["policy"] == "allowlist a.example"
    assert agents[0]["refused"][0] == {
        "destination": "pypi.org",
        "port": 443,
        "protocol": "tcp",
        "count": 2,
    }
    assert "s3cr3t" not in json.dumps(document)


def test_the_file_tells_each_phase_with_its_policy_and_times(
    make_task: Any, run: Callable[..., Ran]
) -> None:
    ran = run(write(make_task, "public", "no-network", "allowlist", separate=True))
    phases = ran.document["phases"]
    assert [(one["phase"], one["box"], one["policy"]) for one in phases] == [
        ("environment", "agent", "public"),
        ("agent_setup", "agent", "public"),
        ("agent", "agent", "no-network"),
        ("verifier", "verifier", "allowlist a.example"),
    ]
    times = [time for one in phases for time in (one["started_at"], one["finished_at"])]
    assert times == sorted(times)


def test_an_open_trial_has_no_such_file(make_task: Any, run: Callable[..., Ran]) -> None:
    ran = run(write(make_task))
    assert not (ran.trial.record.path / "network.json").exists()


def test_a_log_that_cannot_be_read_costs_no_verdict(
    make_task: Any, run: Callable[..., Ran]
) -> None:
    class Mute(Box):
        def refused_connections(self) -> list[RefusedConnection]:
            raise EnvironmentFault("no log")

    ran = run(write(make_task, "public", "no-network"), box=Mute)
    assert ran.trial.result.passed
    assert (
        "refused connections of agent are unknown: no log"
        in (ran.trial.record.path / "trial.log").read_text()
    )


def test_what_a_trial_that_was_cut_off_had_refused_is_known(
    make_task: Any, run: Callable[..., Ran]
) -> None:
    class Sick(Box):
        def exec(self, command: Any, **options: Any) -> ExecResult:
            self.refused.append(RefusedConnection("a.example", "dns"))
            raise EnvironmentFault("never healthy")

    ran = run(write(make_task, "no-network"), box=Sick)
    assert ran.trial.result.category == "environment"
    assert [one.phase for one in ran.trial.result.refusals] == ["environment"]


def test_only_the_most_refused_destinations_are_listed() -> None:
    many = [RefusedConnection(f"{n}.example", "dns", count=n) for n in range(1, MAX_REFUSED + 11)]
    listed, more = bounded(many, Redactor())
    assert len(listed) == MAX_REFUSED
    assert listed[0].destination == f"{MAX_REFUSED + 10}.example"
    assert more == sum(range(1, 11))


def test_a_name_that_was_asked_for_is_one_short_line() -> None:
    (odd,), _ = bounded([RefusedConnection("a\n\x1b[2J" + "x" * 5000, "dns")], Redactor())
    assert odd.destination.startswith("a??[2Jx")
    assert len(odd.destination) < 300
