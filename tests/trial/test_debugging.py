"""Kept environments, pytest's debugger, a job that is gone on with or read while it runs.

Commands are run as they are printed.
"""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.report.data import report_data
from pytest_harbor.report.job import read_job
from pytest_harbor.report.status import status_lines

pytestmark = [pytest.mark.docker, pytest.mark.slow]

DOCS = Path(__file__).parents[2] / "docs/debugging.md"
FAILS = "#!/bin/bash\necho key=$KEY\necho 0 > /logs/verifier/reward.txt\n"
PASSES = "#!/bin/bash\necho now $KEY by $(id -un)\necho 1 > /logs/verifier/reward.txt\n"
SEPARATE = """\
=version = '1.0'
artifacts = ['/app/out.txt']
[verifier]
environment_mode = 'separate'
"""
SHARED = """\
=version = '1.0'
[agent]
user = 'daemon'
[verifier]
user = 'www-data'
env = {KEY = '${MY_KEY}'}
"""


def left_of(engine: Any, run_id: str) -> list[str]:
    """Names of what is on the engine of a run."""
    filters = {"label": f"pytest-harbor.run={run_id}"}
    found = [each["Names"][0][1:] for each in engine.api.containers(all=True, filters=filters)]
    found += [each["Name"] for each in engine.api.networks(filters=filters)]
    return found + [each["Name"] for each in engine.api.volumes(filters=filters)["Volumes"] or []]


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as it was printed."""
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True)


def at_terminal(command: str, typed: str) -> str:
    """What a command shows on a terminal at which somebody types."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(["sh", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    return shown.decode()


def commands(text: str, task: str) -> dict[str, list[str]]:
    """The commands of a task's kept boxes, by what they do."""
    parts = text.partition("kept environment")[2].split("---\n")
    (part,) = [one for one in re.split(r"-{9,}", "".join(parts)) if f"/{task}__" in one]
    found: dict[str, list[str]] = {}
    for what, command in re.findall(r"^(\w+):\s+(.*)$", part, re.MULTILINE):
        found.setdefault(what, []).append(command)
    return found


