"""A selection as JSON: in the job's folder, in its ``result.json``, or a file of one's own."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_harbor.errors import OptionError
from pytest_harbor.report.data import plain
from pytest_harbor.report.files import UnreadableError, read_object, unlinked, write_lines
from pytest_harbor.report.job import SELECTION_FOLDER
from pytest_harbor.selection.candidate import Group, Selector
from pytest_harbor.selection.choose import Earlier, Selected, Selection
from pytest_harbor.selection.numbers import Figures, figures

SCHEMA_VERSION = 1

_UNSAFE = re.compile(r"[^\w.-]+")
_NAME_CHARS = 60


def document(selection: Selection) -> dict[str, Any]:
    """All of a selection."""
    return {
        "schema_version": SCHEMA_VERSION,
        **summary(selection),
        "tasks": [_task(one) for one in selection.tasks],
    }


def summary(selection: Selection) -> dict[str, Any]:
    """Its figures, and the chosen trials by name; what ``result.json`` holds."""
    found = {
        "selector": selection.selector.name,
        "attempts": selection.expected,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "figures": [_figures(one) for one in figures(selection)],
        "selected": [one.choice.candidate.trial for one in selection.tasks if one.choice],
        "not_selected": [{**_names(one), "problem": one.problem} for one in selection.problems],
        "usage": usage(selection.tasks),
    }
    return dict(plain(found))


def usage(tasks: Sequence[Selected]) -> dict[str, Any] | None:
    """What a judge's votes took; None where there are none. Unknown parts make it unknown."""
    votes = [vote for one in tasks for vote in _votes(one)]
    if not votes:
        return None
    before = sum(1 for one in tasks if one.is_earlier for _ in _votes(one))
    found: dict[str, Any] = {"calls": len(votes), "earlier_calls": before}
    for name in ("input_tokens", "output_tokens", "cost_usd"):
        values = [vote.get(name) for vote in votes]
        known = [value for value in values if isinstance(value, int | float)]
        found[name] = sum(known) if len(known) == len(values) else None
    return found


def keep(selection: Selection) -> Path:
    """Write a selection into its job's folder; give the file.

    Raises:
        OptionError: It cannot be written.
    """
    folder = _folder(selection.job.path, selection.selector)
    found = document(selection)
    for one, row in zip(selection.tasks, found["tasks"], strict=True):
        if one.details:
            row["details"] = name = _file_name(one.attempts.group)
            choice = {key: row[key] for key in ("selected", "reason")}
            # By which a later selection knows whether to ask again.
            choice["fingerprint"] = one.fingerprint or None
            _write(folder / name, {**_names(one), **choice, "details": one.details})
    path = folder / "selection.json"
    _write(path, found)
    _add_to_result(selection)
    return path


class Kept(Earlier):
    """The choices that :func:`keep` wrote before."""

    def __init__(self, job: Path, selector: Selector) -> None:
        self._folder = _folder(job, selector)

    def of(self, group: Group) -> Mapping[str, Any]:
        """What was chosen; empty where nothing was, or it cannot be read."""
        try:
            found = read_object(unlinked(self._folder) / _file_name(group))
        except UnreadableError:
            return {}
        return found if found.get("selected") else {}


def write(selection: Selection, path: Path) -> None:
    """Write a selection into a file.

    Raises:
        OptionError: It cannot be written.
    """
    _write(path, document(selection))


def _add_to_result(selection: Selection) -> None:
    """A ``result.json`` that cannot be read is left: the selection has its own file."""
    path = selection.job.path / "result.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        content = json.loads(path.read_bytes())
        own = content.get("pytest_harbor") or {}
        _write(path, {**content, "pytest_harbor": {**own, "selection": summary(selection)}})


def _write(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(plain(content), indent=2, ensure_ascii=False, default=str)
    write_lines(path, [text, "\n"])


def _figures(found: Figures) -> dict[str, Any]:
    return {"name": found.name, **{name: getattr(found, name) for name in found.__slots__}}


def _folder(job: Path, selector: Selector) -> Path:
    return job / SELECTION_FOLDER / _safe(selector.name)


def _names(one: Selected) -> dict[str, Any]:
    group = one.attempts.group
    return {
        "task": group.task,
        "task_key": group.task_key,
        "agent": group.agent,
        "model": group.model or None,
    }


def _task(one: Selected) -> dict[str, Any]:
    chosen = one.choice.candidate if one.choice else None
    return {
        **_names(one),
        "selected": chosen.trial if chosen else None,
        "attempt": chosen.attempt if chosen else None,
        "reward": chosen.reward if chosen else None,
        "passed": chosen.passed if chosen else None,
        "reason": one.choice.reason if one.choice else None,
        "problem": one.problem or None,
        "candidates": [candidate.trial for candidate in one.attempts.group.candidates],
        "left_out": dict(one.attempts.left_out),
        "missing_attempts": one.attempts.missing,
    }


def _votes(one: Selected) -> Iterator[Mapping[str, Any]]:
    votes = one.details.get("votes") if isinstance(one.details, dict) else None
    yield from (vote for vote in votes or () if isinstance(vote, dict) and "answer" in vote)


def _file_name(group: Group) -> str:
    names = (group.task_key, group.agent, group.model)
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:8]
    return f"{_safe(group.task)}__{_safe(group.agent)}__{digest}.json"


def _safe(name: str) -> str:
    return _UNSAFE.sub("-", name)[:_NAME_CHARS].strip(".-") or "unnamed"


def check_file(path: Path) -> None:
    """See that a file may be written.

    Raises:
        OptionError: It is a folder.
    """
    if path.is_dir():
        raise OptionError(f"{path}: expected a file, found a folder")
