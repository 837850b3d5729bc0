"""What a pytest process tells of itself at its end: load with ``-p probe``.

Environment variables: ``PROBE_DIR`` is where each process writes its record;
``PROBE_WITHOUT_TRIALS`` makes a run do everything but its tests; ``PROBE_CALLS`` records
the requests to the engine (which imports the SDK's HTTP library early: not for timing).
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec"}


class Record:
    """What one process has to tell."""

    def __init__(self) -> None:
        self.processes: list[str] = []
        self.durations: dict[str, float] = defaultdict(float)
        self.calls: list[tuple[str, str, float]] = []

    def write(self, worker: str) -> None:
        """Write the record to a file of this process's own."""
        content = {
            "worker": worker,
            "processes": self.processes,
            "durations": self.durations,
            "calls": self.calls,
            "rss_mb": _memory("VmRSS"),
            "peak_mb": _memory("VmHWM"),
        }
        (Path(os.environ["PROBE_DIR"]) / f"{os.getpid()}.json").write_text(json.dumps(content))


RECORD = Record()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _STARTS:
        RECORD.processes.append(f"{event} {arguments[0] if arguments else ''}")


def _memory(field: str) -> float:
    """Megabytes that the kernel counts for this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def _record_calls() -> None:
    import requests

    send = requests.Session.send

    def recording(session: requests.Session, request: Any, **options: Any) -> requests.Response:
        began = time.perf_counter()
        response = send(session, request, **options)
        address = re.sub(r"/v[\d.]+/|\b[0-9a-f]{64}\b", "/", request.path_url.partition("?")[0])
        RECORD.calls.append((request.method, address, time.perf_counter() - began))
        return response

    requests.Session.send = recording  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    """Begin to listen."""
    sys.addaudithook(_audit)
    if os.environ.get("PROBE_CALLS"):
        _record_calls()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Leave the tests out, where that is asked for."""
    if not os.environ.get("PROBE_WITHOUT_TRIALS"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Sum up set-up, call and teardown of each item."""
    RECORD.durations[report.nodeid] += report.duration


def pytest_unconfigure(config: pytest.Config) -> None:
    """Tell."""
    RECORD.write(getattr(config, "workerinput", {}).get("workerid", ""))
