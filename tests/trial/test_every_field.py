"""Every field of ``task.toml`` does what it says: one table, and a check that it is whole.

Each row names fields, where their effect was looked at and what was found there. Few
trials stand for many rows: the first half of the table is seen in tasks with a shared
verifier, the second in tasks with steps and with verifiers of their own.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args

import pytest
from pydantic import BaseModel

from pytest_harbor.task.config import TaskConfig

IMAGE = "debian:bookworm-slim"
BASE = f"FROM {IMAGE}\nRUN useradd -m worker && useradd -m grader && mkdir -m 777 /custom /app\n"
GIVE_ONE = "echo 1 > /logs/verifier/reward.txt\n"
LIMITS = """\
echo memory=$(cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null)
echo cpus=$(cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null)
echo net=$(ls /sys/class/net)
"""
# Letters of the names that can be looked up: an allowlist answers for its own, and for no other.
REACHED = "$(for h in a b c d e f; do getent hosts $h.example > /dev/null && printf $h; done)"
TELL_REACHED = f"#!/bin/bash\n[ ! -e /tmp/reached ] || cat /tmp/reached\necho verifier={REACHED}\n"
NOTE_REACHED = f"#!/bin/bash\necho agent={REACHED} > /tmp/reached\n"
# The first hangs, the second fails, the third is healthy; each leaves the time it began.
HEALTHY = (
    "date +%s%N >> /tmp/checks; n=$(wc -l < /tmp/checks); [ $n -gt 1 ] || sleep 600; [ $n -gt 2 ]"
)
HEALTHCHECK = f"""\
command = "{HEALTHY}"
start_period_sec = 60
start_interval_sec = 0.4
interval_sec = 0.01
timeout_sec = 1
retries = 1
"""
SICK = """\
command = "date +%s%N >> /tmp/checks; cat /tmp/checks; exit 9"
interval_sec = 0.5
retries = 2
"""


class Seen:
    """What an inner run left, by the names of its tasks."""

    def __init__(self, ran: Any) -> None:
        self.ran = ran

    def printed(self, task: str, step: str = "") -> dict[str, str]:
        """Values that a test script printed, as ``name=value``."""
        folder = self.ran.folder(task) / "steps" / step if step else self.ran.folder(task)
        lines = (folder / "verifier" / "test-stdout.txt").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def result(self, task: str) -> dict[str, Any]:
        """``result.json``, without what repeats the task."""
        return self.ran.one(task)

    def told(self, task: str) -> str:
        """What the run said of a task: the reason of a skip, an error, a warning."""
        lines = self.ran.run.outlines
        return "\n".join(line for line in lines if f"tasks/{task}/" in line)

    def fault(self, task: str) -> str:
        """All that went wrong in a trial."""
        works = [self.result(task), *(self.result(task)["step_results"] or ())]
        infos = [work["exception_info"] for work in works if work["exception_info"]]
        return "\n".join(info["exception_message"] for info in infos)

    def notes(self, task: str) -> str:
        """Findings and the trial's log."""
        log = (self.ran.folder(task) / "trial.log").read_text()
        works = [self.result(task), *(self.result(task)["step_results"] or ())]
        return log + json.dumps([work["pytest_harbor"]["findings"] for work in works])

    def agent(self) -> dict[str, Any]:
        """What the agent of the task ``shared`` was told."""
        return json.loads((self.ran.folder("shared") / "agent" / "told.json").read_text())

    def manifest(self, task: str, step: str = "") -> dict[str, str]:
        """Source to destination of each artifact that came home."""
        folder = self.ran.folder(task) / "steps" / step if step else self.ran.folder(task)
        rows = json.loads((folder / "artifacts" / "manifest.json").read_text())
        return {row["source"]: row["destination"] for row in rows if row["status"] == "ok"}

    def home(self, task: str, step: str = "") -> set[str]:
        """Files among a trial's artifacts."""
        folder = self.ran.folder(task) / "steps" / step if step else self.ran.folder(task)
        root = folder / "artifacts"
        return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


class Row(NamedTuple):
    """Fields of ``task.toml``, and where their effect was seen.

    Attributes:
        fields: Dotted paths, one or more.
        effect: What the fields do.
        look: Looks at it.
        expected: What is there; a function is asked whether it is.
    """

    fields: str
    effect: str
    look: Callable[[Seen], Any]
    expected: Any = True


