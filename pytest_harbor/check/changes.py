"""Which tasks changed since a revision: by their own files, and by those they share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_harbor.check.repository import ChangedPath, Repository
from pytest_harbor.errors import OptionError
from pytest_harbor.task.layout import CONFIG_FILE, INSTRUCTION_FILE, STEPS_FOLDER

SHARED_NAMES = ("dataset.toml", "conftest.py")
"""Files that speak for all tasks below their folder."""

_MAX_LINKS = 10_000
_MAX_HOPS = 40


@dataclass(frozen=True)
class Changes:
    """What is otherwise in a repository than at a revision.

    Attributes:
        revision: As the user named it.
        repository: The repository's folder.
        base: The commit that all is held against.
        paths: Changed files below the folder, removed ones too, with slashes.
        deleted: Those of them that are there no more.
        whole: Folders of which only that they changed is known: all in them counts.
    """

    revision: str
    repository: Path
    base: str
    paths: frozenset[str]
    deleted: frozenset[str]
    whole: frozenset[str]

    @cached_property
    def folders(self) -> frozenset[str]:
        """Every folder with a changed path in it."""
        return frozenset(str(one) for path in self.paths for one in _parents(path))

    def below(self, path: Path) -> str | None:
        """The path from the repository's folder; None where it lies outside."""
        return _relative(path, self.repository)

    def touches(self, path: Path) -> bool:
        """Whether a file changed, or anything in a folder."""
        inner = self.below(path)
        if inner is None:
            return False
        if inner in self.paths or inner in self.folders:
            return True
        return any(str(one) in self.whole for one in (PurePosixPath(inner), *_parents(inner)))

    def deleted_tasks(self) -> Iterator[Path]:
        """Folders that were tasks and are none any more, whatever is left of them."""
        for path in sorted(self.deleted):
            folder, _, name = path.rpartition("/")
            if name != CONFIG_FILE or not folder or os.path.lexists(self.repository / path):
                continue
            start = f"{folder}/"
            was_task = (self.repository / folder / INSTRUCTION_FILE).exists() or any(
                one == start + INSTRUCTION_FILE or one.startswith(f"{start}{STEPS_FOLDER}/")
                for one in self.deleted
            )
            if was_task:
                yield self.repository / folder

    def as_plain(self) -> dict[str, Any]:
        """Bytes and text that another process can be handed; names of files are any bytes."""
        sets = {name: _packed(getattr(self, name)) for name in ("paths", "deleted", "whole")}
        names = {"revision": self.revision, "base": self.base}
        return {**names, "repository": os.fsencode(self.repository), **sets}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Changes:
        """What :meth:`as_plain` gave."""
        sets = {name: _unpacked(plain[name]) for name in ("paths", "deleted", "whole")}
        repository = Path(os.fsdecode(plain["repository"]))
        return cls(plain["revision"], repository, plain["base"], **sets)


def _parents(path: str) -> Sequence[PurePosixPath]:
    return PurePosixPath(path).parents


def _packed(names: Iterable[str]) -> bytes:
    return b"\0".join(map(os.fsencode, sorted(names)))


def _unpacked(packed: bytes) -> frozenset[str]:
    return frozenset(os.fsdecode(one) for one in packed.split(b"\0") if one)


def read_changes(path: Path, revision: str, *, start: Path | None = None) -> Changes:
    """Ask git what changed between where a revision and ``HEAD`` parted, and the work tree.

    Args:
        path: A folder in the repository; of a submodule's the repository around it is meant,
            unless ``start`` lies in the submodule too.
        revision: A commit, by any name that git knows.
        start: The folder in which the run was started.

    Raises:
        OptionError: There is no git, no repository or no such revision.
    """
    repository = _repository(path, start)
    base = repository.merge_base(revision)
    changed = list(_changed(repository, base))
    return Changes(
        revision=revision,
        repository=repository.path,
        base=base,
        paths=frozenset(one.path for one in changed),
        deleted=frozenset(one.path for one in changed if one.is_deleted),
        whole=frozenset(one.path.rstrip("/") for one in changed if one.submodule is not None),
    )


def _repository(path: Path, start: Path | None) -> Repository:
    found = Repository.around(path)
    if found is None:
        raise OptionError(f"{path} is in no git repository")
    while (start is None or not start.is_relative_to(found.path)) and (
        outer := Repository.around(found.path.parent)
    ):
        inner = found.path.relative_to(outer.path).as_posix()
        if inner == "." or not outer.is_submodule(inner):
            break
        found = outer
    return found


