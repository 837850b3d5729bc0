"""Live lines on a terminal: where each running trial is, in whatever process it runs."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_harbor.plugin.job import job
from pytest_harbor.plugin.options import settings
from pytest_harbor.plugin.progress_area import LiveArea
from pytest_harbor.plugin.progress_lines import Counts, Shown, progress_lines
from pytest_harbor.trial.status import RunningTrial, read_running

_EVERY_SEC = 0.5
_SHOWN_FROM_SEC = 1.0
"""Trials that are over sooner need no line."""
_CI = ("CI", "BUILD_NUMBER")
"""Variables by which pytest, too, knows that it runs where nobody looks on."""


def begin(
    config: pytest.Config, running: Callable[[], Mapping[str, float]], counts: Callable[[], Counts]
) -> None:
    """Show live lines from now on, where they are wanted and can be shown.

    Args:
        config: Of the run.
        running: Gives the items that run now, and when they began.
        counts: Gives how far the run is.
    """
    if not is_wanted(config):
        return
    fd = os.dup(sys.stdout.fileno())
    area = LiveArea(fd, sys.stdout.encoding or "ascii", config.get_terminal_writer())
    current = job(config)
    live = LiveProgress(area, current.path, current.run_id, running, counts)
    config.pluginmanager.register(live, "harbor-progress")


def is_wanted(config: pytest.Config) -> bool:
    """Whether there is a terminal that can show them, and somebody who looks on."""
    choice = settings(config).progress
    if choice == "off" or not _can_show(config):
        return False
    return choice == "on" or _somebody_looks(config)


def _can_show(config: pytest.Config) -> bool:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    # Another reporter may move the cursor itself.
    if type(reporter) is not pytest.TerminalReporter or not reporter.isatty():
        return False
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return (
            os.name == "posix"
            and os.isatty(sys.stdout.fileno())
            and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
        )
    return False


def _somebody_looks(config: pytest.Config) -> bool:
    if any(os.environ.get(name) for name in _CI) or config.get_verbosity() < -1:
        return False
    # What tests print would get between the lines; what workers print is never shown.
    prints = config.getoption("capture") in ("no", "tee-sys")
    return not prints or config.pluginmanager.hasplugin("dsession")


class LiveProgress:
    """Shows the trials that run, until the run ends."""

    def __init__(
        self,
        area: LiveArea,
        job_dir: Path,
        run_id: str,
        running: Callable[[], Mapping[str, float]],
        counts: Callable[[], Counts],
    ) -> None:
        self._area = area
        self._job_dir = job_dir
        self._run_id = run_id
        self._running = running
        self._counts = counts
        self._paused = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="harbor-progress", daemon=True)
        self._thread.start()

    def pytest_runtest_logstart(self) -> None:
        """Whoever had the terminal has given it back."""
        self._paused = False

    def pytest_enter_pdb(self) -> None:
        """Somebody types."""
        self._paused = True
        self._area.clear()

    def pytest_leave_pdb(self) -> None:
        """They are done."""
        self._paused = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """No trial runs any more."""
        self.end()

    def pytest_unconfigure(self) -> None:
        """The same where the session broke."""
        self.end()

    def end(self) -> None:
        """Give the terminal back."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            self._area.close()

    def _follow(self) -> None:
        # The terminal may be gone, or show what it cannot; no test fails for its lines.
        with contextlib.suppress(Exception):
            while not self._ended.wait(_EVERY_SEC):
                if not self._paused:
                    self._area.show(self._lines())

    def _lines(self) -> list[str]:
        running, now = self._running(), time.time()
        if all(now - begun < _SHOWN_FROM_SEC for begun in running.values()):
            return []
        known = {one.item: one for one in self._told() if one.item in running}
        trials = [_shown(item, begun, known.get(item)) for item, begun in running.items()]
        columns, rows = self._area.size
        return progress_lines(
            trials, self._counts(), now, columns=columns - 1, rows=max(rows // 2, 1)
        )

    def _told(self) -> list[RunningTrial]:
        return [one for one in read_running(self._job_dir) if one.run == self._run_id]


def _shown(item: str, begun: float, told: RunningTrial | None) -> Shown:
    """Before a trial has its folder, and after it is gone, only its item is known."""
    if told is None:
        return Shown(item, begun, "", "", begun, "")
    return Shown(item, begun, told.phase, told.step, told.since, told.doing)
