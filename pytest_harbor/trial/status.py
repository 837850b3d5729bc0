"""Where a trial is while it runs: a small file in the job's folder, gone when it has ended.

The controller of pytest-xdist reads it for its live lines, and so may anybody else. What is
left of a process that was killed says how far it came.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = ".running"
"""In the job's folder; a file for each trial that runs."""

_THEN = {"agent": "artifacts", "verifier": "end"}
"""What follows a phase without being one."""


class RunningTrial(NamedTuple):
    """A trial that runs, or was cut off by the end of its process.

    Attributes:
        item: Id of pytest's item.
        run: Id of the run.
        started: Seconds since 1970.
        phase: Where it is: a phase, ``artifacts`` or ``end``; empty: before the first.
        step: The step, in a task of several.
        since: When it came there.
        doing: What takes long just now, as an image's build with its step; mostly empty.
    """

    item: str
    run: str
    started: float
    phase: str
    step: str
    since: float
    doing: str


def read_running(job_dir: Path) -> list[RunningTrial]:
    """The trials that run now, in the order of their start; unreadable files are left out."""
    found: list[RunningTrial] = []
    with contextlib.suppress(OSError):
        for file in sorted((job_dir / FOLDER).glob("*.json")):
            # It may be gone by now.
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                found.append(_parsed(json.loads(file.read_text(encoding="utf-8"))))
    return sorted(found, key=lambda one: (one.started, one.item))


def _parsed(text: Mapping[str, Any]) -> RunningTrial:
    numbers = {name: float(text[name]) for name in ("started", "since")}
    words = {name: str(text[name]) for name in ("item", "run", "phase", "step", "doing")}
    return RunningTrial(**words, **numbers)  # type: ignore[arg-type]


def forget_running(job_dir: Path) -> None:
    """The run has ended: what processes that died left is of no more use."""
    shutil.rmtree(job_dir / FOLDER, ignore_errors=True)


class TrialStatus:
    """Writes the file of one trial; silent where it cannot, for the trial's sake."""

    def __init__(self, file: Path, clean: Callable[[str], str] = str) -> None:
        """A status in ``file``, written from :meth:`begin` on.

        Args:
            file: Below the job's :data:`FOLDER`.
            clean: Takes secrets out of what goes on.
        """
        self._file = file
        self._clean = clean
        self._now: RunningTrial | None = None
        # A build's steps are told from the thread that reads its output.
        self._lock = threading.Lock()

    def begin(self, *, item: str, run: str) -> None:
        """The trial has its folder, and begins."""
        now = time.time()
        self._write(RunningTrial(item, run, now, "", "", now, ""))

    def phase(self, phase: str, step: str = "") -> None:
        """The trial comes to a phase."""
        if self._now is not None:
            self._write(self._now._replace(phase=phase, step=step, since=time.time(), doing=""))

    def after(self, phase: str) -> None:
        """A phase has ended."""
        if phase in _THEN:
            self.phase(_THEN[phase], self._now.step if self._now else "")

    def doing(self, doing: str) -> None:
        """Something in a phase takes long; empty: no more."""
        if self._now is not None and doing != self._now.doing:
            self._write(self._now._replace(doing=doing))

    def end(self) -> None:
        """The trial has ended, and left nothing on the engine that it does not keep."""
        with self._lock:
            self._now = None
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)
                self._file.parent.rmdir()  # only where it was the last

    def _write(self, status: RunningTrial) -> None:
        with self._lock:
            self._now = status
            # A full disk: nobody sees where the trial is, and it runs on.
            with contextlib.suppress(OSError):
                self._put(json.dumps({**status._asdict(), "doing": self._clean(status.doing)}))

    def _put(self, text: str) -> None:
        try:
            self._replace(text)
        except FileNotFoundError:
            # The folder goes with the last trial that runs, in whatever process.
            self._file.parent.mkdir(exist_ok=True)
            self._replace(text)

    def _replace(self, text: str) -> None:
        draft = self._file.with_suffix(".part")
        draft.write_text(text, encoding="utf-8")
        draft.replace(self._file)
