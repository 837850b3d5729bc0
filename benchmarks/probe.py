"""What a pytest process tells of itself at its end: load with ``-p probe``.

Environment variables: ``PROBE_DIR`` is where each process writes its record;
``PROBE_WITHOUT_TRIALS`` makes a run do everything but its tests; ``PROBE_FLOOR`` names an
image for trials on the floor, which follow every item in its own process; ``PROBE_CALLS`` records
the requests to the engine (which imports the SDK's HTTP library early: not for timing).
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from floor import connect, timed_trial

_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec"}


class Record:
    """What one process has to tell."""

    def __init__(self) -> None:
        self.processes: list[str] = []
        self.trials: list[dict[str, float]] = []
        self.calls: list[tuple[str, str, float]] = []

    def write(self, worker: str) -> None:
        """Write the record to a file of this process's own."""
        content = {
            "worker": worker,
            "processes": self.processes,
            "trials": self.trials,
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
    if os.environ.get("PROBE_WITHOUT_TRIALS"):
        config.pluginmanager.register(LeaveOut())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Time an item, and the floor after it where that is asked for."""
    began = time.perf_counter()
    answer = yield
    took = time.perf_counter() - began
    image = os.environ.get("PROBE_FLOOR")
    RECORD.trials.append({"item": took, **(_floors(item.config, image) if image else {})})
    return answer


def _floors(config: pytest.Config, image: str) -> dict[str, float]:
    """A trial on the engine's default network, and one on the network of this run."""
    from pytest_harbor.plugin.job import job

    networks = {"bridge": "bridge", "own": f"pytest-harbor-{job(config).run_id}"}
    return {name: timed_trial(_client(), image, network) for name, network in networks.items()}


@functools.cache
def _client() -> Any:
    return connect()


class LeaveOut:
    """Reports items without running them, and makes nothing ready for them."""

    def __init__(self) -> None:
        from pytest_harbor.plugin import ahead, engine

        for module, name in ((ahead, "begin"), (engine, "foresee")):
            setattr(module, name, lambda *_: None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        """Nothing but the report."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


def pytest_unconfigure(config: pytest.Config) -> None:
    """Tell."""
    RECORD.write(getattr(config, "workerinput", {}).get("workerid", ""))
