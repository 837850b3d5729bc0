"""Datasets of a run: found and downloaded once, before anything is collected.

The process that the user started does it; workers of pytest-xdist are handed the folders.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.errors import DatasetError
from pytest_harbor.plugin import labels
from pytest_harbor.plugin.dataset_collect import (
    DatasetRoot,
    DatasetTaskFile,
    DatasetTaskFolder,
    RootTask,
    fail_where_changed,
)
from pytest_harbor.plugin.locked_datasets import locked_datasets, meaning_now
from pytest_harbor.plugin.notices import HarborWarning, printable
from pytest_harbor.plugin.options import settings
from pytest_harbor.task.layout import CONFIG_FILE

if TYPE_CHECKING:
    from pytest_harbor.dataset.cache import Cache
    from pytest_harbor.dataset.dataset import Dataset
    from pytest_harbor.dataset.fetch import FetchedTask
    from pytest_harbor.dataset.hub import Hub
    from pytest_harbor.dataset.source import TaskSource
    from pytest_harbor.plugin.dataset_select import NamedParts, Patterns

WORKER_INPUT = "pytest_harbor_datasets"
NAME = "harbor-datasets"


def register(config: pytest.Config) -> None:
    """Begin, where the run is of datasets."""
    if config.option.help:
        return
    is_handed = WORKER_INPUT in getattr(config, "workerinput", {})
    if is_handed or settings(config).datasets.asked or locked_datasets(config):
        config.pluginmanager.register(DatasetRoots(config), NAME)


def task_folder(config: pytest.Config, nodeid: str) -> Path:
    """The folder of an item's task: of a dataset's, or where the id says."""
    path = nodeid.partition("::")[0]
    plugin: DatasetRoots | None = config.pluginmanager.getplugin(NAME)
    known = plugin.folders if plugin is not None else {}
    return known.get(path) or (config.rootpath / path).parent


class DatasetRoots:
    """Hangs the datasets into the collection.

    Attributes:
        datasets: As they were resolved; in the process that the user started alone.
        roots: Each dataset's label with its tasks.
        drift: What names of datasets that a lock has pinned mean by now, where it is not that.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._args: list[str] = []
        self._held = ExitStack()
        self.datasets: list[Dataset] = []
        self.roots: list[tuple[str, list[RootTask]]] = []
        self.drift: list[str] = []

    @cached_property
    def folders(self) -> dict[str, Path]:
        """The tasks' folders by their ids."""
        return {
            printable(f"{label}/{task.name}/{CONFIG_FILE}"): Path(task.folder)
            for label, tasks in self.roots
            for task in tasks
        }

    @cached_property
    def digests(self) -> dict[str, str]:
        """The tasks' digests by their ids, as they were downloaded."""
        return {
            printable(f"{label}/{task.name}/{CONFIG_FILE}"): str(task.origin["digest"])
            for label, tasks in self.roots
            for task in tasks
        }

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Have the tasks of all datasets on the disk."""
        handed = getattr(self._config, "workerinput", {}).get(WORKER_INPUT)
        if handed is not None:
            self._take(handed)
            return
        try:
            self._prepare()
        except DatasetError as error:
            raise pytest.UsageError(f"--harbor-dataset: {error}") from None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Hand all of it to a worker."""
        roots = [[label, [list(task) for task in tasks]] for label, tasks in self.roots]
        used = sorted(labels.patterns_in_use(self._config))
        node.workerinput[WORKER_INPUT] = {"args": self._args, "roots": roots, "used": used}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Hang the datasets below the session."""
        report = yield
        if isinstance(collector, pytest.Session) and report.passed:
            nodes = [DatasetRoot.of(collector, label, tasks) for label, tasks in self.roots]
            report.result = [*report.result, *nodes]
        return report

    @pytest.hookimpl(tryfirst=True, specname="pytest_make_collect_report")
    def pytest_collect_what_lf_skips(
        self, collector: pytest.Collector
    ) -> pytest.CollectReport | None:
        """Under --lf pytest skips files that it does not find under the root folder."""
        if isinstance(collector, DatasetTaskFolder | DatasetTaskFile):
            plugin = self._config.pluginmanager.getplugin("runner")
            report: pytest.CollectReport = plugin.pytest_make_collect_report(collector)
            return report
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """What was changed in the cache is not run."""
        fail_where_changed(item)

    def pytest_report_header(self) -> list[str]:
        """Say what is run."""
        chosen = {label: len(tasks) for label, tasks in self.roots}
        return [
            f"harbor: {printable(one.label)}: {chosen[one.label]} of {len(one.tasks)} tasks"
            + (f", {one.version[:19]}" if one.version and one.version not in one.label else "")
            for one in self.datasets
        ]

    def pytest_unconfigure(self) -> None:
        """Let go of the cache."""
        self._held.close()

    def _take(self, handed: Mapping[str, Any]) -> None:
        self._config.args[:] = handed["args"]
        self.roots = [
            (label, [RootTask(*task) for task in tasks]) for label, tasks in handed["roots"]
        ]
        labels.note_patterns(self._config, handed["used"], ())

    def _prepare(self) -> None:
        from pytest_harbor.dataset.cache import Cache
        from pytest_harbor.dataset.room import DEFAULT_MAX_SIZE
        from pytest_harbor.plugin.dataset_select import named_parts

        wanted = settings(self._config).datasets
        cache = Cache(max_size=wanted.max_size or DEFAULT_MAX_SIZE)
        self._held.enter_context(cache.in_use())
        locked = locked_datasets(self._config)
        self.datasets = _resolved(self._config, cache, self._tell, locked)
        self._look_again(cache, [one for one in self.datasets if one in locked])
        named = named_parts(self._config.args, self.datasets)
        if named.tasks:
            # Whoever names a part of a dataset wants no other whole.
            self.datasets = [one for one in self.datasets if one.label in named.tasks]
        is_default = self._config.args_source is not self._config.ArgsSource.ARGS
        if (wanted.is_of_line or not wanted.asked) and is_default:
            named.others = []
        self._args[:] = self._config.args[:] = named.others
        self._choose(cache, named)

    def _look_again(self, cache: Cache, pinned: Sequence[Dataset]) -> None:
        """Say what names mean by now whose tasks an earlier job had pinned."""
        for one in pinned:
            if line := meaning_now(self._config, cache, one, hub_maker(self._config)):
                self._tell(line)
                self.drift.append(printable(line))

    def _choose(self, cache: Cache, named: NamedParts) -> None:
        """Choose tasks by name, download them, and choose among them by what they say."""
        from pytest_harbor.plugin.dataset_select import Patterns

        current = settings(self._config)
        keep, drop = Patterns(current.tasks), Patterns(current.datasets.exclude)
        chosen = {one.label: _chosen(one, keep, drop, named) for one in self.datasets}
        if keep.unused or drop.unused:
            # A pattern may be for [task].name, which is only in the tasks.
            chosen = {one.label: _all(one, named) for one in self.datasets}
        for one in self.datasets:
            fetched = self._fetch(cache, one, chosen[one.label])
            if keep.unused or drop.unused:
                fetched = _chosen_by_title(one, fetched, keep, drop)
            self.roots.append((one.label, _root_tasks(one, fetched, named)))
        self._check_patterns(keep, drop)

    def _fetch(
        self, cache: Cache, dataset: Dataset, names: set[str]
    ) -> dict[TaskSource, FetchedTask]:
        from pytest_harbor.dataset.fetch import Fetcher

        sources = [one.source for one in dataset.tasks if one.name in names]
        hub = hub_maker(self._config)
        fetcher = Fetcher(cache, self._tell, hub=hub)
        return fetcher.fetch(sources, printable(dataset.label))

    def _check_patterns(self, keep: Patterns, drop: Patterns) -> None:
        """A pattern that fitted nothing is a mistake, unless tasks of paths are to come."""
        from pytest_harbor.dataset.registry_file import near

        seen = [task.name for one in self.datasets for task in one.tasks]
        labels.note_patterns(self._config, {*keep.used, *drop.used}, seen)
        if self._args:
            return
        for option, patterns in (("--harbor-tasks", keep), ("--harbor-exclude-tasks", drop)):
            for pattern in patterns.unused:
                hint = near(pattern, seen, "tasks")
                raise pytest.UsageError(f"{option}: no task fits {pattern!r}. {hint}")

    def _tell(self, line: str) -> None:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if line.startswith("warning: "):
            self._config.issue_config_time_warning(HarborWarning(line[9:]), stacklevel=2)
        elif reporter is not None:
            reporter.write_line(f"harbor: {printable(line)}")


def _resolved(
    config: pytest.Config, cache: Cache, tell: Any, pinned: Sequence[Dataset]
) -> list[Dataset]:
    from pytest_harbor.dataset.place import parse_place
    from pytest_harbor.dataset.resolve import Resolver

    wanted = settings(config).datasets
    place = parse_place(wanted.registry, wanted.registry_base)
    resolver = Resolver(cache, tell, place, hub_maker(config), wanted.base)
    locked = {one.asked: one for one in pinned}
    found: dict[str, Dataset] = {}
    for asked in wanted.asked or locked:
        dataset = locked.get(asked) or resolver.resolve(asked)
        for note in dataset.notes:
            tell(f"warning: {note}")
        if (other := found.get(dataset.label)) is not None and other.tasks != dataset.tasks:
            raise DatasetError(f"{other.asked} and {asked} are both called {dataset.label} in ids")
        found[dataset.label] = dataset
    return list(found.values())


def hub_maker(config: pytest.Config) -> Callable[[], Hub]:
    """What makes the client of the run's Hub."""
    from pytest_harbor.dataset.hub import Hub

    return lambda: Hub(settings(config).datasets.hub)


