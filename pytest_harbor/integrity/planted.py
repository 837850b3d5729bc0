"""What an agent put where tests are laid out and rewards written; grading begins without it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from pytest_harbor.environment.base import Change
from pytest_harbor.result.integrity import IntegrityFinding, Level
from pytest_harbor.task.layout import LOGS_DIR, TESTS_DIR, VERIFIER_LOGS

PLACES = (TESTS_DIR, LOGS_DIR, VERIFIER_LOGS)
"""Folders that are made anew before grading where something else has their name."""

CODES = frozenset({"link-in-place", "planted-file"})

_SHOWN = 10
_REWARDS = (f"{VERIFIER_LOGS}/reward.json", f"{VERIFIER_LOGS}/reward.txt")
_KINDS = {"file": "a file", "other": "a pipe, socket or device"}


def paths_of_tests(folders: Sequence[Path]) -> frozenset[str]:
    """Where the files of a task's tests are laid out in a box."""
    found = ((folder, file) for folder in folders for file in folder.rglob("*"))
    return frozenset(
        f"{TESTS_DIR}/{file.relative_to(folder).as_posix()}"
        for folder, file in found
        if not file.is_dir()
    )


def planted_findings(
    changes: Sequence[Change], tests: Collection[str], read: Callable[[str], bytes | None]
) -> Iterator[IntegrityFinding]:
    """What stands in the verifier's places; an empty folder is nothing.

    Args:
        changes: Of the box since its image: what the image brings is its author's.
        tests: Paths that the task's own tests will have.
        read: A file of the box.
    """
    lasting = [c for c in changes if c.kind != "deleted" and c.type != "folder"]
    yield from (_in_place(change) for change in lasting if change.path in PLACES and change.type)
    inside = [c for c in lasting if c.path.startswith((f"{TESTS_DIR}/", f"{VERIFIER_LOGS}/"))]
    forged = [change for change in inside if change.path in _REWARDS or change.path in tests]
    yield from (_forged(change, read) for change in forged[:_SHOWN])
    others = [change for change in inside if change not in forged[:_SHOWN] and change.type]
    if others:
        message = f"other files were in the verifier's folders: {len(others)}, as {others[0].path}"
        level: Level = "suspicious" if len(forged) > _SHOWN else "information"
        yield IntegrityFinding("planted-file", level, message, others[0].path)


def _in_place(change: Change) -> IntegrityFinding:
    where = "where tests and rewards are laid out"
    if change.type == "link":
        message = f"{change.path} is a link to {change.target[:200]!r}, {where}"
        return IntegrityFinding("link-in-place", "suspicious", message, change.path)
    message = f"{change.path} is {_KINDS.get(change.type, 'no folder')}, {where}"
    return IntegrityFinding("planted-file", "suspicious", message, change.path)


def _forged(change: Change, read: Callable[[str], bytes | None]) -> IntegrityFinding:
    what = "a reward" if change.path in _REWARDS else "a file of the tests"
    message = f"{change.path} was there before grading, in the place of {what}"
    if change.target:
        message += f": a link to {change.target[:200]!r}"
    content = None if change.target else read(change.path)
    digest = "" if content is None else hashlib.sha256(content).hexdigest()
    return IntegrityFinding("planted-file", "suspicious", message, change.path, found=digest)
