"""Pinned tasks → folders: out of the cache, and into it what is not there."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_harbor.dataset.cache import Cache, CachedTask, Progress
from pytest_harbor.dataset.commit_tasks import CommitTasks
from pytest_harbor.dataset.digest import task_digest
from pytest_harbor.dataset.git import NoSuchCommitError, Repository, with_commit
from pytest_harbor.dataset.room import Room, RoomError, size_on_disk
from pytest_harbor.dataset.source import FolderTask, GitTask, HubTask, TaskSource
from pytest_harbor.errors import DatasetError, DatasetUnreachableError, TaskFormatError
from pytest_harbor.task.plural import in_number

if TYPE_CHECKING:
    from pytest_harbor.dataset.hub import Hub

_AT_ONCE = 8
_COMMITS_AT_ONCE = 4
_NAME_ERRORS = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)
_TELL_EVERY_SEC = 3.0


class FetchedTask(NamedTuple):
    """What came of one task.

    Attributes:
        task: The task; None where there is a fault.
        fault: Why it cannot be used.
    """

    task: CachedTask | None
    fault: str = ""


class Fetcher:
    """Fetches tasks into a cache.

    Args:
        cache: The cache.
        progress: Is told what goes on.
        hub: Makes the client of the Hub; only called where a task of it is missing.
    """

    def __init__(
        self,
        cache: Cache,
        progress: Progress,
        *,
        hub: Callable[[], Hub],
    ) -> None:
        self._cache = cache
        self._progress = progress
        self._hub = hub
        self._label = ""
        self._done, self._wanted = 0, 0
        self._told = time.monotonic()

    def fetch(self, sources: Iterable[TaskSource], label: str) -> dict[TaskSource, FetchedTask]:
        """Have each task on the disk.

        Raises:
            DatasetUnreachableError: Whoever has them does not answer.
            RoomError: They take more room than they may, or than there is.
        """
        wanted = list(dict.fromkeys(sources))
        found: dict[TaskSource, FetchedTask] = {}
        missing: list[GitTask | HubTask] = []
        for source in wanted:
            if isinstance(source, FolderTask):
                found[source] = _checked_folder(source)
            elif cached := self._cache.find(source):
                self._cache.mark_used(source)
                found[source] = FetchedTask(cached)
            else:
                missing.append(source)
        if missing:
            self._download(missing, len(wanted), label, found)
        for one in found.values():
            for note in one.task.notes if one.task else ():
                self._progress(f"warning: {note}")
        return {source: found[source] for source in wanted}

    def _download(
        self,
        missing: Sequence[GitTask | HubTask],
        total: int,
        label: str,
        found: dict[TaskSource, FetchedTask],
    ) -> None:
        self._progress(f"{label}: {in_number(total, 'tasks')}, {len(missing)} to download")
        self._label, self._done, self._wanted = label, 0, len(missing)
        room = self._cache.room()
        room.used = sum(one.task.size for one in found.values() if one.task)
        of_git = [one for one in missing if isinstance(one, GitTask)]
        of_git.sort(key=lambda one: one.group)
        groups = [list(group) for _, group in groupby(of_git, key=lambda one: one.group)]
        with ThreadPoolExecutor(_COMMITS_AT_ONCE) as pool:
            running = [pool.submit(self._fetch_commit, group, room) for group in groups]
            try:
                for each in as_completed(running):
                    found |= each.result()
            except BaseException:
                room.close()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        of_hub = [one for one in missing if isinstance(one, HubTask)]
        if of_hub:
            found |= self._fetch_packages(of_hub, room)
        self._progress(f"{label}: downloaded")

    def _fetch_commit(self, tasks: Sequence[GitTask], room: Room) -> dict[TaskSource, FetchedTask]:
        first = tasks[0]
        self._progress(f"{first.url} at {first.commit[:12]}: {in_number(len(tasks), 'tasks')}")
        with self._cache.lock(first.group, self._progress), self._cache.workspace() as place:
            found = self._there(tasks, room)  # another run was quicker
            if len(found) == len(tasks):
                return found
            try:
                with_commit(
                    first.url,
                    first.commit,
                    place,
                    lambda repository: self._take(repository, tasks, place, found),
                    room,
                )
            except NoSuchCommitError as error:
                missing = FetchedTask(None, str(error))
                return {task: found.get(task, missing) for task in tasks}
            return found

    def _there(
        self, tasks: Iterable[GitTask | HubTask], room: Room
    ) -> dict[TaskSource, FetchedTask]:
        """What is in the cache by now."""
        found: dict[TaskSource, FetchedTask] = {}
        for task in tasks:
            if cached := self._cache.find(task):
                room.take(cached.size, task.full_name)
                found[task] = FetchedTask(cached)
        return found

    def _take(
        self,
        repository: Repository,
        tasks: Sequence[GitTask],
        place: Path,
        found: dict[TaskSource, FetchedTask],
    ) -> None:
        """Take tasks out of a commit; what an earlier try has found stays."""
        missing = [task for task in tasks if task not in found]
        paths = [task.path for task in missing]
        with repository.reader() as reader:
            commit = CommitTasks(repository, reader, paths, self._progress)
            for task in missing:
                found[task] = self._take_one(commit, task, place, repository.room)

    def _take_one(self, commit: CommitTasks, task: GitTask, place: Path, room: Room) -> FetchedTask:
        draft = place / task.key
        shutil.rmtree(draft, ignore_errors=True)  # an earlier try broke off in it
        folder = draft / "files" / task.name
        try:
            notes = commit.write(task.path, folder)
            digest = task_digest(folder)
        except DatasetUnreachableError:
            raise
        except (DatasetError, TaskFormatError) as error:
            return FetchedTask(None, str(error))
        except (OSError, UnicodeError) as error:
            return FetchedTask(None, f"{task.url} {task.path}: {_name_fault(error)}")
        return self._kept(task, draft, digest, room, notes)

    def _fetch_packages(
        self, tasks: Sequence[HubTask], room: Room
    ) -> dict[TaskSource, FetchedTask]:
        hub = self._hub()

        def fetch(task: HubTask) -> FetchedTask:
            with self._cache.lock(task.group, self._progress), self._cache.workspace() as place:
                there = self._there([task], room)
                return there.get(task) or self._fetch_package(hub, task, place, room)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return dict(zip(tasks, pool.map(fetch, tasks), strict=True))

    def _fetch_package(self, hub: Hub, task: HubTask, place: Path, room: Room) -> FetchedTask:
        from pytest_harbor.dataset.archive import unpack

        what = f"{task.full_name}@{task.digest[:19]}"
        folder = place / task.key / "files" / task.name
        try:
            archive = hub.download_task(
                task, place / "dist.tar.gz", lambda size: room.check(size, what)
            )
            unpack(archive, folder, what, lambda size: room.check(size, what))
            digest = task_digest(folder)
            if digest != task.digest:
                raise DatasetError(f"{what}: the Hub gave other content: its digest is {digest}")
        except (DatasetUnreachableError, RoomError):
            raise
        except (DatasetError, TaskFormatError) as error:
            return FetchedTask(None, str(error))
        except (OSError, UnicodeError) as error:
            return FetchedTask(None, f"{what}: {_name_fault(error)}")
        return self._kept(task, place / task.key, digest, room)

    def _kept(
        self,
        task: GitTask | HubTask,
        draft: Path,
        digest: str,
        room: Room,
        notes: Sequence[str] = (),
    ) -> FetchedTask:
        room.take(size_on_disk(draft), task.full_name)
        found = FetchedTask(self._cache.keep(task, draft, digest, notes))
        self._done += 1
        if time.monotonic() - self._told > _TELL_EVERY_SEC:
            self._told = time.monotonic()
            self._progress(f"{self._label}: {self._done} of {self._wanted}")
        return found


def _checked_folder(source: FolderTask) -> FetchedTask:
    if not source.path.is_dir():
        return FetchedTask(None, f"{source.path}: no such folder")
    try:
        digest = task_digest(source.path)
    except (DatasetError, TaskFormatError) as error:
        return FetchedTask(None, str(error))
    if source.digest is not None and digest != source.digest:
        return FetchedTask(
            None,
            f"{source.path}: dataset.toml pins another content of this task: {source.digest}, "
            f"found {digest}. Write the new digest there (`harbor sync` does it), or undo the "
            "change",
        )
    return FetchedTask(CachedTask(source.path, digest, ""))


def _name_fault(error: OSError | UnicodeError) -> str:
    """What is wrong with a file's name; what is no task's fault is raised on."""
    if isinstance(error, OSError) and error.errno not in _NAME_ERRORS:
        raise error
    return f"a file's name cannot be used on this machine: {error}"
