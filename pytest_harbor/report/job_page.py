"""A run as Markdown for a job's page: a table of tasks, and what was found.

Written by strangers in part: their text is shown as code, with every character that Markdown
knows written as a number, so that it makes no link, picture, mention or table cell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pytest_harbor.report.annotations import Annotation, plain, worst_first
from pytest_harbor.task.plural import in_number, number_of

MAX_BYTES = 1024 * 1024
"""What GitHub takes; of a larger file it shows nothing."""

STATIC = "check"
"""Name of the items that are static checks."""

_NAME_CHARS = 200
_MESSAGE_CHARS = 600
_MAX_COLUMNS = 6
_OTHERS = "…"
_ENDING_BYTES = 200
_ACTIVE = re.compile(r"[\\`*_{}\[\]<>()#|~&:@$!\"'^]|(?<=www)\.", re.IGNORECASE)
_MARKS = {"passed": "✅", "failed": "❌", "error": "💥", "skipped": "➖"}
_WORST = ("error", "failed", "skipped", "passed")
_NO_SOLVERS = ("nop", "planted-reward", "mutant-")


@dataclass(slots=True, eq=False)
class Outcome:
    """What became of one item.

    Attributes:
        column: Its agent, or what it proves.
        outcome: ``passed``, ``failed``, ``error`` or ``skipped``.
        reward: What it earned; None: no valid reward.
        seconds: What it took.
    """

    column: str
    outcome: str = "passed"
    reward: float | None = None
    seconds: float = 0.0


@dataclass(slots=True)
class TaskRow:
    """A task with all that ran of it.

    Attributes:
        name: Its folder.
        outcomes: Of its items, in their order.
        errors: Findings of its static checks that fail it.
        warnings: Those that do not.
    """

    name: str
    outcomes: list[Outcome] = field(default_factory=list)
    errors: int = 0
    warnings: int = 0

    @property
    def worst(self) -> str:
        """The worst of its outcomes."""
        return _worst(self.outcomes)


def code(text: str, limit: int = _NAME_CHARS) -> str:
    """Text of any origin as code, in one line."""
    line = " ".join(plain(text, limit).split())
    return f"<code>{_ACTIVE.sub(_as_number, line)}</code>"


def _as_number(found: re.Match[str]) -> str:
    # GitHub makes links of addresses of mail once numbers are characters again: it finds none
    # where something stands in front of the @.
    return f"{'<!-- -->' if found[0] == '@' else ''}&#{ord(found[0])};"


def job_page(
    tasks: Sequence[TaskRow],
    findings: Sequence[Annotation],
    notes: Iterable[str] = (),
    limit: int = MAX_BYTES,
) -> str:
    """The whole page.

    Args:
        tasks: What ran.
        findings: What was found, and why trials failed.
        notes: Lines of ours to put in front.
        limit: Bytes that it may have.
    """
    page = _Page(limit)
    page.add("## Harbor tasks\n\n")
    for note in notes:
        page.add(f"{code(note, 2000)}\n\n")
    if tasks:
        page.add(f"{_headline(tasks)}\n\n")
        columns = _columns(tasks)
        has_rewards = any(one.reward is not None for task in tasks for one in task.outcomes)
        rows = _rows(tasks, columns, has_rewards)
        page.add_all(_table_head(columns, has_rewards), rows, "rows")
    page.add_all("\n### Findings\n\n", _list(worst_first(findings)), "findings")
    return page.text()


class _Page:
    """Takes text up to a size, and says what it had to leave out."""

    def __init__(self, limit: int) -> None:
        self._left = limit - _ENDING_BYTES
        self._parts: list[str] = []
        self._left_out: Counter[str] = Counter()

    def add(self, part: str) -> bool:
        size = len(part.encode("utf-8", "replace"))
        if size > self._left:
            return False
        self._left -= size
        self._parts.append(part)
        return True

    def add_all(self, head: str, parts: Iterable[str], what: str) -> None:
        is_full = False
        for part in parts:
            is_full = is_full or not self.add(head + part)
            self._left_out[what] += is_full
            head = ""

    def text(self) -> str:
        cut = [in_number(number, what) for what, number in self._left_out.items() if number]
        if cut:
            self._parts.append(f"\nLeft out, for the page's size: {', '.join(cut)}.\n")
        return "".join(self._parts)


def _headline(tasks: Sequence[TaskRow]) -> str:
    counts = Counter(task.worst for task in tasks)
    words = {"passed": "sound", "failed": "failed", "error": "with errors", "skipped": "skipped"}
    told = [f"{_MARKS[one]} {counts[one]} {words[one]}" for one in _WORST if counts[one]]
    return f"**{len(tasks)} {'task' if len(tasks) == 1 else 'tasks'}**: {', '.join(told)}"


def _table_head(columns: Sequence[str], has_rewards: bool) -> str:
    names = ["Task", *map(_column_title, columns), *["Reward"] * has_rewards, "Time"]
    rule = f"|---|{'---|' * len(columns)}{'---:|' * has_rewards}---:|"
    return f"| {' | '.join(names)} |\n{rule}\n"


def _rows(tasks: Sequence[TaskRow], columns: Sequence[str], has_rewards: bool) -> Iterator[str]:
    for task in sorted(tasks, key=lambda one: (_WORST.index(one.worst), one.name)):
        cells = [_cell(task, column, columns) for column in columns]
        numbers = [*[_reward(task)] * has_rewards, _time(task)]
        yield f"| {' | '.join([code(task.name), *cells, *numbers])} |\n"


def _columns(tasks: Sequence[TaskRow]) -> list[str]:
    """Agents and proofs that have a column; the last one is shared where there are many."""
    found = dict.fromkeys(one.column for task in tasks for one in task.outcomes)
    first = [one for one in (STATIC, "oracle", "nop") if one in found]
    rest = [one for one in found if one not in first]
    if len(first) + len(rest) <= _MAX_COLUMNS:
        return first + rest
    kept = _MAX_COLUMNS - len(first) - 1
    return [*first, *rest[:kept], _OTHERS]


def _column_title(name: str) -> str:
    titles = {STATIC: "Static checks", "oracle": "Oracle", "nop": "Nop", _OTHERS: "Others"}
    return titles.get(name) or code(name)


def _cell(task: TaskRow, column: str, columns: Sequence[str]) -> str:
    own = [one for one in task.outcomes if one.column == column]
    if column == _OTHERS:
        own = [one for one in task.outcomes if one.column not in columns]
    if not own:
        return ""
    cell = _MARKS[_worst(own)]
    if column == STATIC:
        counts = {"error": task.errors, "warning": task.warnings}
        told = [number_of(n, what) for what, n in counts.items() if n]
        return " ".join([cell, ", ".join(told)]).strip()
    if len(own) > 1:
        cell += f" {sum(one.outcome == 'passed' for one in own)} of {len(own)}"
    return cell


def _worst(outcomes: Iterable[Outcome]) -> str:
    found = {one.outcome for one in outcomes}
    return next((one for one in _WORST if one in found), "passed")


def _reward(task: TaskRow) -> str:
    """The mean of those that were to solve it."""
    earned = [
        one.reward
        for one in task.outcomes
        if one.reward is not None and not one.column.startswith(_NO_SOLVERS)
    ]
    return f"{sum(earned) / len(earned):.3g}" if earned else ""


def _time(task: TaskRow) -> str:
    seconds = sum(one.seconds for one in task.outcomes)
    return f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def _list(findings: Sequence[Annotation]) -> Iterator[str]:
    for one in findings:
        place = "" if one.file is None else f"{one.file}:{one.line}" if one.line else one.file
        mark = {"error": "❌", "warning": "⚠️"}[one.level]
        where = f" {code(place)}" if place else ""
        said = code(one.message, _MESSAGE_CHARS)
        yield f"- {mark}{where} **{code(one.title)}**: {said}\n"