def has(*words: str) -> Callable[[str], bool]:
    """Whether all words are in a text."""
    return lambda text: all(word in text for word in words)


def gaps(lines: str) -> list[float]:
    """Seconds between the times, in nanoseconds, that a health check left."""
    times = [int(word) for word in lines.split() if word.isdigit() and len(word) > 15]
    return [(after - before) / 1e9 for before, after in itertools.pairwise(times)]


# --- tasks with a shared verifier

SHARED_TOML = f"""\
=schema_version = "1.4"
artifacts = ["seen.txt", {{source = "/data", destination = "d/e", exclude = ["*.lock"]}}]
[task]
name = "acme/renamed"
keywords = ["findme"]
[metadata]
difficulty = "easy"
[agent]
user = "worker"
[verifier]
user = "grader"
env = {{ FROM = "verifier" }}
[[verifier.collect]]
command = "id -un > /tmp/collected"
user = "worker"
[[verifier.collect]]
command = "sleep 600"
timeout_sec = 1
[environment]
workdir = "/custom"
env = {{ FROM = "environment", BASE = "b" }}
cpus = 0.5
memory_mb = 256
storage_mb = 64
network_mode = "no-network"
skills_dir = "/skills"
[[environment.mcp_servers]]
name = "local"
transport = "stdio"
command = "serve"
args = ["--fast"]
[[environment.mcp_servers]]
name = "web"
transport = "streamable-http"
url = "http://localhost/mcp"
headers = {{ X-Team = "blue" }}
[environment.healthcheck]
{HEALTHCHECK}[solution]
env = {{ FROM = "solution" }}
"""

SHARED_SOLUTION = """\
#!/bin/bash
echo "$(id -un) $(pwd) $FROM" > seen.txt
mkdir -p /data
touch /data/a /data/b.lock
"""

SHARED_TEST = f"""\
#!/bin/bash
echo agent=$(cat seen.txt)
echo verifier=$(id -un) $(pwd) $FROM $BASE
echo collected=$(cat /tmp/collected)
echo checks=$(cat /tmp/checks)
{LIMITS}{GIVE_ONE}"""

AGENT = """\
import dataclasses, json
from pytest_harbor.agent.reference import OracleAgent

class Telling(OracleAgent):
    '''The oracle, which also writes down what it is told.'''

    uses_task_tools = True

    def run(self, instruction, environment, context):
        told = {"skills": context.skills_dir}
        told["servers"] = [dataclasses.asdict(server) for server in context.mcp_servers]
        (context.logs_dir / "told.json").write_text(json.dumps(told, default=str))
        super().run(instruction, environment, context)
"""

COMPOSE = f"""\
services:
  main: {{}}
  db:
    image: {IMAGE}
    command: sleep infinity
    stop_grace_period: 0s
"""


def write_shared_tasks(make_task: Any) -> None:
    dockerfile = f"{BASE}RUN mkdir -m 777 /data\n"
    make_task(
        "shared", toml=SHARED_TOML, dockerfile=dockerfile, solve=SHARED_SOLUTION, test=SHARED_TEST
    )
    write_prebuilt(make_task, "plain", "")
    write_prebuilt(make_task, "sick", f"[environment.healthcheck]\n{SICK}")
    make_task("old", toml='=schema_version = "9"\n', dockerfile="FROM none\n")
    limit = "=version = '1.0'\n[environment]\nbuild_timeout_sec = 1\n"
    make_task("slow-build", toml=limit, dockerfile=f"FROM {IMAGE}\nRUN sleep 600\n")
    reaching = {"solve": NOTE_REACHED, "test": f"{TELL_REACHED}{GIVE_ONE}"}
    hosts = 'network_mode = "allowlist"\nallowed_hosts = ["a.example"]\n'
    make_task("hosts", toml=hosts, **reaching)
    for name, line in {
        "gpu": 'gpus = 3\ngpu_types = ["H100"]\n',
        "tpu": 'tpu = {type = "v5e", topology = "2x4"}\n',
        "windows": 'os = "windows"\n',
    }.items():
        make_task(name, toml=line)
    make_task.write(make_task.root / "windows", "tests/test.bat", "exit 0\r\n")
    listed = 'network_mode = "allowlist"\nallowed_hosts = ["{}.example"]\n'
    phases = f"[agent]\n{listed.format('b')}[verifier]\n{listed.format('c')}"
    make_task("phases", toml=f"=version = '1.0'\n{phases}", **reaching)
    limits = "=version = '1.0'\n[agent]\ntimeout_sec = 1\n[verifier]\ntimeout_sec = 1.5\n"
    nap = "#!/bin/bash\nsleep 600\n"
    write_prebuilt(make_task, "slow", limits, solve=nap, test=nap)
    folder = make_task(
        "compose",
        toml="=artifacts = [{source = '/dump', service = 'db'}]\nversion = '1.0'\n"
        "[[verifier.collect]]\nservice = 'db'\ncommand = 'echo in db > /dump'\n",
    )
    make_task.write(folder, "environment/docker-compose.yaml", COMPOSE)


