"""What a house asks of ``[metadata]``, names and texts; each only where the ini file says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.subject import Subject
from pytest_harbor.task.finding import shown

CHECKS = (
    Check(
        "no-canary",
        "without the mark nobody can tell that a model has learnt the task",
        "put the text of harbor_check_canary into the file, as a remark",
        house=True,
    ),
    Check(
        "metadata-missing",
        "the house files its tasks by it",
        "write it under [metadata]",
        house=True,
    ),
    Check(
        "metadata-value",
        "the house files its tasks by certain values",
        "take one that harbor_check_metadata lists",
        house=True,
    ),
    Check(
        "long-name",
        "long names are cut in tables and in names on the engine",
        "rename the folder",
        house=True,
    ),
    Check(
        "unknown-code",
        "it switches nothing off",
        "take a code from the table of checks",
        "warning",
    ),
)

_MARKED_ENDS = (".md", ".py", ".sh", ".toml", "Dockerfile", ".yaml", ".yml")
_MARKED_FOLDERS = ("solution", "tests")


def find(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """What the house's rules find missing."""
    if rules.canary:
        yield from _canary(subject, rules.canary)
    yield from _metadata(subject, rules)
    words = len(subject.task.path.name.split("-"))
    if rules.name_words is not None and words > rules.name_words:
        message = f"{words} words in the name, more than {rules.name_words}"
        yield Found("long-name", message, subject.task.config_file)


def _canary(subject: Subject, canary: str) -> Iterator[Found]:
    marked = {subject.task.config_file, *(path for path, _ in subject.instructions)}
    marked |= {dockerfile.path for dockerfile in subject.dockerfiles}
    marked |= {
        entry.path
        for entry in subject.below(*_MARKED_FOLDERS)
        if entry.name.endswith(_MARKED_ENDS) and entry.size
    }
    for path in sorted(marked):
        text = subject.text(path)
        if text is not None and canary not in text:
            yield Found("no-canary", "no canary", path, 1)


def _metadata(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    metadata = subject.task.config.metadata
    path = subject.task.config_file
    for key, allowed in rules.metadata.items():
        field = f"metadata.{key}"
        value = metadata.get(key)
        line = subject.line_of("metadata", key)
        if _is_blank(value):
            yield Found("metadata-missing", "missing or empty", path, line, field)
        elif allowed and not _is_allowed(value, allowed):
            message = f"{shown(value)} is none of {', '.join(allowed)}"
            yield Found("metadata-value", message, path, line, field)


def _is_blank(value: Any) -> bool:
    return value is None or value in ("", [], {}) or (isinstance(value, str) and not value.strip())


def _is_allowed(value: Any, allowed: tuple[str, ...]) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(str(one) in allowed for one in values)
