"""Task folders as pytest nodes: folder, ``task.toml``, one item per trial.

The nodes are a ``File`` for the folder, which keeps pytest from descending into it and
from importing its ``conftest.py``; a ``Module`` with a made-up module on ``task.toml``,
so that fixtures of every scope and parametrized ones work; and ``Function`` items.
"""

from __future__ import annotations

import os
import types
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy
import pytest

from pytest_harbor.errors import Problem, TaskFormatError
from pytest_harbor.plugin import changed, guard, labels, resume
from pytest_harbor.plugin.job import job
from pytest_harbor.plugin.notices import printable, warn
from pytest_harbor.plugin.options import missing_variables_text, settings
from pytest_harbor.plugin.variants import Variant, variants
from pytest_harbor.task.layout import CONFIG_FILE

if TYPE_CHECKING:
    from pytest_harbor.task.reader import Task


def trial(request: pytest.FixtureRequest, harbor_trial: Any) -> None:
    """Every trial's function: the fixture runs the trial, here pytest hears of it."""
    from pytest_harbor.plugin import outcomes

    # In this frame pytest's debugger stops: what people look for is at hand here.
    environments = outcomes.environments_of(request.node)
    harbor_environment = next(iter(environments), None)
    outcomes.report(request, harbor_trial, harbor_environment)


_VARIANTS = pytest.StashKey[dict[str, Variant]]()
_SHARED_FIXTURES = pytest.StashKey[Any]()
"""Which fixtures a trial needs, on the folder above its task: the same for all tasks in
it, unless they are multiplied. Finding them anew took a third of the time per task."""
_REFUSED = pytest.StashKey[dict[Path, str]]()
"""Folders left out with a warning that the user's filters made an error."""