def write_prebuilt(make_task: Any, name: str, toml: str, **changed: str) -> None:
    """A task that costs no build."""
    changed = {"solve": "#!/bin/bash\ntrue\n", "test": f"#!/bin/bash\n{GIVE_ONE}", **changed}
    image = f'[environment]\ndocker_image = "{IMAGE}"\n'
    own = toml.removeprefix("=") if toml.startswith("=") else f"version = '1.0'\n{toml}"
    make_task(name, toml=f"={own}{image}", remove=("environment/Dockerfile",), **changed)


SHARED_ROWS = [
    Row("schema_version", "an unknown one is warned of", lambda s: s.told("old"), has("'9'")),
    Row("task.name", "names the task", lambda s: s.result("shared")["task_name"], "acme/renamed"),
    Row("task.keywords", "answer to -k", lambda s: s.ran.found["-k", "findme"], ["shared"]),
    Row(
        "metadata",
        "arguments of the marker",
        lambda s: s.ran.found["-m", "harbor(difficulty='easy')"],
        ["shared"],
    ),
    Row("artifacts.source", "is brought home", lambda s: "custom/seen.txt" in s.home("shared")),
    Row("artifacts.destination", "where to", lambda s: "d/e/a" in s.home("shared")),
    Row("artifacts.exclude", "is left out", lambda s: "d/e/b.lock" not in s.home("shared")),
    Row(
        "artifacts.service verifier.collect.service",
        "a service beside main",
        lambda s: s.manifest("compose").get("/dump"),
        "artifacts/dump",
    ),
    Row(
        "agent.user environment.workdir solution.env",
        "id, pwd and $FROM of the solution",
        lambda s: s.printed("shared")["agent"],
        "worker /custom solution",
    ),
    Row(
        "verifier.user verifier.env environment.env",
        "id, pwd, $FROM and $BASE of the test script",
        lambda s: s.printed("shared")["verifier"],
        "grader /custom verifier b",
    ),
    Row(
        "verifier.collect.command verifier.collect.user",
        "ran before the verifier, as its user",
        lambda s: s.printed("shared")["collected"],
        "worker",
    ),
    Row(
        "verifier.collect.timeout_sec",
        "ended a hook",
        lambda s: s.notes("shared"),
        has("collect", "timed out after 1 s"),
    ),
    Row("agent.timeout_sec", "ended the agent", lambda s: s.fault("slow"), has("after 1 s")),
    Row(
        "verifier.timeout_sec",
        "ended the verifier",
        lambda s: json.dumps(s.result("slow")["pytest_harbor"]["faults"]),
        has("verifier timed out after 1.5 s"),
    ),
    Row(
        "environment.build_timeout_sec",
        "ended a build",
        lambda s: s.fault("slow-build"),
        has("build limit of 1 s"),
    ),
    Row(
        "environment.docker_image",
        "a task without a Dockerfile passed",
        lambda s: s.result("plain")["pytest_harbor"]["passed"],
    ),
    Row(
        "environment.cpus environment.memory_mb",
        "the container's control group",
        lambda s: [s.printed("shared")[name].split()[0] for name in ("cpus", "memory")],
        ["50000", str(256 * 1024**2)],
    ),
    Row(
        "environment.storage_mb",
        "a limit, or a note that there is none",
        lambda s: s.notes("shared"),
        has("64 MB"),
    ),
    Row("environment.network_mode", "interfaces", lambda s: s.printed("shared")["net"], "lo"),
    Row(
        "environment.allowed_hosts",
        "names that the agent and the verifier could look up",
        lambda s: (s.printed("hosts")["agent"], s.printed("hosts")["verifier"]),
        ("a", "a"),
    ),
    Row(
        "agent.network_mode agent.allowed_hosts verifier.network_mode verifier.allowed_hosts",
        "names that the agent and the verifier could look up",
        lambda s: (s.printed("phases")["agent"], s.printed("phases")["verifier"]),
        ("b", "c"),
    ),
    Row("environment.os", "reason of a skip", lambda s: s.told("windows"), has("windows tasks")),
    Row("environment.gpus", "reason of a skip", lambda s: s.told("gpu"), has("3 GPU")),
    Row(
        "environment.tpu.type environment.tpu.topology",
        "reason of a skip",
        lambda s: s.told("tpu"),
        has("v5e 2x4"),
    ),
    Row("environment.skills_dir", "told to the agent", lambda s: s.agent()["skills"], "/skills"),
    Row(
        "environment.mcp_servers.name environment.mcp_servers.transport "
        "environment.mcp_servers.command environment.mcp_servers.args",
        "told to the agent",
        lambda s: (
            [s.agent()["servers"][0][key] for key in ("name", "transport", "command")]
            + s.agent()["servers"][0]["args"]
        ),
        ["local", "stdio", "serve", "--fast"],
    ),
    Row(
        "environment.mcp_servers.url environment.mcp_servers.headers",
        "told to the agent",
        lambda s: [s.agent()["servers"][1][key] for key in ("url", "headers")],
        ["http://localhost/mcp", {"X-Team": "blue"}],
    ),
    Row(
        "environment.healthcheck.command environment.healthcheck.start_period_sec "
        "environment.healthcheck.start_interval_sec environment.healthcheck.timeout_sec",
        "a check that hung and one that failed did not count; pauses between the three",
        lambda s: gaps(s.printed("shared")["checks"]),
        lambda seen: len(seen) == 2 and min(seen) >= 0.4,
    ),
    Row(
        "environment.healthcheck.retries environment.healthcheck.interval_sec",
        "two failures in a row, half a second apart",
        lambda s: s.fault("sick"),
        lambda text: "failed 2 times in a row" in text and gaps(text)[0] >= 0.5,
    ),
]

