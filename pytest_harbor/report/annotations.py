"""Findings and failures as annotations: GitHub's workflow commands, GitLab's Code Quality.

What they say comes from strangers: none of it may end the line that it stands in.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Literal

from pytest_harbor.report.values import cut
from pytest_harbor.task.plural import number_of

Level = Literal["error", "warning"]

GITHUB_PER_LEVEL = 10
"""How many annotations of a level GitHub takes from one step; later ones are dropped."""
GITLAB_FILE = "gl-code-quality-report.json"

_MESSAGE_CHARS = 3_500
"""GitHub's runner cuts at 4,096."""
_TITLE_CHARS = 200
_PATH_CHARS = 1_000
_LEVELS: tuple[Level, ...] = ("error", "warning")


@dataclass(frozen=True, slots=True)
class Annotation:
    """One thing to show beside the code.

    Attributes:
        level: How bad it is.
        file: Path from the repository's folder, with slashes; None: no file of it.
        line: Line from 1; None where it is the file as a whole.
        title: What it is, in a few words.
        message: What was found and what to do.
        code: Kind, stable between runs.
        task: The task that it is about.
    """

    level: Level
    file: str | None
    line: int | None
    title: str
    message: str
    code: str
    task: str = ""


def plain(text: str, limit: int) -> str:
    """Text that does nothing but to stand there, of at most so many characters or little more."""
    shown = "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for char in cut(text, limit).replace("\r\n", "\n")
    )
    return shown.strip() or "(empty)"


def worst_first(annotations: Sequence[Annotation]) -> list[Annotation]:
    """Errors first, and of each task one before a second of any: none hides the others."""
    return [one for level in _LEVELS for one in _of_level(annotations, level)]


def _of_level(annotations: Sequence[Annotation], level: Level) -> list[Annotation]:
    by_task: dict[str, list[Annotation]] = defaultdict(list)
    for one in annotations:
        if one.level == level:
            by_task[one.task].append(one)
    rounds = zip_longest(*by_task.values())
    return [one for one in chain.from_iterable(rounds) if one is not None]


def github_lines(annotations: Sequence[Annotation]) -> list[str]:
    """The workflow commands: the worst, as many as GitHub takes, and how many are left out."""
    shown: list[Annotation] = []
    left_out: Counter[str] = Counter()
    for level in _LEVELS:
        listed = _of_level(annotations, level)
        shown += listed[:GITHUB_PER_LEVEL]
        left_out[level] = len(listed[GITHUB_PER_LEVEL:])
    lines = [_command(one) for one in shown]
    if counts := [number_of(number, level) for level, number in left_out.items() if number]:
        said = f"{' and '.join(counts)} more; the job's summary and its log have all"
        lines.append(f"::notice title={_property('pytest-harbor')}::{_data(said)}")
    return lines


def _command(one: Annotation) -> str:
    properties = {}
    if one.file:
        properties["file"] = plain(one.file, _PATH_CHARS)
        properties["line"] = str(one.line or 1)
    properties["title"] = plain(one.title, _TITLE_CHARS)
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{one.level} {listed}::{_data(plain(one.message, _MESSAGE_CHARS))}"


def _data(text: str) -> str:
    """As GitHub's own toolkit writes the part behind the second ``::``."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def gitlab_report(annotations: Sequence[Annotation]) -> str:
    """A Code Quality report: JSON, the worst first."""
    seen: Counter[tuple[str, ...]] = Counter()
    entries = [_entry(replace(one, file=one.file or "."), seen) for one in worst_first(annotations)]
    return json.dumps(entries, indent=1) + "\n"


_SEVERITIES = {"error": "major", "warning": "minor"}


def _entry(one: Annotation, seen: Counter[tuple[str, ...]]) -> dict[str, object]:
    file = plain(one.file or ".", _PATH_CHARS)
    # Not by its line, which moves with every edit above it.
    identity = (one.code, file, one.title, one.message)
    seen[identity] += 1
    text = "\0".join((*identity, str(seen[identity])))
    return {
        "description": plain(f"{one.title}: {one.message}", _MESSAGE_CHARS),
        "check_name": plain(one.code, _TITLE_CHARS),
        "fingerprint": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        "severity": _SEVERITIES[one.level],
        "location": {"path": file, "lines": {"begin": one.line or 1}},
    }
