"""``instruction.md``: what the agent is told."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from pytest_harbor.errors import Problem

_CANARY = re.compile(r"<!--.*canary.*-->|#.*canary.*", re.IGNORECASE)
_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-", re.IGNORECASE)


def instruction_text(text: str) -> str:
    """The text without leading canary lines and the blank lines after them."""
    lines = text.splitlines(keepends=True)
    start = canary_line_count(lines)
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "".join(lines[start:])


def canary_line_count(lines: list[str]) -> int:
    """How many lines at the top are canaries: marks that keep a task out of training data."""
    count = 0
    while count < len(lines) and _CANARY.fullmatch(lines[count].strip()):
        count += 1
    return count


def read_instruction(path: Path, report: Callable[[Problem], None]) -> str:
    """The instruction in the file; empty where there is none, which is reported."""
    raw = _read(path, report)
    if raw is None:
        return ""
    text = instruction_text(raw)
    if not text.strip():
        report(
            Problem(path, "empty: the agent is told nothing", severity="warning", code="empty-file")
        )
    _check_heading(path, raw, report)
    return text


def _read(path: Path, report: Callable[[Problem], None]) -> str | None:
    # os.path and open: 10,000 of these are read before a run's first test.
    if not os.path.isfile(path):
        report(Problem(path, "missing; it holds the agent's instruction", code="missing-file"))
        return None
    try:
        with open(path, "rb") as file:
            return _with_plain_line_ends(file.read().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        report(Problem(path, f"not UTF-8 text, at byte {error.start}", code="unreadable-file"))
    except OSError as error:
        report(Problem(path, f"cannot be read: {error.strerror}", code="unreadable-file"))
    return None


def _with_plain_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _check_heading(path: Path, raw: str, report: Callable[[Problem], None]) -> None:
    """Harbor takes a first heading with the word "canary" for a canary."""
    if "canary" not in raw[:10_000].lower():
        return
    lines = raw.splitlines()
    for number, line in enumerate(lines[: canary_line_count(lines)], start=1):
        if line.lstrip().startswith("#") and not _GUID.search(line):
            message = (
                f"the agent does not see {line.strip()[:80]!r}: a heading at the top with the "
                'word "canary" is removed as a canary mark; word it otherwise'
            )
            report(Problem(path, message, line=number, severity="warning", code="lost-heading"))