# --- tasks with steps, and with verifiers of their own

BOX_TABLE = """\
env = { FROM = "box" }
workdir = "/custom"
cpus = 0.5
memory_mb = 256
storage_mb = 64
network_mode = "no-network"
"""
BOX_TEST = f"""\
#!/bin/bash
echo box=$(pwd) $FROM
echo checks=$(cat /tmp/checks)
{LIMITS}{GIVE_ONE}"""
BOX_IMAGE = f"{BASE}RUN mkdir /tests\nCOPY test.sh /tests/\n"

BOX_HOSTS = 'network_mode = "allowlist"\nallowed_hosts = ["d.example"]\n'
BOX_SKIPS = {
    "gpu": "gpus = 3\n",
    "tpu": 'tpu = {type = "v5e", topology = "2x4"}\n',
    "windows": 'os = "windows"\n',
}

STEPS_TOML = f"""\
=multi_step_reward_strategy = "final"
[[steps]]
name = "one"
min_reward = 0.5
artifacts = ["/app/one", {{source = "/data", destination = "d", exclude = ["*.lock"]}}]
[steps.agent]
user = "worker"
[steps.verifier]
user = "grader"
env = {{ FROM = "step" }}
[[steps.verifier.collect]]
command = "id -un > /tmp/collected"
user = "worker"
[[steps.verifier.collect]]
command = "sleep 600"
timeout_sec = 1
[steps.healthcheck]
{HEALTHCHECK}
[[steps]]
name = "boxed"
[steps.verifier]
environment_mode = "separate"
[steps.verifier.environment]
{BOX_TABLE}[steps.verifier.environment.healthcheck]
{HEALTHCHECK}[[steps]]
name = "slow"
[steps.agent]
timeout_sec = 1
[steps.verifier]
timeout_sec = 1.5
"""

STEPS_FILES = {
    "one/solution/solve.sh": "id -un > /app/one\nmkdir -p /data\ntouch /data/a /data/b.lock\n",
    "one/tests/test.sh": "#!/bin/bash\necho agent=$(cat /app/one)\n"
    "echo verifier=$(id -un) $FROM\necho collected=$(cat /tmp/collected)\n"
    f"echo checks=$(cat /tmp/checks)\n{GIVE_ONE}",
    "slow/solution/solve.sh": "sleep 600\n",
    "slow/tests/test.sh": "#!/bin/bash\nsleep 600\n",
    "boxed/solution/solve.sh": "true\n",
    "boxed/tests/test.sh": BOX_TEST,
    "boxed/tests/Dockerfile": BOX_IMAGE,
}