def collect_folder(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Give the node of a folder that is a task, or was meant to be one."""
    if not os.path.isfile(os.path.join(path, CONFIG_FILE)):
        return None
    refused = parent.config.stash.get(_REFUSED, {}).get(path)
    if refused is not None:
        return RefusedFolder.from_parent(parent, path=path, message=refused)
    if guard.is_task_node(path):
        return TaskFolder.from_parent(parent, path=path)
    if not guard.is_asked_for(parent.config, path):
        return None
    message = (
        f"{path.name}: not taken for a Harbor task: it has a task.toml, but neither "
        "instruction.md nor a steps folder. Add one, or rename the file if it is not Harbor's"
    )
    if warn(parent.config, message, path / CONFIG_FILE):
        return RefusedFolder.from_parent(parent, path=path, message=message)
    return None


class NamedRoot(pytest.Collector):
    """A collector of tasks that is no folder; to hooks, its path is the one above them."""


class AboveTask:
    """Hooks of ``conftest.py`` files above the task apply, those inside it never.

    A node asks for the hooks of its own path, and pytest loads no ``conftest.py`` for a
    folder that is a ``File`` node: it would find none at all.
    """

    path: Path
    parent: Any
    session: pytest.Session
    getparent: Any

    @cached_property
    def above_task(self) -> Path:
        """The folder that holds the task's."""
        if isinstance(self.parent, AboveTask):
            return self.parent.above_task
        named: NamedRoot | None = self.getparent(NamedRoot)
        if named is not None:
            return named.path
        # One object for all neighbours: pytest looks hooks up by it, at each call of one.
        shared: Path = self.parent.path
        return shared if str(shared) == os.path.dirname(self.path) else self.path.parent

    @property
    def ihook(self) -> pluggy.HookRelay:
        """Hooks of the folder that holds the task's."""
        hooks: pluggy.HookRelay = self.session.gethookproxy(self.above_task)
        return hooks


class RefusedFolder(AboveTask, pytest.File):
    """A folder of which a warning was made an error by the user's filters."""

    def __init__(self, *, message: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.message = message

    def collect(self) -> Iterable[pytest.Item]:
        """Fail with the message alone."""
        raise self.CollectError(self.message)


class TaskFolder(AboveTask, pytest.File):
    """A task's folder. Not a ``Directory``: nothing in it is visited or imported."""

    @classmethod
    def from_parent(cls, parent: pytest.Collector, **kwargs: Any) -> TaskFolder:
        """The public constructor."""
        return super().from_parent(parent, **labels.node_names(parent, **kwargs))

    def collect(self) -> Iterator[TaskFile]:
        """Give the node of ``task.toml``."""
        yield TaskFile.from_parent(self, path=self.path / CONFIG_FILE)


class _MadeUpModule(types.ModuleType):
    """Holds a task's trials; there are no fixtures in it for which pytest should look."""

    def __dir__(self) -> list[str]:
        return []


class TaskFile(AboveTask, pytest.Module):
    """A ``task.toml``: the task once it is read, or why it cannot be.

    Attributes:
        fault: What keeps the trials from running; None for a sound task.
        asked: What hooks and the task's path are at fault for, under ``--harbor-check``.
    """

    parent: TaskFolder
    fault: TaskFormatError | None = None
    asked: tuple[Problem, ...] = ()
    _task: Task | None = None

    @classmethod
    def from_parent(cls, parent: pytest.Collector, **kwargs: Any) -> TaskFile:
        """The public constructor."""
        return super().from_parent(parent, **labels.node_names(parent, **kwargs))

    def _getobj(self) -> types.ModuleType:
        # pytest would import the file here. Named as the trial's own module, for the
        # ini value collect_imported_tests.
        module = _MadeUpModule(trial.__module__)
        module.__file__ = str(self.path)
        return module

    @property
    def task(self) -> Task:
        """The task as read.

        Raises:
            TaskFormatError: Its files cannot be used.
        """
        if self._task is None:
            raise self.fault or RuntimeError(f"{self.path} was not read yet")
        return self._task

    @cached_property
    def variants(self) -> dict[str, Variant]:
        """The variants of the task by the names of their items."""
        if settings(self.config).check:
            from pytest_harbor.plugin.check_items import check_variants

            return check_variants(self.config, self._task)
        stash = self.config.stash
        if _VARIANTS not in stash:
            stash[_VARIANTS] = {one.name: one for one in variants(settings(self.config))}
        return stash[_VARIANTS]

    def istestfunction(self, obj: object, name: str) -> bool:
        """Take what we put there, whatever the user's ``python_functions`` says."""
        return obj is trial

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Read the task and give its trials."""
        if not self._is_wanted():
            return []
        if settings(self.config).check:
            from pytest_harbor.plugin.check_items import check_item

            return [check_item(self), *(self._trials() if self.variants else ())]
        return [self._stand_in()] if self.fault is not None else self._trials()

    def _is_wanted(self) -> bool:
        """Whether the options keep the task; it is read, unless it did not change."""
        config, folder = self.config, self.parent.path
        if not settings(config).tasks and not changed.is_kept(config, folder):
            return False
        self._read()
        return labels.is_selected(config, folder, self._task) and changed.is_kept(config, folder)

    def _read(self) -> None:
        # On demand: pydantic is not for runs without tasks.
        from pytest_harbor.task.links import refuse_outside_links
        from pytest_harbor.task.reader import read_task

        folder = self.parent.path
        self.extra_keyword_matches.add(folder.name)
        try:
            wanted = settings(self.config)
            if wanted.ci.untrusted:
                refuse_outside_links(folder)
            self._task = read_task(
                folder,
                strict=wanted.strict and not wanted.check,
                overrides=wanted.overrides,
            )
            self._check(self._task)
        except TaskFormatError as error:
            self.fault = error

    def _check(self, task: Task) -> None:
        answers = self.ihook.pytest_harbor_check_task(config=self.config, task=task)
        asked = [problem for answer in answers for problem in answer]
        if settings(self.config).check:
            self.asked = (*asked, *labels.awkward_names(self))
            return
        strict = settings(self.config).strict
        errors = [problem for problem in asked if strict or problem.severity == "error"]
        notes = [*task.problems, *asked, *labels.awkward_names(self)]
        errors += [problem for problem in notes if problem not in errors and self._warn(problem)]
        if errors:
            raise TaskFormatError(errors)

    def _warn(self, problem: Problem) -> bool:
        if problem.severity == "error":
            return False
        text = ": ".join(part for part in (problem.field, problem.message) if part)
        return warn(self.config, text, problem.path, problem.line)

    def _stand_in(self) -> TrialItem:
        """One item for a task that cannot run, under a name that was asked for."""
        asked = guard.named_trials(self.config.args, self.path)
        names = [name for name in self.variants if _answers_to(name, asked)]
        name = next(iter(names or self.variants))
        return TrialItem.from_parent(self, name=name, callobj=trial)

    def _trials(self) -> list[TrialItem]:
        answers = self.ihook.pytest_harbor_task_collected(config=self.config, task=self.task)
        if any(answer is False for answer in answers):
            return []
        reasons = [answer for answer in answers if isinstance(answer, str)]
        self.extra_keyword_matches.update(labels.keywords(self.task))
        trials = self._made_by_pytest()
        # One name for all tasks would keep them together for plugins that order by module.
        self.obj.__name__ = self.nodeid
        for item in trials:
            if reasons:
                item.add_marker(pytest.mark.skip(reason="; ".join(reasons)))
        return trials

    def _made_by_pytest(self) -> list[TrialItem]:
        """Make the items; pytest does its parametrization, where there can be any."""
        folder = self.parent.parent
        assert folder is not None
        shared = folder.stash.get(_SHARED_FIXTURES, None)
        if shared is not None:
            return [self._trial(name, name, fixtureinfo=shared) for name in self.variants]
        functions = self._functions()
        if all(_is_plain(function) for function in functions) and self._only_pytest_multiplies():
            folder.stash[_SHARED_FIXTURES] = functions[0]._fixtureinfo
        return [
            self._trial(function.name, function.originalname, callspec=function.callspec)
            if hasattr(function, "callspec")
            else self._trial(function.name, function.originalname)
            for function in functions
        ]

    def _functions(self) -> list[Any]:
        for name in self.variants:
            setattr(self.obj, name, trial)
        return list(super().collect())

    def _only_pytest_multiplies(self) -> bool:
        impls = self.ihook.pytest_generate_tests.get_hookimpls()
        return {impl.plugin_name for impl in impls} <= {"python", "funcmanage"}

    def _trial(self, name: str, originalname: str, **known: Any) -> TrialItem:
        folder = self._earlier_folder(name)
        function: Any = trial if folder is None else resume.earlier_trial
        if settings(self.config).benchmark.regrade is not None:
            from pytest_harbor.plugin.regrade import regraded_trial

            function = regraded_trial
        if function is not trial:
            known.pop("fixtureinfo", None)
        item = TrialItem.from_parent(
            self, name=name, originalname=originalname, callobj=function, **known
        )
        if folder is not None:
            resume.mark(item, folder)
        # A list of its own: people add names to it for one item.
        item.fixturenames = [*item.fixturenames]
        item.add_marker(pytest.mark.harbor(**labels.marker(self.task, item.variant)))
        return item

    def _earlier_folder(self, name: str) -> Path | None:
        """Folder of the trial that an earlier run of the job has done; None: it is to be run."""
        if settings(self.config).resume is None:
            return None
        current = job(self.config)
        found = (current.standing or {}).get(f"{self.nodeid}::{name}")
        return None if found is None else current.path / found


def _is_plain(function: Any) -> bool:
    """Whether a function is without parameters and says which fixtures it needs."""
    return not hasattr(function, "callspec") and hasattr(function, "_fixtureinfo")


def _answers_to(name: str, asked: list[str]) -> bool:
    return any(name == one or name.split("[")[0] == one for one in asked)


class TrialItem(AboveTask, pytest.Function):
    """One trial: a task, an agent, a model, an attempt."""

    parent: TaskFile

    @property
    def variant(self) -> Variant:
        """Agent, model and attempt."""
        return self.parent.variants[self.originalname]

    @property
    def task(self) -> Task:
        """The task as read.

        Raises:
            TaskFormatError: Its files cannot be used.
        """
        return self.parent.task

    @cached_property
    def id(self) -> Any:
        """The id in parts, split as pytest splits the ids that it has stored.

        Our names hold brackets without being parametrized; pytest 9.2 compares parts.
        """
        whole = super().id
        return type(whole).parse(str(whole))

    def setup(self) -> None:
        """Fail for a task that cannot run, before any fixture does something."""
        fault = self.parent.fault
        if fault is not None:
            self.user_properties += [("category", "task"), *labels.properties(self, self.variant)]
            pytest.fail(labels.fault_text(fault, self.config), pytrace=False)
        if resume.is_resumed(self):
            resume.set_earlier_properties(self)
            super().setup()
            return
        missing = missing_variables_text(self.config)
        if missing is not None:
            pytest.fail(missing, pytrace=False)
        super().setup()

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Point editors and reports at the task, not at this plugin."""
        is_named = self.getparent(NamedRoot) is not None
        shown = self.config.rootpath / self.nodeid.partition("::")[0] if is_named else self.path
        path = printable(str(shown))
        return path, 0, printable(f"{self.path.parent.name}::{self.name}")


def is_left_out(path: Path, config: pytest.Config, ignored: bool | None) -> bool | None:
    """Look over pytest's decision to leave a path out of collection."""
    if ignored:
        return _is_dropped(path, config)
    if guard.is_job_folder(path, settings(config).output):
        return True
    task = guard.task_behind_link(path)
    if task is None:
        return ignored
    message = f"{path.name}: a link into the task {task.name!r}: not collected"
    if guard.is_asked_for(config, path) and warn(config, message, path):
        raise pytest.Collector.CollectError(message)
    return True


def _is_dropped(path: Path, config: pytest.Config) -> bool | None:
    if not guard.is_task_node(path) or not guard.is_asked_for(config, path):
        return True
    message = labels.drop_message(path, config)
    if message is not None and warn(config, message, path / CONFIG_FILE):
        config.stash.setdefault(_REFUSED, {})[path] = message
        return None
    return True
