"""``--harbor-changed-since``: tasks that did not change are left out, in every process alike.

The process that the user started asks git, once; workers of pytest-xdist are handed what it
said.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin import guard
from pytest_harbor.plugin.notices import printable
from pytest_harbor.plugin.options import settings
from pytest_harbor.task.layout import CONFIG_FILE
from pytest_harbor.task.plural import listed

if TYPE_CHECKING:
    from pytest_harbor.check.changes import Changes, Selection

WORKER_INPUT = "pytest_harbor_changes"
WORKER_OUTPUT = "pytest_harbor_changed_tasks"
_NAME = "harbor-changed"
_SHOWN_DELETED = 20


def register(config: pytest.Config) -> None:
    """Begin, where the option was given.

    Raises:
        pytest.UsageError: git cannot tell what changed.
    """
    if settings(config).ci.changed_since is not None:
        config.pluginmanager.register(ChangedTasks(config), _NAME)


def is_kept(config: pytest.Config, folder: Path) -> bool:
    """Whether a task is to be collected."""
    plugin: ChangedTasks | None = config.pluginmanager.getplugin(_NAME)
    return plugin is None or plugin.is_collected(folder)


def lines(config: pytest.Config) -> Sequence[str]:
    """What was left out, for people; empty where the option was not given."""
    plugin: ChangedTasks | None = config.pluginmanager.getplugin(_NAME)
    return [] if plugin is None else list(plugin.lines())


class ChangedTasks:
    """Knows what changed, and counts the tasks that it is asked about."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._revision = settings(config).ci.changed_since
        self._changes = list(_handed(config) if _is_worker(config) else _asked(config))
        self._selection = _selection(config, self._changes)
        self._known: dict[Path, bool] = {}
        self._counts = (0, 0)
        self._is_told = False

    def is_collected(self, folder: Path) -> bool:
        """Whether a task changed, or is to be deselected later: one of its ids was named."""
        if folder not in self._known:
            self._known[folder] = self._selection.has(folder)
            self._counts = (sum(self._known.values()), len(self._known))
        named = guard.named_trials(self._config.args, folder / CONFIG_FILE)
        return self._known[folder] or bool(named)

    def lines(self) -> Iterator[str]:
        """How many tasks changed, and which are gone."""
        changed, seen = self._counts
        since = f"changed since {printable(self._revision or '')}"
        if changed:
            yield f"harbor: {changed} of {seen} tasks {since}"
        else:
            looked = "no task was found" if not seen else f"{seen} looked at"
            yield f"harbor: no task {since} ({looked})"
        gone = self._deleted()
        if gone:
            yield f"harbor: deleted since then: {listed(gone, _SHOWN_DELETED)}"

    def _deleted(self) -> list[str]:
        root = self._config.rootpath
        found = (task for one in self._changes for task in one.deleted_tasks())
        asked = (task for task in found if guard.is_asked_for(self._config, task))
        return [printable(Path(os.path.relpath(task, root)).as_posix()) for task in asked]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect what was named by its id and did not change."""
        left_out = [item for item in items if self._known.get(item.path.parent) is False]
        if left_out:
            self._config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if self._known.get(item.path.parent) is not False]

    def pytest_report_collectionfinish(self) -> list[str]:
        """Say it where tasks were collected in this process."""
        self._is_told = True
        return list(self.lines())

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say it where workers collected."""
        if not self._is_told:
            for line in self.lines():
                terminalreporter.write_line(line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A run is no failure for having nothing to do."""
        if _is_worker(self._config):
            self._config.workeroutput[WORKER_OUTPUT] = list(self._counts)  # type: ignore[attr-defined]
            return
        changed, seen = self._counts
        is_empty = session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not changed
        if is_empty and (seen or self._deleted()):
            session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Hand what git said to a worker."""
        node.workerinput[WORKER_INPUT] = [one.as_plain() for one in self._changes]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over a worker's counts; all count the same."""
        counts = getattr(node, "workeroutput", {}).get(WORKER_OUTPUT)
        if counts and not self._counts[1]:
            self._counts = tuple(counts)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _handed(config: pytest.Config) -> Iterator[Changes]:
    from pytest_harbor.check.changes import Changes

    plain = config.workerinput[WORKER_INPUT]  # type: ignore[attr-defined]
    return map(Changes.from_plain, plain)


def _asked(config: pytest.Config) -> Iterator[Changes]:
    """Of each repository that the arguments lie in."""
    from pytest_harbor.check.changes import read_changes
    from pytest_harbor.errors import OptionError

    revision = settings(config).ci.changed_since or ""
    start = Path(config.invocation_params.dir)
    known: list[Changes] = []
    for path in _places(config, start):
        if any(one.below(path) is not None for one in known):
            continue
        try:
            found = read_changes(path, revision, start=start)
        except OptionError as error:
            raise pytest.UsageError(f"--harbor-changed-since: {printable(str(error))}") from None
        known.append(found)
        yield found


def _selection(config: pytest.Config, changes: Sequence[Changes]) -> Selection:
    from pytest_harbor.check.changes import Selection
    from pytest_harbor.errors import OptionError

    try:
        return Selection(changes, settings(config).ci.shared, config.inipath)
    except OptionError as error:
        raise pytest.UsageError(f"--harbor-shared-path: {error}") from None


def _places(config: pytest.Config, start: Path) -> Iterator[Path]:
    for argument in config.args:
        path = Path(os.path.abspath(start / argument.partition("::")[0]))
        if path.exists():
            yield path if path.is_dir() else path.parent