def _changed(repository: Repository, base: str) -> Iterator[ChangedPath]:
    for one in repository.changes(base):
        if one.submodule is None:
            # A repository that is not yet added is listed as a folder.
            is_folder = one.path.endswith("/")
            yield one._replace(path=one.path.rstrip("/"), submodule="" if is_folder else None)
        else:
            yield from _changed_in_submodule(repository, one)


def _changed_in_submodule(outer: Repository, changed: ChangedPath) -> Iterator[ChangedPath]:
    """The files in a submodule; the whole of it where its own repository cannot tell."""
    inner = Repository(outer.path / changed.path)
    is_there = os.path.lexists(inner.path / ".git")
    if not is_there or not changed.submodule or not inner.has_commit(changed.submodule):
        yield changed
        return
    yield changed._replace(submodule=None)
    for one in _changed(inner, changed.submodule):
        yield one._replace(path=f"{changed.path}/{one.path}")


class Selection:
    """Tells of each task whether it changed.

    A change to a shared file counts for the tasks below the folder that holds it.
    """

    def __init__(
        self, changes: Sequence[Changes], shared: Sequence[str] = (), ini: Path | None = None
    ) -> None:
        """Take what is to be known.

        Args:
            changes: Of each repository that has tasks.
            shared: Patterns of shared files and folders, as in ``.gitignore``.
            ini: The file that the run takes its settings from.

        Raises:
            OptionError: A pattern is none.
        """
        self._changes = changes
        self._below = frozenset(_shared_folders(changes, shared))
        self._all = ini is not None and any(one.touches(ini) for one in changes)

    def has(self, task: Path) -> bool:
        """Whether the task in this folder changed; what no repository knows counts as changed."""
        places = {task, Path(os.path.realpath(task))}
        known = [one for one in self._changes if any(one.below(path) for path in places)]
        if self._all or not known:
            return True
        if not self._below.isdisjoint(above for path in places for above in path.parents):
            return True
        if any(one.touches(path) for path in places for one in self._changes):
            return True
        linked = _linked(task, self._is_known, set())
        return any(one.touches(path) for path in linked for one in self._changes)

    def _is_known(self, path: Path) -> bool:
        return any(one.below(path) is not None for one in self._changes)


def _shared_folders(changes: Sequence[Changes], patterns: Sequence[str]) -> Iterator[Path]:
    for one in changes:
        for path in one.paths:
            folder, _, name = path.rpartition("/")
            if name in SHARED_NAMES:
                yield one.repository / folder
        if patterns:
            yield from _holders(one, patterns)


def _holders(changes: Changes, patterns: Sequence[str]) -> Iterator[Path]:
    """The folders that hold a changed file, or a folder with one, that a pattern fits."""
    from pathspec import GitIgnoreSpec

    try:
        spec = GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise OptionError(f"expected lines as in a .gitignore: {error}") from None
    folders = (changes.folders | changes.whole) - {"."}
    for path in (*changes.paths, *(f"{one}/" for one in folders)):
        if spec.match_file(path):
            yield (changes.repository / path).parent


def _linked(folder: Path, is_known: Callable[[Path], bool], seen: set[str]) -> Iterator[Path]:
    """What links in a folder lead to, and those in there where a repository knows the place."""
    for link in _links(folder):
        for target in _hops(link):
            if str(target) not in seen and len(seen) < _MAX_LINKS:
                seen.add(str(target))
                yield target
                if is_known(target) and os.path.isdir(target) and not os.path.islink(target):
                    yield from _linked(target, is_known, seen)


def _links(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if os.path.islink(path := os.path.join(place, name)):
                yield Path(path)


def _hops(link: Path) -> Iterator[Path]:
    """Each path on the way from a link to the file it stands for."""
    path = link
    for _ in range(_MAX_HOPS):
        if not os.path.islink(path):
            break
        try:
            path = Path(os.path.normpath(path.parent / path.readlink()))
        except OSError:
            break
        yield path
    yield Path(os.path.realpath(link))


def _relative(path: Path, folder: Path) -> str | None:
    for one in (folder, Path(os.path.realpath(folder))):
        if path.is_relative_to(one):
            return path.relative_to(one).as_posix()
    return None
