"""What the instruction says, held against what the image has and what the tests ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.subject import Subject

CHECKS = (
    Check(
        "path-not-in-image",
        "the agent is sent to a file that nothing makes",
        "correct the path, or make the file in environment/",
        "warning",
    ),
    Check(
        "relative-path",
        "agents do not all start in the same folder",
        "write the absolute path",
        "warning",
    ),
    Check(
        "undocumented-output",
        "the tests ask for a file that the agent is never told of",
        "name it in the instruction",
        "warning",
    ),
    Check(
        "instruction-end",
        "the house closes every instruction alike",
        "end it as harbor_check_instruction_end says",
        house=True,
    ),
)

_ABSOLUTE = re.compile(
    r"(?<![\w.:/@$}\-<~])(/[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+)(/?)(?![\w*{<$(])"
)
_RELATIVE = re.compile(r"`(\.{0,2}/?[A-Za-z0-9_-][\w-]*(?:/[\w.-]+)+\.\w{1,5})`")
_SYSTEM = (
    "/bin",
    "/dev",
    "/etc",
    "/lib",
    "/logs",
    "/proc",
    "/root/.",
    "/run",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
)
_TESTED = re.compile(
    r"""["'](/(?:app|workspace|root|home|work|workdir|data|output|outputs|results?)/[\w./-]+\.\w{1,6})["']"""
)
_OUR_FOLDERS = ("/logs/", "/tests/", "/solution/")
_FENCE = re.compile(r"^\s*(```|~~~)")
_SHOWN = 10


class NamedPath(NamedTuple):
    """A path that an instruction names.

    Attributes:
        path: Absolute, in the container.
        file: The instruction.
        line: Line from 1.
    """

    path: str
    file: Path
    line: int


def find(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """Paths that lead nowhere, outputs that nobody is told of, another end than asked for."""
    yield from _lost_paths(subject)
    yield from _relative_paths(subject)
    yield from _untold_outputs(subject)
    if rules.instruction_end is not None:
        yield from _ends(subject, rules.instruction_end)


def named_paths(subject: Subject) -> list[NamedPath]:
    """Absolute paths of the instructions outside the system's own folders, each once."""
    found: dict[str, NamedPath] = {}
    for file, text in subject.instructions:
        for number, line in enumerate(text.splitlines(), start=1):
            for match in _ABSOLUTE.finditer(line):
                path = match[1].rstrip(".")
                if not path.startswith(_SYSTEM) and not path.startswith(_OUR_FOLDERS):
                    found.setdefault(path, NamedPath(path, file, number))
    return list(found.values())


def _lost_paths(subject: Subject) -> Iterator[Found]:
    if not subject.task.has_dockerfile or not list(subject.solution_files):
        return
    lost = [one for one in named_paths(subject) if not _is_known(one.path, subject)]
    for one in lost[:_SHOWN]:
        message = f"{one.path}: neither the image's files nor solution or tests know it"
        yield Found("path-not-in-image", message, one.file, one.line)


def inputs(subject: Subject) -> list[NamedPath]:
    """Paths that only the instruction names, which are there when the agent begins.

    What the solution or the tests name may be something that the agent makes.
    """
    made = _texts(subject, "solution", "tests")
    return [one for one in named_paths(subject) if not _is_named(one.path, made)]


def _is_known(path: str, subject: Subject) -> bool:
    """Whether any file of the task names the path, its end, or is named like it."""
    if _is_named(path, _texts(subject, "solution", "tests", "environment")):
        return True
    name = PurePosixPath(path).name
    return any(name in entry.relative.split("/") for entry in subject.environment_files)


def _is_named(path: str, text: str) -> bool:
    return path in text or PurePosixPath(path).name in text


def _texts(subject: Subject, *tops: str) -> str:
    texts = [text for _, text in subject.texts(subject.below(*tops))]
    return "\n".join([*texts, *(subject.text(path) or "" for path in subject.compose_files)])


def _relative_paths(subject: Subject) -> Iterator[Found]:
    """Paths in backticks, outside of code, that begin nowhere."""
    for file, text in subject.instructions:
        known = {name.path for name in named_paths(subject)}
        is_code = False
        for number, line in enumerate(text.splitlines(), start=1):
            is_code ^= bool(_FENCE.match(line))
            for match in () if is_code else _RELATIVE.finditer(line):
                path = match[1].removeprefix("./")
                if not path.startswith("/") and not any(one.endswith(path) for one in known):
                    yield Found("relative-path", match[1], file, number)


def _untold_outputs(subject: Subject) -> Iterator[Found]:
    """Files that tests and solution both name, and nothing that the agent sees does."""
    seen = "\n".join(text for _, text in subject.instructions)
    seen += _texts(subject, "environment") + str(subject.data)
    solution = _texts(subject, "solution")
    names = {entry.name for entry in subject.environment_files}
    told: set[str] = set()
    for entry, text in subject.texts(subject.test_files):
        for match in _TESTED.finditer(text):
            name = PurePosixPath(match[1]).name
            if name in seen or name in names or name not in solution or name in told:
                continue
            told.add(name)
            line = text.count("\n", 0, match.start()) + 1
            yield Found("undocumented-output", match[1], entry.path, line)


def _ends(subject: Subject, wanted: str) -> Iterator[Found]:
    steps = tuple(step.config for step in subject.task.steps) or (None,)
    for (file, text), step in zip(subject.instructions, steps, strict=False):
        limit = subject.task.config.agent_timeout_sec(step)
        end = wanted.replace("{timeout}", f"{limit or 0:g}")
        if not text.rstrip().endswith(end.rstrip()):
            yield Found("instruction-end", f"expected {end!r}", file, text.count("\n") or 1)
