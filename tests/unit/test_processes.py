"""Which lines of ``ps`` are of something that lives."""

import shutil
import subprocess
import sys
import time

import pytest

from pytest_harbor.environment.docker.processes import PS_ARGS, Seen

# The first thread ends by the system call, which is that of one thread alone.
LEADERLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(__import__("os").uname().machine, 93), 0)
"""
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("ps") is None, reason="needs the ps of Linux"
)


def seen(process: "subprocess.Popen[bytes]") -> Seen | None:
    told = subprocess.run(["ps", *PS_ARGS.split()], capture_output=True, text=True, check=True)
    lines = [Seen.parse(line) for line in told.stdout.splitlines()[1:]]
    return next((line for line in lines if line.pid == process.pid), None)


def as_zombie(process: "subprocess.Popen[bytes]") -> Seen:
    for _ in range(200):
        if (line := seen(process)) and line.state.startswith("Z"):
            return line
        time.sleep(0.05)
    raise AssertionError(f"process {process.pid} did not become what it is to be")


def test_a_process_whose_first_thread_has_ended_lives_on() -> None:
    process = subprocess.Popen([sys.executable, "-c", LEADERLESS])
    try:
        assert not as_zombie(process).is_dead
    finally:
        process.kill()
        process.wait()


def test_a_process_that_nobody_waited_for_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        assert as_zombie(process).is_dead
    finally:
        process.wait()
