"""A phase's view of an environment: its defaults, its time, its end."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.environment.base import DownloadReport, Environment, ExecResult
from pytest_harbor.environment.phase import PhaseEnvironment
from pytest_harbor.environment.process import Process
from pytest_harbor.errors import AgentTimeoutError


class Recording(Environment):
    """Takes note of what it is asked; there is nothing behind it."""

    name = "recording"
    default_user = "root"
    workdir = "/app"
    notes = ("no storage limit",)

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.timed_out = False

    def start(self, *, timeout_sec: float | None = None) -> None: ...

    def stop(self) -> None: ...

    def exec(self, command: Any, **options: Any) -> ExecResult:
        self.asked.append(("exec", options))
        return ExecResult(None if self.timed_out else 0, "", "", 0.0, timed_out=self.timed_out)

    def upload(self, source: Path, target: str, **options: Any) -> None:
        self.asked.append(("upload", {"source": source, "target": target, **options}))

    def download(self, source: str, target: Path, **options: Any) -> DownloadReport:
        self.asked.append(("download", {"source": source, "target": target, **options}))
        return DownloadReport(files=("a",))

    def read(self, path: str, **options: Any) -> bytes:
        self.asked.append(("read", {"path": path, **options}))
        return b"content"

    def write(self, path: str, data: bytes | str, **options: Any) -> None:
        self.asked.append(("write", {"path": path, "data": data, **options}))

    @property
    def last(self) -> dict[str, Any]:
        return self.asked[-1][1]


def view(
    inner: Environment,
    *,
    user: str | int | None = None,
    env: Mapping[str, str] | None = None,
    timeout_sec: float | None = None,
) -> PhaseEnvironment:
    return PhaseEnvironment(inner, user=user, env=env or {}, timeout_sec=timeout_sec)


def every_call(environment: Environment) -> list[Any]:
    return [
        lambda: environment.exec("true"),
        lambda: environment.upload(Path("a"), "/a"),
        lambda: environment.download("/a", Path("a")),
        lambda: environment.read("/a"),
        lambda: environment.write("/a", "x"),
    ]


def test_what_the_phase_does_not_say_is_the_environments() -> None:
    phase = view(Recording())
    assert (phase.name, phase.default_user, phase.workdir) == ("recording", "root", "/app")
    assert phase.notes == ("no storage limit",)


def test_a_command_that_names_no_user_runs_as_the_phases() -> None:
    inner = Recording()
    phase = view(inner, user=1000)
    assert phase.default_user == "1000"
    phase.exec("true")
    assert inner.last["user"] == 1000
    phase.exec("true", user="root")
    assert inner.last["user"] == "root"
    view(inner).exec("true")
    assert inner.last["user"] is None


def test_a_commands_variables_are_laid_over_the_phases() -> None:
    inner = Recording()
    view(inner, env={"A": "1", "B": "1"}).exec("true", env={"B": "2", "C": "3"})
    assert inner.last["env"] == {"A": "1", "B": "2", "C": "3"}


def test_everything_else_is_handed_on() -> None:
    inner = Recording()
    phase = view(inner, timeout_sec=60)
    phase.exec("true", cwd="/x", merge_streams=True, timeout_sec=5)
    assert inner.last["cwd"] == "/x"
    assert inner.last["merge_streams"] is True
    phase.upload(Path("a"), "/a", executable=["x"], replace=True, clear=["/b"])
    assert inner.last["executable"] == ["x"]
    assert (inner.last["replace"], inner.last["clear"]) == (True, ["/b"])
    assert phase.download("/a", Path("b")).files == ("a",)
    assert phase.read("/a", max_bytes=7) == b"content"
    assert inner.last == {"path": "/a", "max_bytes": 7}
    phase.write("/a", "x", mode=0o600)
    assert inner.last == {"path": "/a", "data": "x", "mode": 0o600}


@pytest.mark.parametrize(
    ("phase_limit", "own_limit", "expected"),
    [(None, None, None), (None, 5, 5), (60, 5, 5), (60, None, 60), (60, 600, 60)],
)
def test_the_shorter_limit_holds(
    phase_limit: float | None, own_limit: float | None, expected: float | None
) -> None:
    inner = Recording()
    view(inner, timeout_sec=phase_limit).exec("true", timeout_sec=own_limit)
    given = inner.last["timeout_sec"]
    if expected is None or expected == own_limit:
        assert given == expected
    else:
        assert expected - 30 < given <= expected


def test_a_command_at_its_own_limit_is_a_result() -> None:
    inner = Recording()
    inner.timed_out = True
    assert view(inner, timeout_sec=60).exec("true", timeout_sec=5).timed_out


def test_a_command_at_the_phases_limit_ends_the_phase() -> None:
    inner = Recording()
    inner.timed_out = True
    with pytest.raises(AgentTimeoutError, match="agent timed out after 60 s"):
        view(inner, timeout_sec=60).exec("true")


def test_nothing_is_handed_on_after_the_limit() -> None:
    inner = Recording()
    phase = view(inner, timeout_sec=0.001)
    time.sleep(0.01)
    for call in every_call(phase):
        with pytest.raises(AgentTimeoutError, match=r"agent timed out after 0\.001 s"):
            call()
    assert inner.asked == []


@pytest.mark.parametrize("limit", [None, 60.0, float("inf")])
def test_nothing_is_handed_on_after_the_end(limit: float | None) -> None:
    inner = Recording()
    phase = view(inner, timeout_sec=limit)
    phase.read("/a")
    phase.close()
    for call in every_call(phase):
        with pytest.raises(AgentTimeoutError):
            call()
    assert len(inner.asked) == 1


def test_a_phase_neither_starts_nor_stops_its_environment() -> None:
    phase = view(Recording())
    with pytest.raises(RuntimeError, match="started already"):
        phase.start()
    with pytest.raises(RuntimeError, match="the trial stops"):
        phase.stop()


class Talking(Process):
    """A process that does nothing but end when it is closed."""

    exit_code = None
    stderr = ""

    def __init__(self) -> None:
        self.closed = False

    def write(self, data: bytes) -> None: ...

    def end_input(self) -> None: ...

    def read(self, timeout_sec: float | None = None) -> bytes | None:
        return b"" if self.closed else None

    def wait(self, timeout_sec: float | None = None) -> bool:
        return self.closed

    def close(self, grace_sec: float = 0) -> None:
        self.closed = True


class RunningProcesses(Recording):
    def open_process(self, command: Any, **options: Any) -> Process:
        self.asked.append(("open_process", options))
        return Talking()


def test_a_process_gets_the_phases_user_and_variables_and_ends_with_it() -> None:
    inner = RunningProcesses()
    phase = view(inner, user="agent", env={"A": "1", "B": "1"})
    process = phase.open_process(["cat"], env={"B": "2"})
    assert inner.last["user"] == "agent"
    assert inner.last["env"] == {"A": "1", "B": "2"}
    assert not process.wait()
    phase.close()
    assert process.wait()
    with pytest.raises(AgentTimeoutError):
        phase.open_process(["cat"])