def test_a_kept_box_is_entered_graded_again_and_removed(
    make_task: Any, run_tasks: Any, pytester: pytest.Pytester, engine: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("MY_KEY", "s3cr3t-value")
    task = make_task("my task", toml=SHARED, test=FAILS)
    ran = run_tasks("tasks", "--harbor-agent-command=echo ok > /tmp/out.txt", "--harbor-keep")
    assert "s3cr3t" not in ran.text
    found = commands(ran.text, "my-task")
    assert "pwd=/app daemon ok" in at_terminal(
        found["enter"][0], 'echo "pwd=$(pwd) $(id -un) $(cat /tmp/out.txt)"\nexit\n'
    )
    make_task.write(task, "tests/test.sh", PASSES)
    graded = shell(found["verify"][0], pytester.path)
    assert "now [REDACTED] by www-data" in graded.stdout, graded
    assert "reward 1 reaches the threshold 1" in graded.stdout
    assert graded.returncode == 0
    (reward,) = ran.folder("my task").glob("verifier-again-1/verifier/reward.txt")
    assert reward.read_text() == "1\n"
    removed = shell(found["remove"][0], pytester.path)
    assert removed.returncode == 0, removed.stderr
    assert left_of(engine, ran.folder("my task").parent.name.rpartition("__")[2]) == []


GATED = """\
=version = '1.0'
[environment]
network_mode = 'allowlist'
allowed_hosts = ['198.51.100.7']
"""
COMPOSE = """\
services:
  main: {volumes: ['data:/v']}
  side: {image: debian:bookworm-slim, command: sleep infinity}
volumes: {data: {}}
"""
STEPS = "=version = '1.0'\n[[steps]]\nname = 'one'\n[[steps]]\nname = 'two'\n"


@pytest.mark.long
def test_a_removed_trial_takes_nothing_from_another(
    make_task: Any, run_tasks: Any, pytester: pytest.Pytester, engine: Any
) -> None:
    for name in ("a", "b"):
        make_task(name, toml=GATED, test=FAILS)
    project = make_task("c", test=FAILS)
    make_task.write(project, "environment/docker-compose.yaml", COMPOSE)
    steps = make_task("d", toml=STEPS, remove=("instruction.md",))
    for name in ("one", "two"):
        make_task.write(steps, f"steps/{name}/instruction.md", "Do it.")
        make_task.write(steps, f"steps/{name}/tests/test.sh", FAILS.replace("$KEY", name))
    make_task("e", toml=SEPARATE, test=FAILS)
    ran = run_tasks("tasks", "--harbor-agent=nop", "--harbor-keep", "-p", "no:randomly")
    run_id = ran.folder("a").parent.name.rpartition("__")[2]
    sizes = {"c": 4, "d": 1, "e": 2, "a": 3}
    for name in ("c", "d", "e", "a", "b"):
        found = commands(ran.text, name)
        assert len(found["enter"]) == len(found["kept"]) == (2 if name == "e" else 1)
        graded = shell(found["verify"][0], pytester.path)
        assert graded.returncode == 1, graded
        assert ("key=two" if name == "d" else "key=") in graded.stdout
        before = left_of(engine, run_id)
        guards = [one for one in before if "-guard-" in one]
        assert guards
        assert shell(found["remove"][0], pytester.path).returncode == 0
        left = left_of(engine, run_id)
        if name != "b":
            assert set(guards) < set(left)
            assert len([one for one in before if one not in left]) == sizes[name]
    assert left == []
    gone = shell(found["verify"][0], pytester.path)
    assert gone.returncode == 4
    assert "no environment of this trial or job is kept" in gone.stderr


# --- the debugger


def debugged(folder: Path, typed: str, *args: str) -> str:
    """What pytest prints where somebody types at its debugger."""
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tasks", *args]
    done = subprocess.run(
        words, cwd=folder, input=typed, capture_output=True, text=True, timeout=200
    )
    return done.stdout


def test_the_debugger_stops_with_the_environment_alive(
    make_task: Any, pytester: pytest.Pytester, engine: Any
) -> None:
    make_task(test=FAILS)
    typed = re.findall(r"^\(Pdb\) (.*)$", DOCS.read_text(), re.MULTILINE)
    assert typed[-1] == "q"
    shown = debugged(pytester.path, "\n".join(typed) + "\n", "--pdb")
    assert shown.count("entering PDB") == 1
    box = re.search(r"docker exec -it --workdir /app (hello-\w+) bash", shown)
    assert box, shown
    for said in ("(Pdb) 'ok\\n'", "(Pdb) {'reward': 0.0}", f"(Pdb) ['{box[1]}']"):
        assert said in shown, shown
    (job,) = (pytester.path / "jobs").iterdir()
    assert left_of(engine, job.name.rpartition("__")[2]) == []


HOOKS = """
import os, pytest

@pytest.fixture
def harbor_environment(harbor_environment):
    if os.environ["WHERE"] == "fixture":
        breakpoint()
    return harbor_environment

def pytest_harbor_before_phase(phase, environment):
    if os.environ["WHERE"] == phase:
        raise RuntimeError("boom")
"""
PWD = "p harbor_environment.exec('pwd').stdout\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "typed", "args"),
    [
        ("verifier", f"{PWD.replace('harbor_', '')}c\n", ["--pdb"]),
        ("fixture", f"{PWD}c\n", []),
        ("start", f"{PWD}c\n", ["--pdb", "--harbor-retries=0"]),
        ("trace", f"n\nn\nn\n{PWD}c\n", ["--trace"]),
        ("class", f"{PWD}c\n", ["--pdb", "--pdbcls=pdb:Pdb"]),
    ],
)
def test_the_debugger_stops_wherever_something_breaks(
    make_task: Any,
    pytester: pytest.Pytester,
    engine: Any,
    monkeypatch: Any,
    where: str,
    typed: str,
    args: list[str],
) -> None:
    sick = "[environment.healthcheck]\ncommand = 'exit 1'\nretries = 1\n"
    make_task(test=FAILS, toml=sick if where == "start" else "")
    pytester.makeconftest(HOOKS)
    monkeypatch.setenv("WHERE", where)
    shown = debugged(pytester.path, typed, *args)
    assert "(Pdb) '/app\\n'" in shown, shown
    (job,) = (pytester.path / "jobs").iterdir()
    assert left_of(engine, job.name.rpartition("__")[2]) == []


