"""The live lines as text: one for each trial that runs, cut to the terminal's size."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

_NAMES = {"": "start", "agent_setup": "agent set-up"}
_MOST_OF_WIDTH_FOR_NAMES = 0.4
_CUT = ".."


class Shown(NamedTuple):
    """A trial that runs.

    Attributes:
        item: Id of its item.
        started: When it began.
        phase: Where it is; empty before its first phase.
        step: The step, in a task of several.
        since: When it came there.
        doing: What takes long there; mostly empty.
    """

    item: str
    started: float
    phase: str
    step: str
    since: float
    doing: str


class Counts(NamedTuple):
    """How far the run is, in trials."""

    ended: int
    expected: int
    failed: int


def progress_lines(
    trials: Sequence[Shown], counts: Counts, now: float, *, columns: int, rows: int
) -> list[str]:
    """A head, then the trials that fit, the oldest first.

    Args:
        trials: Those that run.
        counts: Of the run.
        now: The time, as in ``trials``.
        columns: Width that the lines may take.
        rows: How many lines there may be.
    """
    head = [_head(counts, len(trials))] if counts.expected > 1 else []
    room = max(rows - len(head), 1)
    shown = sorted(trials, key=lambda one: one.started)
    more = len(shown) - room + 1 if len(shown) > room else 0
    shown = shown[: len(shown) - more]
    names = [short_name(one.item) for one in shown]
    width = min(max(map(cells, names), default=0), int(columns * _MOST_OF_WIDTH_FOR_NAMES))
    lines = [_line(one, name, width, now) for one, name in zip(shown, names, strict=True)]
    rest = [f"        and {more} more"] if more else []
    return [cut(line, columns) for line in [*head, *lines, *rest]]


def _head(counts: Counts, running: int) -> str:
    failed = f", {counts.failed} failed" if counts.failed else ""
    return f"harbor: {counts.ended} of {counts.expected} trials done{failed}; {running} running"


def _line(trial: Shown, name: str, width: int, now: float) -> str:
    phase = _NAMES.get(trial.phase, trial.phase)
    step = f" ({trial.step})" if trial.step else ""
    name = cut(name, width)
    name += " " * (width - cells(name))
    where = f"{phase}{step} {age(now - trial.since)}" if trial.phase else phase
    doing = f": {trial.doing}" if trial.doing else ""
    return plain(f"{age(now - trial.started):>7}  {name}  {where}{doing}")


def short_name(item: str) -> str:
    """``hello::oracle`` for ``tasks/hello/task.toml::oracle``."""
    path, separator, name = item.partition("::")
    folder = path.removesuffix("/task.toml").rpartition("/")[2]
    return plain(f"{folder}{separator}{name}")


def age(seconds: float) -> str:
    """A length of time as a clock shows it: ``0:42``, ``1:02:03``."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def plain(text: str) -> str:
    """The text on one line, without anything that a terminal obeys or that turns its direction."""
    return "".join(char if char.isprintable() else "?" for char in text)


def cells(text: str) -> int:
    """How many columns a text takes."""
    return sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """The beginning of a text that is too wide; says that there was more."""
    if cells(text) <= columns:
        return text
    room, kept = columns - len(_CUT), ""
    for char in text:
        room -= _cells(char)
        if room < 0:
            break
        kept += char
    return (kept + _CUT)[: max(columns, 0)]
