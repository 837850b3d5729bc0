"""``.harborignore``: files of ``tests/`` and ``solution/`` that are not uploaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pytest_harbor.errors import Problem, TaskFormatError
from pytest_harbor.task.layout import IGNORE_FILE, find_task_folder

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

UploadFilter = Callable[[PurePosixPath], bool]


def upload_filter(folder: Path) -> UploadFilter:
    """Which files below an uploaded folder go along, asked by relative path.

    Rules are those of git: the last match wins, files deeper down come later, and what
    lies in an excluded folder cannot be taken back. A link is left out with its target.

    Args:
        folder: ``tests/`` or ``solution/`` of a task or of a step.

    Raises:
        TaskFormatError: A ``.harborignore`` cannot be read.
    """
    rules = _IgnoreRules(folder)

    def include(path: PurePosixPath) -> bool:
        return path.name != IGNORE_FILE and not rules.excludes(path)

    return include


class _IgnoreRules:
    """The rules of all ``.harborignore`` files at and below one folder, read when needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._specs: dict[PurePosixPath, GitIgnoreSpec | None] = {}
        self._excluded: dict[PurePosixPath, bool] = {}
        self._spec(PurePosixPath())

    def excludes(self, path: PurePosixPath) -> bool:
        """Whether the file or folder at this relative path stays at home."""
        if path not in self._excluded:
            self._excluded[path] = False  # the answer for a link that leads in a circle
            self._excluded[path] = self._find_out(path)
        return self._excluded[path]

    def _find_out(self, path: PurePosixPath) -> bool:
        if not path.parts:
            return False
        if self.excludes(path.parent) or self._is_matched(path):
            return True
        target = self._link_target(path)
        return target is not None and target != path and self.excludes(target)

    def _is_matched(self, path: PurePosixPath) -> bool:
        place = self._folder / path
        slash = "/" if place.is_dir() and not place.is_symlink() else ""
        verdict = False
        for folder in reversed(path.parents):
            spec = self._spec(folder)
            if spec is not None:
                matched = spec.check_file(f"{path.relative_to(folder)}{slash}").include
                verdict = verdict if matched is None else matched
        return verdict

    def _link_target(self, path: PurePosixPath) -> PurePosixPath | None:
        """Where a link leads, relative to the folder; None for no link or one leading out."""
        place = self._folder / path
        if not place.is_symlink():
            return None
        target = os.path.realpath(place)
        root = os.path.realpath(self._folder)
        if not target.startswith(root + os.sep):
            return None
        return PurePosixPath(Path(target).relative_to(root).as_posix())

    def _spec(self, folder: PurePosixPath) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            self._specs[folder] = _read_spec(self._folder / folder / IGNORE_FILE)
        return self._specs[folder]


def _read_spec(path: Path) -> GitIgnoreSpec | None:
    if not os.path.lexists(path):
        return None
    problem = _fault(path)
    if problem is not None:
        raise TaskFormatError([Problem(path, problem, code="ignore-file")])
    # Only tasks with such a file pay for the import.
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(path.read_text(encoding="utf-8").splitlines())
    except ValueError as error:
        raise TaskFormatError(
            [Problem(path, f"not a list of patterns: {error}", code="ignore-file")]
        ) from None
    except OSError as error:
        raise TaskFormatError(
            [Problem(path, f"cannot be read: {error.strerror}", code="ignore-file")]
        ) from None


def _fault(path: Path) -> str | None:
    if not path.is_file():
        return "must be a regular file inside of the task"
    if path.is_symlink():
        task_folder = find_task_folder(path.parent)
        root = os.path.realpath(task_folder or path.parent)
        if not os.path.realpath(path).startswith(root + os.sep):
            return "must be a regular file inside of the task, is a link that leaves it"
    return None
