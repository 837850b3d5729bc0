"""The program in gateways and host guards, run here without its containers."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_harbor.environment.docker.gateway import control


@pytest.mark.parametrize("told", ["its input ends", "a sweep ends it"])
def test_what_is_to_be_done_at_the_end_is_done(tmp_path: Path, told: str) -> None:
    mark = tmp_path / "ended"
    command = f"touch {mark}"
    program = subprocess.Popen(
        [sys.executable, control.__file__, "127.0.0.1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with program:
        assert program.stdin
        assert program.stdout
        program.stdin.write(f"finally_run||{len(command)}\n{command}".encode())
        program.stdin.flush()
        assert program.stdout.readline().startswith(b"ok ")
        if told == "a sweep ends it":
            program.send_signal(signal.SIGTERM)
        else:
            program.stdin.close()
        program.wait(timeout=30)
    assert mark.exists()
