"""Running a process and taking its measure: wall clock, CPU, peak memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """What one process, with all children that it waited for, has used.

    Attributes:
        wall: Seconds from start to end.
        cpu: Seconds of CPU, user and system.
        peak_mb: Largest resident set of any one of them.
    """

    wall: float
    cpu: float
    peak_mb: float


def _environment() -> dict[str, str]:
    """This process's, but for what would have every import compiled anew.

    Of pytest's plugins only those that are named: others that happen to be installed
    cost every run the same, and make it noisy.
    """
    kept = {name: os.environ[name] for name in os.environ if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run(argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None) -> Usage:
    """Run a process that has to succeed; its output is shown only if it does not."""
    log = cwd / ".output"
    with log.open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**_environment(), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        # Of this child alone: the counters of all children together cannot tell its memory.
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        shown = log.read_text(errors="replace")[-4000:]
        sys.exit(f"{' '.join(argv)} ended with status {process.returncode}:\n{shown}")
    return Usage(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def pytest(cwd: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Usage:
    """Run pytest in a folder."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return run(argv, cwd, env)
