"""Which tasks of the datasets a run is about: patterns, and ids on the command line."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from pytest_harbor.dataset.dataset import Dataset, DatasetTask
from pytest_harbor.dataset.registry_file import near
from pytest_harbor.task.layout import CONFIG_FILE


@dataclass
class Patterns:
    """The patterns of one option, and which of them have fitted something.

    Attributes:
        patterns: The globs.
        used: Those that fitted.
    """

    patterns: Sequence[str]
    used: set[str] = field(default_factory=set)

    def fit(self, names: Iterable[str]) -> bool:
        """Whether one of them fits one of a task's names."""
        known = list(names)
        fitting = {
            pattern
            for pattern in self.patterns
            if any(fnmatch.fnmatchcase(name, pattern) for name in known)
        }
        self.used |= fitting
        return bool(fitting)

    @property
    def unused(self) -> list[str]:
        """Those that fitted nothing."""
        return [one for one in self.patterns if one not in self.used]


def wants(names: Sequence[str], keep: Patterns, drop: Patterns) -> bool:
    """Whether a task of these names is kept and not left out; asks both, for what is unused."""
    is_dropped = drop.fit(names)
    return (not keep.patterns or keep.fit(names)) and not is_dropped


def task_names(dataset: Dataset, task: DatasetTask) -> Iterator[str]:
    """What a task answers to before it is downloaded."""
    yield from (task.name, task.source.name, task.source.full_name)
    yield f"{dataset.label}/{task.name}"


@dataclass
class NamedParts:
    """What arguments of the command line name in datasets.

    Attributes:
        tasks: By label, then the task's name: names of trials; None: all of them.
        others: The arguments that name nothing in a dataset.
    """

    tasks: dict[str, dict[str, list[str] | None]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def named_parts(args: Sequence[str], datasets: Sequence[Dataset]) -> NamedParts:
    """Part the arguments that are ids in a dataset from all others.

    Raises:
        pytest.UsageError: One names a task that its dataset does not have.
    """
    found = NamedParts()
    for arg in args:
        head, separator, trial = arg.partition("::")
        path = head.removeprefix("./").rstrip("/")
        dataset = next((one for one in datasets if _is_below(path, one.label)), None)
        if dataset is None:
            found.others.append(arg)
            continue
        inside = path[len(dataset.label) + 1 :].removesuffix(CONFIG_FILE).rstrip("/")
        chosen = found.tasks.setdefault(dataset.label, {})
        for name in _tasks_at(dataset, inside, arg):
            known = chosen.setdefault(name, [])
            if not separator:
                chosen[name] = None
            elif known is not None:
                known.append(trial)
    return found


def _is_below(path: str, label: str) -> bool:
    return path == label or path.startswith(f"{label}/")


def _tasks_at(dataset: Dataset, inside: str, arg: str) -> list[str]:
    names = [one.name for one in dataset.tasks]
    found = [name for name in names if not inside or _is_below(name, inside)]
    if not found:
        raise pytest.UsageError(
            f"not found: {arg}\n{dataset.label} has no task {inside!r}. "
            f"{near(inside, names, 'tasks')}"
        )
    return found