def write_box(make_task: Any, kind: str, name: str, table: str, test: str = "") -> None:
    """A task with a verifier's box of this table: the task's, or its only step's."""
    full = f"{kind}-{name}"
    head = "" if kind == "task" else "[[steps]]\nname = 'only'\n"
    where = "verifier" if kind == "task" else "steps.verifier"
    files = {"test": test} if test else {}
    write_prebuilt(make_task, full, f"{head}[{where}.environment]\n{table}", **files)
    if test:
        make_task.write(make_task.root / full, "tests/Dockerfile", BOX_IMAGE)
    if kind != "task":
        (make_task.root / full / "instruction.md").unlink()
        make_task.write(make_task.root / full, "steps/only/instruction.md", "Do it.\n")
        tests = (make_task.root / full / "tests").rename(make_task.root / full / "moved")
        tests.rename(make_task.root / full / "steps/only/tests")


def write_tasks_with_boxes(make_task: Any) -> None:
    folder = make_task(
        "steps",
        toml=STEPS_TOML,
        remove=("instruction.md", "tests"),
        dockerfile=f"{BASE}RUN mkdir -m 777 /data\n",
    )
    for path, text in STEPS_FILES.items():
        make_task.write(folder, f"steps/{path}", text)
        make_task.write(folder, f"steps/{path.split('/')[0]}/instruction.md", "Do it.\n")
    write_prebuilt(
        make_task,
        "box",
        f"[verifier]\nenvironment_mode = 'separate'\n[verifier.environment]\n{BOX_TABLE}"
        f"[verifier.environment.healthcheck]\n{HEALTHCHECK}",
        test=BOX_TEST,
    )
    make_task.write(make_task.root / "box", "tests/Dockerfile", BOX_IMAGE)
    for kind in ("task", "step"):
        for name, table in BOX_SKIPS.items():
            write_box(make_task, kind, name, table)
        write_box(make_task, kind, "hosts", BOX_HOSTS, f"{TELL_REACHED}{GIVE_ONE}")
        write_box(make_task, kind, "image", 'docker_image = "localhost:1/box:none"\n')
        check = "[{}.healthcheck]\n{}".format(
            "verifier.environment" if kind == "task" else "steps.verifier.environment", SICK
        )
        write_box(make_task, kind, "sick", f'docker_image = "{IMAGE}"\n{check}')
    gates = "[[steps]]\nname = 'low'\nmin_reward = 2\n[[steps]]\nname = 'never'\n"
    sick = f"[[steps]]\nname = 'low'\n[steps.healthcheck]\n{SICK}[[steps]]\nname = 'never'\n"
    for task, toml in {"gate": gates, "step-unwell": sick}.items():
        write_prebuilt(make_task, task, toml)
        (make_task.root / task / "instruction.md").unlink()
        for step in ("low", "never"):
            make_task.write(make_task.root / task, f"steps/{step}/instruction.md", "Do it.\n")
    listed = 'network_mode = "allowlist"\nallowed_hosts = ["{}.example"]\n'
    phases = f"[[steps]]\nname = 'only'\n[steps.agent]\n{listed.format('e')}"
    write_prebuilt(
        make_task,
        "phases",
        f"{phases}[steps.verifier]\n{listed.format('f')}",
        solve=NOTE_REACHED,
        test=f"{TELL_REACHED}{GIVE_ONE}",
    )
    (make_task.root / "phases" / "instruction.md").unlink()
    make_task.write(make_task.root / "phases", "steps/only/instruction.md", "Do it.\n")
    compose = make_task(
        "compose",
        toml="=version = '1.0'\n[[steps]]\nname = 'only'\n"
        "artifacts = [{source = '/dump', service = 'db'}]\n"
        "[[steps.verifier.collect]]\nservice = 'db'\ncommand = 'echo in db > /dump'\n",
        remove=("instruction.md",),
    )
    make_task.write(compose, "steps/only/instruction.md", "Do it.\n")
    make_task.write(compose, "environment/docker-compose.yaml", COMPOSE)


