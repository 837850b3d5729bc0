"""Digests of tasks and datasets, by Harbor's algorithms (``format/datasets…``, section 6).

Harbor's digest of a task leaves out modes and stray files. What lies in the cache is
held against a second one, the tree's, which leaves out nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from pytest_harbor.errors import DatasetError
from pytest_harbor.task import layout
from pytest_harbor.task.ignore import UploadFilter, upload_filter

PREFIX = "sha256:"
ROOT_FILES = (layout.CONFIG_FILE, layout.INSTRUCTION_FILE, "README.md", layout.TRAJECTORY_FILE)
FOLDERS = (
    layout.ENVIRONMENT_FOLDER,
    layout.TESTS_FOLDER,
    layout.SOLUTION_FOLDER,
    layout.STEPS_FOLDER,
)
_SWEPT_ENDS = (".pyc", ".swp", ".swo", "~")


def task_digest(folder: Path) -> str:
    """Harbor's digest of a task's content, as ``sha256:<hex>``.

    Raises:
        DatasetError: A file of it cannot be read.
        TaskFormatError: A ``.harborignore`` cannot be read.
    """
    try:
        return digest_of({path: file_hash(folder / path) for path in task_files(folder)})
    except OSError as error:
        raise DatasetError(f"{error.filename}: cannot be read: {error.strerror}") from error


def digest_of(hashes: Mapping[str, str]) -> str:
    """Harbor's digest of files, from each one's own by its path in the task."""
    outer = hashlib.sha256()
    for path in sorted(hashes):
        # A name that is not UTF-8 is hashed by its own bytes; Harbor has no digest of it.
        outer.update(f"{path}\0{hashes[path]}\n".encode(errors="surrogateescape"))
    return PREFIX + outer.hexdigest()


def dataset_digest(tasks: Iterable[str], files: Mapping[str, str] | None = None) -> str:
    """Harbor's digest of a dataset, from those of its tasks and its own files."""
    text = ",".join(sorted(one.removeprefix(PREFIX) for one in tasks))
    if files:
        text += ";" + ",".join(
            sorted(f"{path}:{one.removeprefix(PREFIX)}" for path, one in files.items())
        )
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file's content in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_digest(folder: Path) -> str:
    """A digest of all that lies below a folder: paths, kinds, execute bits and content."""
    outer = hashlib.sha256()
    for path in sorted(_everything(folder)):
        place = folder / path
        if place.is_symlink():
            line = f"link\0{path}\0{os.readlink(place)}\n"
        elif place.is_dir():
            line = f"folder\0{path}\n"
        elif place.is_file():
            kind = "program" if place.stat().st_mode & 0o111 else "file"
            line = f"{kind}\0{path}\0{file_hash(place)}\n"
        else:
            line = f"special\0{path}\n"
        outer.update(line.encode("utf-8", "surrogateescape"))
    return PREFIX + outer.hexdigest()


def _everything(folder: Path) -> Iterator[str]:
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield os.path.relpath(os.path.join(base, name), folder)


def task_files(folder: Path) -> list[str]:
    """The files of a task that Harbor packs, by their paths in it, sorted."""
    folder = folder.resolve()
    ignored = _Ignored(folder)
    found = [name for name in ROOT_FILES if (folder / name).is_file()]
    for name in FOLDERS:
        if (folder / name).is_dir():
            found += _files_below(folder, name, ignored)
    swept = _sweeper(folder)
    return sorted(path for path in found if not swept(path))


def _files_below(root: Path, relative: str, ignored: _Ignored) -> Iterator[str]:
    for name in sorted(os.listdir(root / relative)):
        path = f"{relative}/{name}"
        place = root / path
        if ignored.has(path):
            continue
        if place.is_file():
            yield path
        elif place.is_dir() and not place.is_symlink():
            yield from _files_below(root, path, ignored)


class _Ignored:
    """What ``.harborignore`` files leave out: in ``tests/`` and ``solution/`` alone."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._filters: dict[str, UploadFilter] = {}

    def has(self, path: str) -> bool:
        """Whether a path of the task is left out: itself, or what it links to."""
        if self._matches(path):
            return True
        place = self._root / path
        if not place.is_symlink():
            return False
        target = place.resolve()
        inside = target.is_relative_to(self._root) and target != self._root
        return inside and self._matches(target.relative_to(self._root).as_posix())

    def _matches(self, path: str) -> bool:
        if path.rpartition("/")[2] == layout.IGNORE_FILE:
            return True
        scope = _scope(path)
        if scope is None or scope == path:
            return False
        if scope not in self._filters:
            self._filters[scope] = upload_filter(self._root / scope)
        return not self._filters[scope](PurePosixPath(path).relative_to(scope))


def _scope(path: str) -> str | None:
    """The folder whose rules hold for a path."""
    scoped = (layout.TESTS_FOLDER, layout.SOLUTION_FOLDER)
    parts = path.split("/")
    if parts[0] in scoped:
        return parts[0]
    if parts[0] == layout.STEPS_FOLDER and len(parts) > 2 and parts[2] in scoped:
        return "/".join(parts[:3])
    return None


def _sweeper(folder: Path) -> Callable[[str], bool]:
    """What the root's ``.gitignore`` leaves out, or else litter."""
    path = folder / ".gitignore"
    if not path.is_file():
        return _is_litter
    from pathspec import PathSpec

    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        # As Harbor: not GitIgnoreSpec, which takes nothing back from an excluded folder.
        return PathSpec.from_lines("gitignore", lines).match_file
    except ValueError as error:  # not UTF-8, or not a pattern
        raise DatasetError(f"{path}: cannot be read: {error}") from None


def _is_litter(path: str) -> bool:
    parts = path.split("/")
    return "__pycache__" in parts[:-1] or any(
        part == ".DS_Store" or part.endswith(_SWEPT_ENDS) for part in parts
    )
