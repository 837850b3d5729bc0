"""Tasks on this machine's disk, shared by runs and their workers.

A task lies in ``tasks/<key>/files/<name>/`` and what is known of it in ``entry.json``
beside; both come by one rename, so that an entry is whole or not there. Work in
progress lies in ``tmp/``, where the next run sweeps what a killed one left.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pytest_harbor.dataset.digest import tree_digest
from pytest_harbor.dataset.leftovers import sweep
from pytest_harbor.dataset.room import DEFAULT_MAX_SIZE, Room, size_on_disk
from pytest_harbor.dataset.source import GitTask, HubTask, source_json
from pytest_harbor.errors import DatasetError

VARIABLE = "PYTEST_HARBOR_CACHE"
_ENTRY = "entry.json"
# Raised where entries of before must not pass: those of 1 may hold pointers of Git LFS.
_SCHEMA = 2

Progress = Callable[[str], None]
"""Is told what goes on, a line at a time."""


class CachedTask(NamedTuple):
    """A task that can be used.

    Attributes:
        folder: The task's folder.
        digest: Harbor's digest of its content.
        tree: Digest of all that lies in the folder.
        notes: What its user should know.
        size: What it takes on the disk, in bytes.
    """

    folder: Path
    digest: str
    tree: str
    notes: tuple[str, ...] = ()
    size: int = 0


class EntryReading(NamedTuple):
    """What ``entry.json`` of an entry says.

    Attributes:
        path: The entry's folder.
        source: Where the task came from, in words.
        digest: Harbor's digest of its content.
        bytes: What it takes on the disk.
        used: When a run last used it, in seconds since 1970.
    """

    path: Path
    source: str
    digest: str
    bytes: int
    used: float


def cache_root() -> Path:
    """The cache's folder: of the variable, else of the user."""
    if given := os.environ.get(VARIABLE):
        return Path(os.path.abspath(Path(given).expanduser()))
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "pytest-harbor"


