"""A dataset that was resolved: every task pinned, and named as it is in ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_harbor.dataset.metrics import DatasetMetric, metric_of_json
from pytest_harbor.dataset.source import TaskSource, source_json, source_of_json
from pytest_harbor.errors import DatasetError


class DatasetTask(NamedTuple):
    """One task of a dataset.

    Attributes:
        name: What it is called in ids; unique in its dataset.
        source: Where it comes from.
    """

    name: str
    source: TaskSource


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset with its tasks.

    Attributes:
        label: What it is called in ids; the same on every machine.
        name: Harbor's name of it, the ``source`` of a trial.
        version: Its version, commit or digest.
        asked: What ``--harbor-dataset`` said.
        tasks: In the dataset's order.
        description: For people.
        metrics: Its own, in Harbor's order.
        notes: What the user should know.
        registry: Place and digest of the registry that listed it; None: it is of none.
    """

    label: str
    name: str
    version: str
    asked: str
    tasks: tuple[DatasetTask, ...]
    description: str = ""
    metrics: tuple[DatasetMetric, ...] = ()
    notes: tuple[str, ...] = ()
    registry: Mapping[str, str] | None = None

    def as_json(self) -> dict[str, Any]:
        """A form from which :func:`dataset_of_json` makes the dataset again."""
        return {
            "label": self.label,
            "name": self.name,
            "version": self.version,
            "asked": self.asked,
            "description": self.description,
            "metrics": [one.as_json() for one in self.metrics],
            "registry": dict(self.registry) if self.registry else None,
            "tasks": [{"id": one.name, **source_json(one.source)} for one in self.tasks],
        }


def dataset_of_json(known: Any) -> Dataset:
    """The dataset that :meth:`Dataset.as_json` wrote.

    Raises:
        DatasetError: It did not write this.
    """
    try:
        return Dataset(
            known["label"],
            known["name"],
            known["version"],
            known["asked"],
            tuple(DatasetTask(row["id"], source_of_json(row)) for row in known["tasks"]),
            known.get("description", ""),
            tuple(map(metric_of_json, known.get("metrics", ()))),
            registry=known.get("registry"),
        )
    except (KeyError, TypeError, AttributeError):
        raise DatasetError("what was kept of a dataset cannot be read") from None


def named(sources: Iterable[TaskSource]) -> tuple[DatasetTask, ...]:
    """Give tasks the names that ids have: short, and longer where a short one is taken.

    A task that is listed twice is one.
    """
    known = list(dict.fromkeys(sources))
    short = Counter(one.name for one in known)
    longer = Counter(one.full_name for one in known)
    used: Counter[str] = Counter()
    tasks = []
    for one in known:
        name = _clean(one.name if short[one.name] == 1 else one.full_name)
        if longer[one.full_name] > 1 and short[one.name] > 1:
            used[name] += 1
            name += f"~{used[name]}"
        tasks.append(DatasetTask(name, one))
    return tuple(tasks)


def _clean(name: str) -> str:
    """A name that an id can hold."""
    plain = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)
    return plain.replace("::", ":")
