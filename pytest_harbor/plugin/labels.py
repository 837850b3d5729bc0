"""What a task is called: in ids, to ``-k``, to ``-m`` and to ``--harbor-tasks``."""

from __future__ import annotations

import fnmatch
import keyword
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.errors import Problem, TaskFormatError
from pytest_harbor.plugin.notices import is_printable, printable, show
from pytest_harbor.plugin.options import settings
from pytest_harbor.plugin.variants import Variant

if TYPE_CHECKING:
    from pytest_harbor.task.reader import Task

MARKER = (
    "harbor(name, difficulty, category, steps, network, agent, model, attempt): a trial of a "
    "Harbor task; other plain values of the task's [metadata] are arguments too"
)

_AWKWARD = ("[", "]", "::")
_OWN_ARGUMENTS = frozenset({"name", "steps", "network", "agent", "model", "attempt"})


def node_names(parent: pytest.Collector, *, path: Path, **kwargs: Any) -> dict[str, Any]:
    """Give the arguments of a node on ``path``, with a clean id where its own is not."""
    own = {"path": path, **kwargs}
    if not is_printable(str(path)):
        relative = _relative(path, parent.config.rootpath)
        own |= {"name": printable(path.name), "nodeid": printable(relative)}
    return own


def _relative(path: Path, root: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()


def marker(task: Task, variant: Variant) -> dict[str, Any]:
    """Give the keyword arguments of a trial's marker: plain values only."""
    arguments = {
        key: value
        for key, value in task.config.metadata.items()
        if isinstance(value, str | int | float | bool)
        and key.isidentifier()
        and not keyword.iskeyword(key)
        and key not in _OWN_ARGUMENTS
    }
    arguments |= {
        "name": task.name,
        "steps": len(task.steps) or 1,
        "network": task.config.environment.network_mode,
        "agent": variant.agent,
        "attempt": variant.attempt,
    }
    return arguments | ({"model": variant.model} if variant.model is not None else {})


def properties(item: pytest.Item, variant: Variant) -> list[tuple[str, str | int | float]]:
    """Give what reports say of an item of which there is no trial to tell."""
    root = getattr(item.parent, "root", None)  # a dataset's task has one
    origin = root.origin if root else {}
    names = {"dataset": origin.get("dataset"), "dataset.label": origin.get("label")}
    dataset = [(name, value) for name, value in names.items() if value]
    model = [("model", variant.model)] if variant.model is not None else []
    return [("agent", variant.agent), *model, ("attempt", variant.attempt), *dataset]


def fault_text(fault: TaskFormatError, config: pytest.Config) -> str:
    """Say what is wrong with a task; files are named from the current folder."""
    cwd = config.invocation_params.dir
    near = (replace(one, path=Path(os.path.relpath(one.path, cwd))) for one in fault.problems)
    return "\n".join(printable(line) for one in near for line in str(one).splitlines())


def keywords(task: Task) -> Iterator[str]:
    """Give the words beside its folder's name to which a task answers with ``-k``."""
    yield task.name
    tags = task.config.metadata.get("tags")
    yield from (tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
    yield from task.config.task.keywords if task.config.task else ()


def awkward_names(node: pytest.Collector) -> Iterator[Problem]:
    """Warn of a path that pytest cannot read back from the command line."""
    if not any(mark in str(node.path) for mark in _AWKWARD):
        return
    relative = _relative(node.path.parent, node.config.rootpath)
    found = [mark for mark in _AWKWARD if mark in relative]
    if found:
        yield Problem(
            node.path,
            f"the path {relative!r} has {' and '.join(found)}, which pytest reads as part of a "
            "test's name: the task cannot be named on the command line. Rename the folder, "
            "or select it with --harbor-tasks or -k",
            severity="warning",
        )


class _Patterns:
    """The patterns of ``--harbor-tasks``, and what became of them in this run."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.seen: set[str] = set()

    def select(self, patterns: tuple[str, ...], names: set[str]) -> bool:
        """Whether one of the patterns fits one of a task's names."""
        self.seen |= names
        fitting = {
            pattern
            for pattern in patterns
            if any(fnmatch.fnmatchcase(name, pattern) for name in names)
        }
        self.used |= fitting
        return bool(fitting)


_PATTERNS = pytest.StashKey[_Patterns]()


def is_selected(config: pytest.Config, folder: Path, task: Task | None) -> bool:
    """Whether the patterns keep a task; a broken one goes by its folder alone."""
    wanted, unwanted = settings(config).tasks, settings(config).datasets.exclude
    if not (wanted or unwanted):
        return True
    names = {_relative(folder, config.rootpath), folder.name}
    names |= {task.name} if task is not None else set()
    patterns = config.stash.setdefault(_PATTERNS, _Patterns())
    is_kept = not wanted or patterns.select(wanted, names)
    return is_kept and not patterns.select(unwanted, names)


def note_patterns(config: pytest.Config, used: Iterable[str], seen: Iterable[str]) -> None:
    """Take note of patterns that fitted tasks of datasets, and of the names looked at."""
    patterns = config.stash.setdefault(_PATTERNS, _Patterns())
    patterns.used.update(used)
    patterns.seen.update(seen)


def patterns_in_use(config: pytest.Config) -> set[str]:
    """The patterns that have fitted something."""
    return config.stash.get(_PATTERNS, _Patterns()).used


def check_patterns(config: pytest.Config) -> None:
    """Report each pattern that fits no task, with the names it may have meant.

    Raises:
        pytest.UsageError: There is one.
    """
    patterns = config.stash.get(_PATTERNS, _Patterns())
    asked = {
        "--harbor-tasks": settings(config).tasks,
        "--harbor-exclude-tasks": settings(config).datasets.exclude,
    }
    for option, given in asked.items():
        for pattern in given:
            if pattern not in patterns.used:
                _report_unused(config, _unused(option, pattern, patterns.seen))


def _report_unused(config: pytest.Config, message: str) -> None:
    if not hasattr(config, "workerinput"):
        raise pytest.UsageError(message)
    # A worker that ends here would take xdist's controller down with it.
    show(config, message, config.inipath or config.rootpath)


def _unused(option: str, pattern: str, seen: set[str]) -> str:
    import difflib

    near = difflib.get_close_matches(pattern, sorted(seen), n=3, cutoff=0.5)
    hint = f"Near: {', '.join(near)}" if near else f"Names seen: {len(seen)}"
    return f"{option}: no task fits {pattern!r}. {hint}"


def drop_message(path: Path, config: pytest.Config) -> str | None:
    """Say why pytest leaves a task out; None where the user asked for it in so many words."""
    if _is_excluded_by_option(path, config):
        return None
    for pattern in config.getini("norecursedirs"):
        if _fits(path, pattern):
            return (
                f"the task {path.name!r} is left out: the ini value norecursedirs has {pattern!r}. "
                f"Take that out of it, rename the folder, or name it: pytest {path}"
            )
    if (path / "pyvenv.cfg").is_file():
        return (
            f"the task {path.name!r} is left out: pytest takes a folder with a pyvenv.cfg for a "
            f"virtual environment. Name it: pytest {path}"
        )
    return None


def _is_excluded_by_option(path: Path, config: pytest.Config) -> bool:
    cwd = config.invocation_params.dir
    exact = (os.path.abspath(cwd / one) for one in config.getoption("ignore") or ())
    globs = (os.path.abspath(cwd / one) for one in config.getoption("ignore_glob") or ())
    return str(path) in exact or any(fnmatch.fnmatch(str(path), one) for one in globs)


def _fits(path: Path, pattern: str) -> bool:
    # As pytest matches: a pattern with a slash is for the whole path, else for the name.
    if "/" in pattern:
        return fnmatch.fnmatch(str(path), pattern if os.path.isabs(pattern) else f"*/{pattern}")
    return fnmatch.fnmatch(path.name, pattern)