# --- a job that ended early, or runs


def ended_in(pytester: pytest.Pytester, task: str, how: Any, *args: str) -> Path:
    """The folder of a job that ended while an agent worked on a task."""
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly"]
    with subprocess.Popen(
        [*words, "tasks", *args],
        cwd=pytester.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            logs = pytester.path.glob(f"jobs/*/{task}__*/trial.log")
            if any("agent begins" in log.read_text() for log in logs):
                break
            time.sleep(0.05)
        how(process)
        process.communicate(timeout=60)
    (job,) = (pytester.path / "jobs").iterdir()
    return job


def killed(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def interrupted(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGINT)


def without_a_worker(process: subprocess.Popen[bytes]) -> None:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)


class Reader(threading.Thread):
    """Reads a project's jobs again and again, as people's scripts and the reports do.

    Attributes:
        torn: Files that were no JSON, and what went wrong.
        seen: How many trials were unfinished, and how many done, at a time.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._ended = threading.Event()
        self.torn: list[str] = []
        self.seen: set[tuple[int, int]] = set()

    def run(self) -> None:
        while not self._ended.is_set():
            for job in self._folder.glob("jobs/*"):
                self._read(job)

    def _read(self, job: Path) -> None:
        # Unlike pathlib's, this walk goes on where a folder was moved meanwhile.
        walked = (Path(base, name) for base, _, names in os.walk(job) for name in names)
        for file in (one for one in walked if one.suffix == ".json"):
            try:
                json.loads(file.read_text())
            except FileNotFoundError:
                continue
            except ValueError as error:
                self.torn.append(f"{file}: {error}")
        if (job / "config.json").exists():
            found = read_job(job)
            list(status_lines(found))
            states = [row["outcome"] for row in report_data(found, found.trials)["trials"]]
            there = [one for one in found.trials if one.folder and one.folder.exists()]
            self.torn += [str(one.problems) for one in there if one.problems]
            self.seen.add((states.count("unfinished"), states.count("passed")))

    def end(self) -> None:
        self._ended.set()
        self.join(60)


WAITS = "#!/bin/bash\necho ok > /app/out.txt\nsleep $WAIT\n"


@pytest.mark.parametrize(
    ("how", "args"),
    [
        (killed, []),
        pytest.param(interrupted, [], marks=pytest.mark.long),
        pytest.param(without_a_worker, ["-n1"], marks=pytest.mark.long),
    ],
)
def test_a_job_that_ended_early_is_gone_on_with(
    make_task: Any, run_tasks: Any, pytester: pytest.Pytester, monkeypatch: Any, how: Any, args: Any
) -> None:
    make_task("a")
    make_task("b", test=FAILS)
    make_task("c", solve=WAITS, toml="[solution.env]\nWAIT = '${WAIT}'\n")
    monkeypatch.setenv("WAIT", "300")
    job = ended_in(pytester, "c", how, "--max-worker-restart=0", *args)
    (old,) = job.glob("c__*")
    earlier = json.loads((job / "result.json").read_text())
    if how is killed:
        assert "was cut off, in the phase agent" in "\n".join(status_lines(read_job(job)))
    monkeypatch.setenv("WAIT", "0.3")
    reader = Reader(pytester.path)
    reader.start()
    try:
        ran = run_tasks("tasks", "-p", "no:randomly", "--harbor-resume")
    finally:
        reader.end()
    ran.run.assert_outcomes(passed=2, failed=1)
    ran.run.stdout.fnmatch_lines(
        ["reward 0 is below the threshold 1", f"from job {job.name} (resumed)*", "key="]
    )
    assert ran.folder("c").name != old.name
    assert [path.name for path in (job / ".set-aside").iterdir()] == [old.name]
    content = json.loads((job / "result.json").read_text())
    assert content["id"] == earlier["id"]
    assert content["n_total_trials"] == content["stats"]["n_completed_trials"] == 3
    assert content["finished_at"]
    assert reader.torn == []
    assert (1, 1) in reader.seen
