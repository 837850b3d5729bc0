"""Tasks of a dataset as pytest nodes: named by the dataset, wherever their folders lie.

The nodes hang below the session without being paths under the root folder. To hooks and
``conftest.py`` files they stand directly below the root folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_harbor.errors import DatasetError, Problem, TaskFormatError
from pytest_harbor.plugin import labels
from pytest_harbor.plugin.collect import NamedRoot, TaskFile, TaskFolder, TrialItem, trial
from pytest_harbor.plugin.notices import printable
from pytest_harbor.task.layout import CONFIG_FILE
from pytest_harbor.task.origin import TaskOrigin


class RootTask(NamedTuple):
    """A task of a dataset as the processes of a run tell each other.

    Attributes:
        name: Its name in ids.
        folder: Its folder on this machine.
        tree: Digest of all that lies there; empty where it is not from the cache.
        fault: Why it cannot be used; empty for a sound one.
        trials: Names of the trials that were asked for; None: all.
        origin: Where it came from.
    """

    name: str
    folder: str
    tree: str
    fault: str
    trials: list[str] | None
    origin: dict[str, Any]


class DatasetRoot(NamedRoot):
    """A dataset; not a folder."""

    tasks: list[RootTask]

    @classmethod
    def of(cls, session: pytest.Session, label: str, tasks: list[RootTask]) -> DatasetRoot:
        """The node of a dataset."""
        name = printable(label)
        made: DatasetRoot = cls.from_parent(
            session, name=name, path=session.config.rootpath, nodeid=name
        )
        made.tasks = tasks
        return made

    def collect(self) -> Iterator[DatasetTaskFolder]:
        """Give the node of each task."""
        for task in self.tasks:
            yield DatasetTaskFolder.of(self, task)


class DatasetTaskFolder(TaskFolder):
    """A dataset's task."""

    task: RootTask

    @classmethod
    def of(cls, parent: DatasetRoot, task: RootTask) -> DatasetTaskFolder:
        """The node of a task."""
        made: DatasetTaskFolder = super(TaskFolder, cls).from_parent(
            parent, path=Path(task.folder), name=task.name, nodeid=f"{parent.nodeid}/{task.name}"
        )
        made.task = task
        return made

    def collect(self) -> Iterator[TaskFile]:
        """Give the node of ``task.toml``."""
        yield DatasetTaskFile.of(self, self.task)


class DatasetTaskFile(TaskFile):
    """The ``task.toml`` of a dataset's task."""

    root: RootTask

    @classmethod
    def of(cls, parent: DatasetTaskFolder, task: RootTask) -> DatasetTaskFile:
        """The node of a task's ``task.toml``."""
        made: DatasetTaskFile = super(TaskFile, cls).from_parent(
            parent,
            path=Path(task.folder, CONFIG_FILE),
            name=CONFIG_FILE,
            nodeid=f"{parent.nodeid}/{CONFIG_FILE}",
        )
        made.root = task
        return made

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Give the trials, or those that were asked for by their ids."""
        items = list(super().collect())
        if self.root.trials is None:
            return items
        named = [one for one in items if _is_named(one, self.root.trials)]
        if not named:
            known = ", ".join(one.name for one in items)
            asked = ", ".join(self.root.trials)
            raise self.CollectError(f"{self.nodeid}: no trial {asked}; it has: {known}")
        return named

    def verify(self) -> None:
        """Hold the task's files against what was downloaded.

        Raises:
            DatasetError: They were changed since.
        """
        if self.root.tree:
            from pytest_harbor.dataset.cache import CachedTask, check_unchanged

            check_unchanged(CachedTask(Path(self.root.folder), "", self.root.tree))

    def _is_wanted(self) -> bool:
        # The dataset's tasks were chosen before they were downloaded.
        self._read()
        return True

    def _read(self) -> None:
        if self.root.fault:
            self.fault = TaskFormatError(
                [Problem(Path(self.nodeid), self.root.fault, code="download")]
            )
            return
        super()._read()
        if self._task is not None:
            self._task = replace(self._task, origin=TaskOrigin(**self.root.origin))

    def _stand_in(self) -> TrialItem:
        asked = self.root.trials or []
        names = [name for name in self.variants if name in asked or name.split("[")[0] in asked]
        return TrialItem.from_parent(self, name=next(iter(names or self.variants)), callobj=trial)


def _is_named(node: pytest.Item | pytest.Collector, asked: list[str]) -> bool:
    return node.name in asked or node.name.split("[")[0] in asked


def fail_where_changed(item: pytest.Item) -> None:
    """End an item's set-up where its task is not what was downloaded."""
    fault = _change(item.parent) if isinstance(item.parent, DatasetTaskFile) else ""
    if fault:
        item.user_properties.append(("category", "environment"))
        if isinstance(item, TrialItem):
            item.user_properties += labels.properties(item, item.variant)
        pytest.fail(fault, pytrace=False)


def _change(file: DatasetTaskFile) -> str:
    try:
        file.verify()
    except DatasetError as error:
        return str(error)
    return ""
