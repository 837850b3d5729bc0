"""Sizes, litter, and scripts beside the two that reading the task looks at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.subject import MAX_FILES, FileEntry, Subject
from pytest_harbor.errors import Problem
from pytest_harbor.task.scripts import check_script

CHECKS = (
    Check(
        "large-file",
        "everyone who clones the tasks, builds or uploads them pays for it",
        "make it while the image is built, or fetch it pinned by its checksum",
    ),
    Check("large-task", "the same for the folder as a whole", "leave out what can be made"),
    Check(
        "litter",
        "caches and settings of editors get into images, and may hold the solution",
        "remove it and name it in .gitignore",
        "warning",
    ),
    Check(
        "awkward-file-name",
        "tools that pack, copy or check out the task fail on such names",
        "rename the file",
        "warning",
    ),
)

_MB = 1_000_000
_LITTER_FOLDERS = frozenset(
    {
        "__pycache__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".idea",
        ".vscode",
        ".ipynb_checkpoints",
    }
)
_LITTER_FILES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
_LITTER_ENDS = (".pyc", ".swp", ".swo", ".orig", ".rej")
_SHOWN = 5


def find(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """What is too large, left behind, badly named or broken as a script."""
    yield from _large(subject, rules)
    yield from _litter(subject)
    yield from _names(subject)
    yield from _scripts(subject)


def _large(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    for entry in subject.files:
        if entry.size > rules.file_mb * _MB:
            message = f"{entry.size / _MB:.0f} MB, more than {rules.file_mb:g}"
            yield Found("large-file", message, entry.path)
    total = sum(entry.size for entry in subject.files)
    if total > rules.task_mb * _MB:
        message = f"{total / _MB:.0f} MB in all, more than {rules.task_mb:g}"
        yield Found("large-task", message, subject.task.config_file)
    if len(subject.files) >= MAX_FILES:
        message = f"{MAX_FILES} files or more; only so many are looked at"
        yield Found("large-task", message, subject.task.config_file)


def _is_litter(entry: FileEntry) -> bool:
    folders = entry.relative.split("/")[:-1]
    return (
        not _LITTER_FOLDERS.isdisjoint(folders)
        or entry.name in _LITTER_FILES
        or entry.name.endswith(_LITTER_ENDS)
    )


def _litter(subject: Subject) -> Iterator[Found]:
    found = [entry for entry in subject.files if _is_litter(entry)]
    folders = dict.fromkeys(entry.path.parent for entry in found)
    for folder in list(folders)[:_SHOWN]:
        inside = [entry.name for entry in found if entry.path.parent == folder]
        more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
        yield Found("litter", f"{inside[0]}{more}", folder / inside[0])


def _names(subject: Subject) -> Iterator[Found]:
    awkward = [entry for entry in subject.files if _is_awkward(entry.name)]
    for entry in awkward[:_SHOWN]:
        yield Found("awkward-file-name", f"{entry.name!r}", entry.path)


def _is_awkward(name: str) -> bool:
    return name != name.strip() or name.endswith(".") or any(c in name for c in '<>:"|?*\\\n')


def _scripts(subject: Subject) -> Iterator[Found]:
    """Shell scripts that the task's own call, and that reading it did not look at."""
    read = {*subject.test_scripts, *subject.solution_scripts}
    read |= {step.setup_script for step in subject.task.steps if step.setup_script}
    for entry in subject.files:
        if entry.name.endswith((".sh", ".bash")) and entry.path not in read and entry.size:
            yield from _script(entry.path)


def _script(path: Path) -> Iterator[Found]:
    problems: list[Problem] = []
    check_script(path, problems.append, is_run=False)
    for one in problems:
        if one.code == "script-crlf":
            yield Found(one.code, "Windows line ends (CRLF)", path, one.line)