class Cache:
    """The cache in one folder.

    Attributes:
        root: The folder; made with the first task.
        max_size: The most that one dataset may take in it, in bytes.
    """

    def __init__(self, root: Path | None = None, *, max_size: int = DEFAULT_MAX_SIZE) -> None:
        self.root = root or cache_root()
        self.max_size = max_size
        self._is_swept = False

    def room(self, place: Path | None = None) -> Room:
        """The room of one dataset; ``place`` is where it is worked on, if not in the cache."""
        hint = (
            ": make room (`python -m pytest_harbor cache clean`), or name another place for the "
            f"cache with the variable {VARIABLE}"
        )
        return Room(self.max_size, place or self._made(self.root), hint)

    def find(self, source: GitTask | HubTask) -> CachedTask | None:
        """The task, if it is there."""
        place = self.root / "tasks" / source.key
        try:
            known = json.loads((place / _ENTRY).read_text(encoding="utf-8"))
            folder = place / "files" / source.name
            notes = tuple(map(str, known.get("notes", ())))
            size = int(known["bytes"])
            found = CachedTask(folder, str(known["digest"]), str(known["tree"]), notes, size)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if known.get("schema") == _SCHEMA and found.folder.is_dir() else None

    def keep(
        self, source: GitTask | HubTask, draft: Path, digest: str, notes: Sequence[str] = ()
    ) -> CachedTask:
        """Take over a task that was written in a workspace of this cache.

        Args:
            source: What it is.
            draft: A folder that holds ``files/<name>``; it is moved.
            digest: Harbor's digest of its content.
            notes: What its user should know.
        """
        folder = draft / "files" / source.name
        tree, size = tree_digest(folder), size_on_disk(folder)
        known = {
            "schema": _SCHEMA,
            "source": source_json(source),
            "digest": digest,
            "tree": tree,
            "bytes": size,
            "notes": list(notes),
        }
        (draft / _ENTRY).write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
        place = self.root / "tasks" / source.key
        place.parent.mkdir(parents=True, exist_ok=True)
        with self._out_of_the_way(place):
            draft.rename(place)
        return CachedTask(place / "files" / source.name, digest, tree, tuple(notes), size)

    @contextmanager
    def _out_of_the_way(self, place: Path) -> Iterator[None]:
        """What is at the place already is incomplete or was changed: it goes."""
        if place.exists():
            old = self.root / "tmp" / f"old-{secrets.token_hex(8)}"
            old.parent.mkdir(parents=True, exist_ok=True)
            place.rename(old)
            shutil.rmtree(old, ignore_errors=True)
        yield

    def mark_used(self, source: GitTask | HubTask) -> None:
        """Note that a run uses the task now."""
        with suppress(OSError):
            os.utime(self.root / "tasks" / source.key / _ENTRY)

    @contextmanager
    def lock(self, key: str, progress: Progress) -> Iterator[None]:
        """Hold what only one process may do at a time."""
        from filelock import FileLock, Timeout

        path = self.root / "locks" / f"{key}.lock"
        held = FileLock(self._made(path.parent) / path.name)
        try:
            held.acquire(timeout=0.5)
        except OSError as error:
            if not isinstance(error, Timeout):
                raise self._unwritable(error) from error
            progress("another run is downloading the same; waiting for it")
            held.acquire()
        try:
            yield
        finally:
            held.release()

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A folder for work in progress, removed afterwards.

        Where the cache can only be read it lies elsewhere: what is whole can still be used.

        Raises:
            DatasetError: The disk is full, or fails.
        """
        with ExitStack() as held:
            path = self._workspace(held)
            try:
                yield path
            except OSError as error:
                raise self._unwritable(error) from error

    def _workspace(self, held: ExitStack) -> Path:
        from filelock import FileLock

        try:
            base = self._made(self.root / "tmp")
            self._sweep()
            path = base / f"work-{secrets.token_hex(8)}"
            held.enter_context(FileLock(f"{path}.lock"))
            held.callback(Path(f"{path}.lock").unlink, missing_ok=True)
            path.mkdir()
            held.callback(shutil.rmtree, path, ignore_errors=True)
        except (OSError, DatasetError):
            made = held.enter_context(TemporaryDirectory(prefix="pytest-harbor-"))
            return Path(made)
        return path

    def _sweep(self) -> None:
        """Remove what killed runs left, once."""
        if not self._is_swept:
            self._is_swept = True
            sweep(self.root)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """While a run uses tasks, nobody removes them."""
        from filelock import FileLock

        try:
            path = self._made(self.root / "runs") / f"{os.getpid()}-{secrets.token_hex(4)}.lock"
            self._sweep()
            held = FileLock(path)
            held.acquire()
        except (OSError, DatasetError):  # a cache that is only read cannot be emptied either
            yield
            return
        try:
            yield
        finally:
            held.release()
            path.unlink(missing_ok=True)

    def users(self) -> int:
        """How many runs use the cache now."""
        from filelock import FileLock, Timeout

        count = 0
        for path in (self.root / "runs").glob("*.lock"):
            try:
                with FileLock(path, timeout=0):
                    path.unlink(missing_ok=True)
            except (Timeout, OSError):
                count += 1
        return count

    def entries(self) -> list[EntryReading]:
        """What there is, last used first."""
        found = [_reading(path) for path in (self.root / "tasks").glob("*")]
        return sorted(found, key=lambda one: one.used, reverse=True)

    def remove(self, entry: EntryReading) -> None:
        """Remove one entry, at once for whoever looks."""
        self._made(self.root / "tmp")
        with self._out_of_the_way(entry.path):
            pass

    def note_path(self, name: str) -> Path:
        """Where a note of this name is kept, as what a dataset was resolved to."""
        return self.root / "datasets" / f"{name}.json"

    def write_note(self, name: str, value: Any) -> None:
        """Keep a note; a cache that cannot be written keeps none."""
        path = self.note_path(name)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f".{name}.{os.getpid()}.part")
            draft.write_text(json.dumps(value, indent=1), encoding="utf-8")
            draft.replace(path)

    def read_note(self, name: str) -> Any:
        """A note; None where there is none that can be read."""
        try:
            return json.loads(self.note_path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def forget_notes(self) -> None:
        """Remove what datasets were resolved to."""
        shutil.rmtree(self.root / "datasets", ignore_errors=True)

    def _made(self, folder: Path) -> Path:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error
        return folder

    def _unwritable(self, error: OSError) -> DatasetError:
        return DatasetError(
            f"the cache {self.root} cannot be written: {error.strerror or error}; name another "
            f"with the variable {VARIABLE}"
        )


def _reading(path: Path) -> EntryReading:
    try:
        known = json.loads((path / _ENTRY).read_text(encoding="utf-8"))
        source, used = known["source"], (path / _ENTRY).stat().st_mtime
        return EntryReading(path, source_text(source), known["digest"], known["bytes"], used)
    except (OSError, ValueError, KeyError, TypeError):
        return EntryReading(path, "unreadable", "", 0, 0.0)


def source_text(source: dict[str, Any]) -> str:
    """Where a task came from, on one line."""
    if source["type"] == "git":
        return f"{source['git_url']} {source['git_commit_id'][:12]} {source['path']}"
    return f"{source['org']}/{source['name']}@{source['ref'][:19]}"


def check_unchanged(task: CachedTask) -> None:
    """Hold what lies in the cache against what was downloaded.

    Raises:
        DatasetError: Something was changed since.
    """
    if tree_digest(task.folder) != task.tree:
        raise DatasetError(
            f"{task.folder}: the cached task was changed since it was downloaded; remove it with "
            "`python -m pytest_harbor cache clean --changed`, and the next run downloads it again"
        )


def is_changed(entry: EntryReading) -> bool:
    """Whether an entry is not what was downloaded."""
    try:
        known = json.loads((entry.path / _ENTRY).read_text(encoding="utf-8"))
        (folder,) = (entry.path / "files").iterdir()
        return bool(tree_digest(folder) != known["tree"])
    except (OSError, ValueError, KeyError, TypeError):
        return True


def days_ago(when: float) -> str:
    """How long ago something was."""
    days = max(int((time.time() - when) // 86400), 0)
    return {0: "today", 1: "yesterday"}.get(days, f"{days} days ago")
