"""Running a process and taking its measure: wall clock, CPU, peak memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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


@dataclass(frozen=True)
class ProbedRun:
    """A pytest run and what its processes told."""

    usage: Usage
    records: list[dict[str, Any]]

    @property
    def processes(self) -> int:
        """Processes started by Python."""
        return sum(len(record["processes"]) for record in self.records)

    @property
    def trials(self) -> list[dict[str, float]]:
        """Seconds of each item, and of the floor's trials after it."""
        return [trial for record in self.records for trial in record["trials"]]

    @property
    def worker_mb(self) -> float:
        """Resident memory of the largest worker at its end."""
        return max(record["rss_mb"] for record in self.records if record["worker"])


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one measurement."""
    path = Path(tempfile.mkdtemp(prefix="overhead-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def probed(cwd: Path, *arguments: str, **switches: str) -> ProbedRun:
    """Run pytest with the probe in each of its processes."""
    with scratch() as records:
        search = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        env = {"PYTHONPATH": os.pathsep.join(search), "PROBE_DIR": str(records), **switches}
        usage = pytest(cwd, "-p", "probe", *arguments, env=env)
        found = [json.loads(path.read_text()) for path in records.iterdir()]
    shutil.rmtree(cwd / "jobs", ignore_errors=True)
    return ProbedRun(usage, found)