def box_rows(table: str, kind: str, task: str, step: str = "") -> list[Row]:
    """Rows of a verifier's box, whose table stands in two places."""
    return [
        Row(
            f"{table}.env {table}.workdir",
            "pwd and $FROM of the test script",
            lambda s: s.printed(task, step)["box"],
            "/custom box",
        ),
        Row(
            f"{table}.cpus {table}.memory_mb",
            "the box's control group",
            lambda s: [s.printed(task, step)[name].split()[0] for name in ("cpus", "memory")],
            ["50000", str(256 * 1024**2)],
        ),
        Row(f"{table}.storage_mb", "a note", lambda s: s.notes(task), has("64 MB")),
        Row(f"{table}.network_mode", "interfaces", lambda s: s.printed(task, step)["net"], "lo"),
        Row(
            f"{table}.docker_image",
            "the image that could not be had",
            lambda s: s.fault(f"{kind}-image"),
            has("localhost:1/box:none"),
        ),
        Row(
            f"{table}.allowed_hosts",
            "names that the test script could look up",
            lambda s: s.printed(f"{kind}-hosts", step and "only")["verifier"],
            "d",
        ),
        Row(f"{table}.os", "reason of a skip", lambda s: s.told(f"{kind}-windows"), has("windows")),
        Row(f"{table}.gpus", "reason of a skip", lambda s: s.told(f"{kind}-gpu"), has("3 GPU")),
        Row(
            f"{table}.tpu.type {table}.tpu.topology",
            "reason of a skip",
            lambda s: s.told(f"{kind}-tpu"),
            has("v5e 2x4"),
        ),
        Row(
            f"{table}.healthcheck.command {table}.healthcheck.start_period_sec "
            f"{table}.healthcheck.start_interval_sec {table}.healthcheck.timeout_sec",
            "a check that hung and one that failed did not count; pauses between the three",
            lambda s: gaps(s.printed(task, step)["checks"]),
            lambda seen: len(seen) == 2 and min(seen) >= 0.4,
        ),
        Row(
            f"{table}.healthcheck.retries {table}.healthcheck.interval_sec",
            "two failures in a row, half a second apart",
            lambda s: s.fault(f"{kind}-sick"),
            lambda text: "failed 2 times in a row" in text and gaps(text)[0] >= 0.5,
        ),
    ]


BOX_ROWS = [
    Row(
        "verifier.environment_mode",
        "where it was graded",
        lambda s: s.result("box")["verifier_environment_mode"],
        "separate",
    ),
    *box_rows("verifier.environment", "task", "box"),
    Row(
        "steps.verifier.environment_mode",
        "a folder of the agent's that is not there",
        lambda s: s.printed("steps", "boxed")["box"],
        "/custom box",
    ),
    *box_rows("steps.verifier.environment", "step", "steps", "boxed"),
    Row(
        "steps.name",
        "steps in their order",
        lambda s: [step["step_name"] for step in s.result("steps")["step_results"]],
        ["one", "boxed", "slow"],
    ),
    Row("steps.agent.user", "id", lambda s: s.printed("steps", "one")["agent"], "worker"),
    Row(
        "steps.verifier.user steps.verifier.env",
        "id and $FROM of the test script",
        lambda s: s.printed("steps", "one")["verifier"],
        "grader step",
    ),
    Row(
        "steps.verifier.collect.command steps.verifier.collect.user",
        "ran before the verifier, as its user",
        lambda s: s.printed("steps", "one")["collected"],
        "worker",
    ),
    Row(
        "steps.verifier.collect.timeout_sec",
        "ended a hook",
        lambda s: s.notes("steps"),
        has("collect", "timed out after 1 s"),
    ),
    Row(
        "steps.agent.timeout_sec steps.verifier.timeout_sec",
        "ended both",
        lambda s: json.dumps(s.result("steps")["step_results"][2]["pytest_harbor"]["faults"]),
        has("agent timed out after 1 s", "verifier timed out after 1.5 s"),
    ),
    Row(
        "steps.artifacts.source steps.artifacts.destination steps.artifacts.exclude",
        "files among the step's artifacts",
        lambda s: s.home("steps", "one"),
        lambda seen: {"app/one", "d/a"} <= seen and not any("lock" in name for name in seen),
    ),
    Row(
        "steps.artifacts.service steps.verifier.collect.service",
        "a service beside main",
        lambda s: s.manifest("compose", "only").get("/dump"),
        "artifacts/dump",
    ),
    Row(
        "steps.healthcheck.command steps.healthcheck.start_period_sec "
        "steps.healthcheck.start_interval_sec steps.healthcheck.timeout_sec",
        "a check that hung and one that failed did not count; pauses between the three",
        lambda s: gaps(s.printed("steps", "one")["checks"]),
        lambda seen: len(seen) == 2 and min(seen) >= 0.4,
    ),
    Row(
        "steps.healthcheck.retries steps.healthcheck.interval_sec",
        "two failures in a row, half a second apart",
        lambda s: s.fault("step-unwell"),
        lambda text: "failed 2 times in a row" in text and gaps(text)[0] >= 0.5,
    ),
    Row(
        "steps.min_reward",
        "the step behind the gate never ran",
        lambda s: [step["step_name"] for step in s.result("gate")["step_results"]],
        ["low"],
    ),
    Row(
        "multi_step_reward_strategy",
        "the last step's nothing, though the others have their reward",
        lambda s: s.result("steps")["verifier_result"],
        {"rewards": {"reward": 0}},
    ),
    Row(
        "steps.agent.network_mode steps.agent.allowed_hosts "
        "steps.verifier.network_mode steps.verifier.allowed_hosts",
        "names that the agent and the verifier could look up",
        lambda s: tuple(s.printed("phases", "only")[who] for who in ("agent", "verifier")),
        ("e", "f"),
    ),
]

