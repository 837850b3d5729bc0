"""The dataset that a git repository is: its ``tasks/``, or what its registry says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pytest_harbor.dataset.git import Repository, TreeEntry
from pytest_harbor.dataset.registry_file import REGISTRY_FILE
from pytest_harbor.dataset.spec import GitSpec
from pytest_harbor.errors import DatasetError
from pytest_harbor.task.layout import CONFIG_FILE

TASKS_FOLDER = "tasks"
_SHOWN = 5


class RepositoryTasks(NamedTuple):
    """What was found in a repository.

    Attributes:
        commit: The commit's id.
        folder: The folder that was looked in.
        paths: Paths of its tasks, sorted.
        registry: Content of its ``registry.json``, where there are no tasks.
    """

    commit: str
    folder: str
    paths: tuple[str, ...] = ()
    registry: bytes | None = None


def find_tasks(repository: Repository, spec: GitSpec) -> RepositoryTasks:
    """Find the tasks of a repository; reads names alone.

    Raises:
        DatasetError: There are none where they were looked for.
    """
    folder = spec.folder or TASKS_FOLDER
    commit = repository.commit
    entries = repository.entries(folder)
    own = "" if folder == "." else f"{folder}/"
    files = {entry.path.removeprefix(own) for entry in entries if entry.kind == "blob"}
    if spec.folder and CONFIG_FILE in files:
        return RepositoryTasks(commit, folder, (folder,))
    names = sorted(path.partition("/")[0] for path in files if _is_config(path))
    if names:
        return RepositoryTasks(commit, folder, tuple(f"{own}{name}" for name in names))
    path = REGISTRY_FILE if spec.folder in (None, ".") else f"{folder}/{REGISTRY_FILE}"
    registry = repository.file(folder if folder.endswith(".json") else path)
    if registry is None:
        raise _nothing_there(repository, spec, folder)
    return RepositoryTasks(commit, folder, registry=registry)


def _is_config(path: str) -> bool:
    return path.count("/") == 1 and path.endswith(f"/{CONFIG_FILE}")


def _nothing_there(repository: Repository, spec: GitSpec, folder: str) -> DatasetError:
    found = _folders_with_tasks(repository.entries())
    more = ", …" if found[_SHOWN:] else ""
    hint = (
        f"There are tasks in {', '.join(found[:_SHOWN])}{more}: name the folder as "
        "URL/tree/REF/FOLDER"
        if found
        else "There is no task in the whole repository"
    )
    return DatasetError(
        f"{spec.url} at {repository.commit[:12]}: no folder with a {CONFIG_FILE} directly "
        f"below {folder!r}, and no {REGISTRY_FILE}. {hint}"
    )


def _folders_with_tasks(entries: Sequence[TreeEntry]) -> list[str]:
    configs = [one.path for one in entries if one.path.rpartition("/")[2] == CONFIG_FILE]
    tasks = [path.rpartition("/")[0] for path in configs]
    return sorted({task.rpartition("/")[0] or "." for task in tasks if task})
