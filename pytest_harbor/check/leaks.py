"""Whether the agent can see what it must not: tests and solution."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_harbor.check.dockerfile import Dockerfile, Instruction
from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.subject import FileEntry, Subject

CHECKS = (
    Check(
        "tests-in-image",
        "the agent reads the tests, and what it plants there may be run",
        "leave them in tests/: they are brought in after the agent",
    ),
    Check(
        "solution-in-image",
        "the agent reads the solution",
        "leave it in solution/: only the oracle gets it",
    ),
    Check(
        "solution-in-instruction",
        "the agent is told the solution",
        "say what is wanted, not how it is done",
        "warning",
    ),
)

_MIN_BYTES = 64
"""Smaller files are alike by chance."""
_MIN_LINE = 25
_ENOUGH_LINES = 3
_CODE_LINE = re.compile(r"[=(){};|$<>]")


def find(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """Tests and solution in the agent's image, and the solution in the instruction."""
    if dockerfile := subject.environment_dockerfile:
        yield from _copied(subject, dockerfile)
    yield from _same_files(subject)
    yield from _told(subject)


def _copied(subject: Subject, dockerfile: Dockerfile) -> Iterator[Found]:
    """What the Dockerfile copies by name; ``tests`` of the agent's own project are fine."""
    for one in dockerfile.of("COPY", "ADD"):
        if "from" in one.flags:
            continue
        for source, target in _pairs(one):
            if target.rstrip("/") in ("/tests", "/solution") or target.startswith(
                ("/tests/", "/solution/")
            ):
                code = "tests-in-image" if target.startswith("/tests") else "solution-in-image"
                yield Found(code, f"{one.keyword} {source} {target}", dockerfile.path, one.line)
            elif code := _named(source, subject):
                yield Found(code, f"{one.keyword} {source}", dockerfile.path, one.line)


def _pairs(one: Instruction) -> list[tuple[str, str]]:
    words = one.words
    return [(source, words[-1]) for source in words[:-1]]


def _named(source: str, subject: Subject) -> str:
    """The code for a source that is named as Harbor names tests and solution."""
    if source.rstrip("/").endswith("solve.sh") or source.strip("./") == "solution":
        return "solution-in-image"
    names = {entry.name for entry in subject.test_files if entry.name.endswith((".py", ".sh"))}
    name = source.rpartition("/")[2]
    is_test = name in names and (name == "test.sh" or name.startswith("test_"))
    return "tests-in-image" if is_test and _parent(source) in ("", "tests") else ""


def _parent(source: str) -> str:
    return source.strip("./").rpartition("/")[0]


def _same_files(subject: Subject) -> Iterator[Found]:
    """Files of tests or solution whose very bytes lie in ``environment/`` too."""
    inside = {
        digest: entry
        for entry in subject.environment_files
        if entry.size >= _MIN_BYTES and (digest := _digest(entry))
    }
    for code, entries in (
        ("tests-in-image", subject.test_files),
        ("solution-in-image", subject.solution_files),
    ):
        for entry in entries:
            twin = inside.get(_digest(entry)) if _is_telling(entry) else None
            if twin is not None:
                message = f"the same bytes as {entry.relative}"
                yield Found(code, message, twin.path)


def _is_telling(entry: FileEntry) -> bool:
    """Data that tests compare with is often given to the agent on purpose; code is not."""
    if entry.size < _MIN_BYTES:
        return False
    if entry.top == "solution" or "/solution/" in entry.relative:
        return not entry.name.endswith((".md", ".txt", ".csv", ".toml", ".yaml", ".yml", ".lock"))
    return entry.name == "test.sh" or entry.name.startswith("test_")


def _digest(entry: FileEntry) -> str:
    # Two files of one size are rare; reading both is cheap then.
    try:
        data = entry.path.read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(data).hexdigest()


def _told(subject: Subject) -> Iterator[Found]:
    """Lines of code of the solution that stand in the instruction."""
    lines = set(_code_lines(text for _, text in subject.texts(subject.solution_files)))
    if not lines:
        return
    for path, text in subject.instructions:
        hits = [
            number
            for number, line in enumerate(text.splitlines(), start=1)
            if _squeezed(line.strip("`> ")) in lines
        ]
        if len(hits) >= min(_ENOUGH_LINES, len(lines)):
            yield _told_found(path, hits, len(lines))


def _told_found(path: Path, hits: list[int], total: int) -> Found:
    message = f"{len(hits)} of the solution's {total} telling lines stand here"
    return Found("solution-in-instruction", message, path, hits[0])


def _code_lines(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for line in text.splitlines():
            squeezed = _squeezed(line)
            if len(squeezed) >= _MIN_LINE and _CODE_LINE.search(line) and line.lstrip()[:1] != "#":
                yield squeezed


def _squeezed(line: str) -> str:
    return re.sub(r"\s+", "", line)