_BOX_HAS_NO = "a verifier has none; the author is warned"
WITHOUT_EFFECT = {
    "task.version": "kept with the task; nothing of a trial depends on it",
    "task.description": "kept with the task; nothing of a trial depends on it",
    "task.authors.name": "kept with the task; nothing of a trial depends on it",
    "task.authors.email": "kept with the task; nothing of a trial depends on it",
    "source": "kept with the task; nothing of a trial depends on it",
    "environment.gpu_types": "no engine can choose; where GPUs are given, a note says so",
    **{
        f"{table}.{field}": reason
        for table in ("verifier.environment", "steps.verifier.environment")
        for field, reason in {
            "gpu_types": "as of [environment]",
            "build_timeout_sec": "the one of [environment] counts; the author is warned",
            "skills_dir": _BOX_HAS_NO,
            **{
                f"mcp_servers.{key}": _BOX_HAS_NO
                for key in ("name", "transport", "url", "command", "args", "headers")
            },
        }.items()
    },
}


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted paths of a model's fields, down to what is no table."""
    for name, field in model.model_fields.items():
        below = model_in(field.annotation)
        if below is None:
            yield f"{prefix}{name}"
        else:
            yield from fields_of(below, f"{prefix}{name}.")


def model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(model_in, get_args(annotation))), None)


def test_the_table_names_every_field_once():
    named = [field for row in (*SHARED_ROWS, *BOX_ROWS) for field in row.fields.split()]
    assert sorted([*named, *WITHOUT_EFFECT]) == sorted(fields_of(TaskConfig))


def look_at(rows: list[Row], seen: Seen, subtests: pytest.Subtests) -> None:
    for row in rows:
        with subtests.test(msg=row.fields):
            found = row.look(seen)
            fits = row.expected(found) if callable(row.expected) else found == row.expected
            assert fits, f"{row.effect}: found {found!r}"


@pytest.mark.docker
def test_fields_seen_with_a_shared_verifier(make_task, run_tasks, pytester, subtests):
    write_shared_tasks(make_task)
    pytester.makepyfile(telling=AGENT)
    ran = run_tasks("tasks", "-rsE", "--harbor-agent=telling:Telling")
    ran.found = {
        choice: [task for task in ("shared", "slow") if f"tasks/{task}/" in run_tasks(
            "tasks/shared", "tasks/slow", "--collect-only", "-q", *choice
        ).text]
        for choice in (("-k", "findme"), ("-m", "harbor(difficulty='easy')"))
    }  # fmt: skip
    look_at(SHARED_ROWS, Seen(ran), subtests)


@pytest.mark.docker
@pytest.mark.long
def test_fields_seen_with_steps_and_separate_verifiers(make_task, run_tasks, subtests):
    write_tasks_with_boxes(make_task)
    look_at(BOX_ROWS, Seen(run_tasks("tasks", "-rsE")), subtests)
