"""Tasks as a registry lists them → tasks with a commit each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_harbor.dataset import git
from pytest_harbor.dataset.place import RegistryReading
from pytest_harbor.dataset.registry_file import RegistryTask
from pytest_harbor.dataset.source import FolderTask, GitTask, TaskSource
from pytest_harbor.dataset.spec import is_commit, parse_git, parse_task_path
from pytest_harbor.errors import DatasetError


class Pinner:
    """Pins the tasks of one registry."""

    def __init__(self, reading: RegistryReading, base: Path) -> None:
        self._reading = reading
        self._base = base
        self._commits: dict[tuple[str, str | None], str] = {}

    def pin(self, tasks: Iterable[RegistryTask]) -> list[TaskSource]:
        """Pin each task; a ref is resolved once.

        Raises:
            DatasetError: A task lies where this registry may not point.
        """
        return [self._pinned(task) for task in tasks]

    def _pinned(self, task: RegistryTask) -> TaskSource:
        repository = self._reading.repository
        if task.git_url is None and repository is None:
            return self._local(task)
        if task.git_url is None:
            assert repository is not None
            commit = self._commit(repository.url, task.git_commit_id or self._reading.commit)
            return GitTask(repository.url, commit, parse_task_path(task.path))
        spec = parse_git(task.git_url)
        if spec.url.startswith("file:") and self._reading.folder is None:
            raise DatasetError(
                f"{self._reading.shown}: the task {task.name!r} is in {task.git_url}; only a "
                "registry on this machine may name repositories on it"
            )
        commit = self._commit(spec.url, task.git_commit_id or spec.ref)
        return GitTask(spec.url, commit, parse_task_path(task.path))

    def _commit(self, url: str, ref: str | None) -> str:
        if ref is not None and is_commit(ref):
            return ref.lower()
        if (url, ref) not in self._commits:
            self._commits[url, ref] = git.resolve_ref(url, ref)
        return self._commits[url, ref]

    def _local(self, task: RegistryTask) -> TaskSource:
        if self._reading.folder is None:
            raise DatasetError(
                f"{self._reading.shown}: the task {task.name!r} has no git_url; only a registry "
                "on this machine may name folders on it"
            )
        beside = (self._reading.folder / Path(task.path).expanduser()).resolve()
        # Harbor counts from the current folder.
        from_here = (self._base / Path(task.path).expanduser()).resolve()
        return FolderTask(from_here if from_here.is_dir() and not beside.is_dir() else beside)
