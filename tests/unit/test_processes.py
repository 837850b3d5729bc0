"""Which lines of ``ps`` are of something that lives."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_harbor.environment.docker import process_table
from pytest_harbor.environment.docker.process_table import Seen, group_in, processes_in, see
from pytest_harbor.environment.docker.processes import PS_ARGS

# The first thread ends by the system call, which is that of one thread alone.
LEADERLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(__import__("os").uname().machine, 93), 0)
"""
Look = Callable[["subprocess.Popen[bytes]"], Seen | None]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("ps") is None, reason="needs the ps of Linux"
)


def by_ps(process: "subprocess.Popen[bytes]") -> Seen | None:
    told = subprocess.run(["ps", *PS_ARGS.split()], capture_output=True, text=True, check=True)
    lines = [Seen.parse(line) for line in told.stdout.splitlines()[1:]]
    return next((line for line in lines if line.pid == process.pid), None)


def by_kernel(process: "subprocess.Popen[bytes]") -> Seen | None:
    return see(process.pid)


both = pytest.mark.parametrize("seen", [by_ps, by_kernel])


def as_zombie(process: "subprocess.Popen[bytes]", seen: Look) -> Seen:
    for _ in range(200):
        if (line := seen(process)) and line.state.startswith("Z"):
            return line
        time.sleep(0.05)
    raise AssertionError(f"process {process.pid} did not become what it is to be")


@both
def test_a_process_whose_first_thread_has_ended_lives_on(seen: Look) -> None:
    process = subprocess.Popen([sys.executable, "-c", LEADERLESS])
    try:
        assert not as_zombie(process, seen).is_dead
    finally:
        process.kill()
        process.wait()


@both
def test_a_process_that_nobody_waited_for_is_dead(seen: Look) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        assert as_zombie(process, seen).is_dead
    finally:
        process.wait()


def test_the_kernel_tells_what_ps_tells() -> None:
    # A name with what parts the fields of the kernel's words.
    process = subprocess.Popen(["sh", "-c", "read -r _", "a) R 1 (b"], stdin=subprocess.PIPE)
    try:
        told, known = by_ps(process), by_kernel(process)
        assert told is not None
        assert known is not None
        parts = ("pid", "parent", "command")
        assert [getattr(told, part) for part in parts] == [getattr(known, part) for part in parts]
        assert told.state[0] == known.state[0]
        assert known.key == see(process.pid).key
    finally:
        process.communicate()


def test_what_ends_before_it_is_looked_at_runs(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (inner / "cgroup.procs").write_text(f"{process.pid}\n")
    found = processes_in(tmp_path)
    assert set(found) == {os.getpid(), process.pid}
    assert not found[process.pid].is_dead


@pytest.mark.parametrize("text", ["0\n", None])
def test_a_group_that_does_not_tell_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "cgroup.procs").write_text(text)
    with pytest.raises(OSError, match=r"does not tell|No such file"):
        processes_in(tmp_path)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("0::/docker/abc", "docker/abc"),
        ("0::/system.slice/docker-abc.scope/init.scope", "system.slice/docker-abc.scope"),
        ("9:pids:/docker/abc", "pids/docker/abc"),
        ("9:devices:/docker/abc", None),
        ("0::/docker/other", None),
        ("0::/../../docker/abc", None),
        ("0::/", None),
    ],
)
def test_the_group_of_a_container_has_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, place: str | None
) -> None:
    monkeypatch.setattr(process_table, "_GROUPS", tmp_path)
    for folder in ("docker/abc", "system.slice/docker-abc.scope/init.scope", "pids/docker/abc"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in [each for each in tmp_path.rglob("*") if each.is_dir()]:
        (folder / "cgroup.procs").touch()
    assert group_in(f"{line}\n", "abc") == (place and tmp_path / place)
