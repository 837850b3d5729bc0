"""Real trials, followed on a terminal: an image's build with its step, then the phases."""

import os
import sys
from pathlib import Path

import pytest

from tests.screen import Screen

BUILD = """\
FROM debian:bookworm-slim
WORKDIR /app
RUN echo {tmp} && sleep 3
"""


@pytest.mark.docker
@pytest.mark.long
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_build_and_the_phases_are_followed(make_task, pytester, engine, workers, tmp_path: Path):
    slow = "#!/bin/bash\nsleep 3\necho ok > /app/out.txt\n"
    make_task("built", dockerfile=BUILD.format(tmp=tmp_path), solve=slow)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", workers, "tasks"]
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "BUILD_NUMBER")}
    with Screen(100, 40) as screen:
        screen.run(command, {**env, "TERM": "xterm"}, pytester.path)
        screen.read_until("built::oracle", "environment", "building built: 3/3 RUN echo")
        screen.read_until("built::oracle  agent 0:0")
        assert screen.wait() == 0, screen.text
        assert "::oracle  " not in screen.text
        assert "oracle: 1 of 1 valid rewards passed; mean reward 1" in screen.text
    (job,) = pytester.path.glob("jobs/*")
    assert not (job / ".running").exists()