def _all(dataset: Dataset, named: NamedParts) -> set[str]:
    asked = named.tasks.get(dataset.label)
    return {one.name for one in dataset.tasks if asked is None or one.name in asked}


def _chosen(dataset: Dataset, keep: Patterns, drop: Patterns, named: NamedParts) -> set[str]:
    """Tasks that fit by the names that are known without them."""
    from pytest_harbor.plugin.dataset_select import task_names, wants

    kept = set()
    asked = _all(dataset, named)
    for task in dataset.tasks:
        names = list(task_names(dataset, task))
        if wants(names, keep, drop) and task.name in asked:
            kept.add(task.name)
    return kept


def _chosen_by_title(
    dataset: Dataset, fetched: dict[TaskSource, FetchedTask], keep: Patterns, drop: Patterns
) -> dict[TaskSource, FetchedTask]:
    """Tasks that fit by ``[task].name`` too."""
    from pytest_harbor.dataset.folder import task_name
    from pytest_harbor.plugin.dataset_select import task_names, wants

    chosen = {}
    for task in dataset.tasks:
        if (one := fetched.get(task.source)) is None:
            continue
        titles = [task_name(one.task.folder)] if one.task else []
        names = [*task_names(dataset, task), *titles]
        if wants(names, keep, drop):
            chosen[task.source] = one
    return chosen


def _root_tasks(
    dataset: Dataset, fetched: dict[TaskSource, FetchedTask], named: NamedParts
) -> list[RootTask]:
    asked = named.tasks.get(dataset.label, {})
    found = []
    for task in dataset.tasks:
        if (one := fetched.get(task.source)) is None:
            continue
        # What could not be had gets a path that tells of it in messages.
        folder = str(one.task.folder) if one.task else f"/{dataset.label}/{task.name}"
        origin = {
            "dataset": dataset.name,
            "version": dataset.version,
            "digest": one.task.digest if one.task else "",
            "task_id": task.source.as_json(),
            "label": dataset.label,
        }
        tree = one.task.tree if one.task else ""
        found.append(RootTask(task.name, folder, tree, one.fault, asked.get(task.name), origin))
    return found
