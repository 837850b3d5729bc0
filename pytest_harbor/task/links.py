"""Symbolic links in the folders that are uploaded: they must stay inside of the task."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from pytest_harbor.errors import Problem, TaskFormatError
from pytest_harbor.task.layout import IGNORE_FILE

MAX_ENTRIES = 50_000
"""Bound for one folder, so that a huge one does not stop collection."""


class LinkCheck:
    """A walk over uploaded folders, which follows links as an upload would.

    Attributes:
        ignore_files: Every ``.harborignore`` that was met.
    """

    def __init__(self, task_folder: Path, report: Callable[[Problem], None]) -> None:
        self.ignore_files: list[Path] = []
        self._task_folder = task_folder
        self._report = report
        self._real_root: str | None = None
        self._entries_left = MAX_ENTRIES

    def walk(self, folder: str) -> None:
        """Report each link below ``folder`` that leaves the task or leads in a circle."""
        try:
            is_link = stat.S_ISLNK(os.lstat(folder).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError:
            is_link = False  # the walk tells of it
        if is_link:
            self._check_link(folder, ())
        else:
            self._walk(folder, ())

    def _walk(self, folder: str, above: tuple[str, ...]) -> None:
        for entry in self._scan(folder):
            if entry.name == IGNORE_FILE:
                self.ignore_files.append(Path(entry.path))
            if entry.is_symlink():
                self._check_link(entry.path, (*above, folder))
            elif entry.is_dir(follow_symlinks=False):
                self._walk(entry.path, (*above, folder))

    def _scan(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if self._entries_left <= 0:
                        return
                    self._entries_left -= 1
                    yield entry
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._report(
                Problem(Path(folder), f"cannot be read: {error.strerror}", code="unreadable-file")
            )

    def _check_link(self, link: str, above: tuple[str, ...]) -> None:
        written = os.readlink(link)
        try:
            target = os.path.realpath(link, strict=True)
        except OSError as error:
            self._report_unresolved(link, written, error)
            return
        if not self._is_inside(target):
            self._refuse(link, written, "leaves the task's folder")
        elif any(_is_at_or_above(target, os.path.realpath(folder)) for folder in above):
            self._refuse(link, written, "leads back to a folder above it")
        elif os.path.isdir(target):
            self._walk(target, (*above, link))

    def _report_unresolved(self, link: str, written: str, error: OSError) -> None:
        if error.errno == errno.ELOOP:
            self._refuse(link, written, "leads in a circle")
        elif not self._is_inside(os.path.realpath(link)):
            self._refuse(link, written, "leaves the task's folder")
        else:
            message = f"the link to {written!r} leads to nothing"
            self._report(Problem(Path(link), message, severity="warning", code="outside-link"))

    def _refuse(self, link: str, written: str, reason: str) -> None:
        message = f"the link to {written!r} {reason}; replace it by the file itself"
        self._report(Problem(Path(link), message, code="outside-link"))

    def _is_inside(self, target: str) -> bool:
        if self._real_root is None:
            self._real_root = os.path.realpath(self._task_folder)
        return _is_at_or_above(self._real_root, target)


def _is_at_or_above(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def refuse_outside_links(task_folder: Path) -> None:
    """Look at every link of a stranger's task before a file of it is read.

    Raises:
        TaskFormatError: The folder is a link, or one in it leads out of it.
    """
    links = [task_folder] if task_folder.is_symlink() else list(_links_out_of(task_folder))
    if links:
        message = "a link out of the task's folder; replace it by the file itself"
        raise TaskFormatError([Problem(one, message, code="outside-link") for one in links])


def _links_out_of(task_folder: Path) -> Iterator[Path]:
    real_root = os.path.realpath(task_folder)
    for place, folders, files in os.walk(task_folder):
        for path in (os.path.join(place, name) for name in (*folders, *files)):
            if os.path.islink(path) and not _is_at_or_above(real_root, os.path.realpath(path)):
                yield Path(path)
