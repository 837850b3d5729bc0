"""A dataset's own metrics: those that its registry lists, and its own script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_harbor.errors import DatasetError

SCRIPT = "uv-script"
SCRIPT_FILE = "metric.py"
TYPES = ("mean", "sum", "min", "max", SCRIPT)
"""Harbor's names of them."""
MAX_METRICS = 100


@dataclass(frozen=True, slots=True)
class MetricScript:
    """A script that reckons a metric; it is whoever's who made the dataset.

    Attributes:
        name: The file's name.
        place: Where it is: ``path`` on this machine; ``git_url``, ``git_commit_id`` and ``path``;
            or ``storage_path`` on a Hub.
        digest: ``sha256:`` and the digest of its content; empty where it could not be had.
        problem: Why it cannot be used; empty for a sound one.
    """

    name: str
    place: Mapping[str, str]
    digest: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DatasetMetric:
    """A metric of a dataset.

    Attributes:
        type: One of :data:`TYPES`.
        script: What reckons it, of type :data:`SCRIPT`.
    """

    type: str
    script: MetricScript | None = None

    def as_json(self) -> dict[str, Any]:
        """A form from which :func:`metric_of_json` makes it again."""
        if self.script is None:
            return {"type": self.type}
        one = self.script
        known = {"name": one.name, "place": dict(one.place), "digest": one.digest}
        return {"type": self.type, "script": known | {"problem": one.problem}}


def metric_of_json(known: Mapping[str, Any]) -> DatasetMetric:
    """The metric that :meth:`DatasetMetric.as_json` wrote.

    Raises:
        KeyError, TypeError: It did not write this.
    """
    if known["type"] != SCRIPT:
        return DatasetMetric(known["type"])
    one = known["script"]
    script = MetricScript(one["name"], dict(one["place"]), one["digest"], one.get("problem", ""))
    return DatasetMetric(SCRIPT, script)


def registry_metrics(
    rows: Sequence[Mapping[str, Any]], place: str, find: Callable[[str], MetricScript]
) -> tuple[DatasetMetric, ...]:
    """Read the metrics of a dataset as a registry lists them.

    Args:
        rows: As written.
        place: Registry and dataset, for messages.
        find: Finds the script of a ``script_path``.

    Raises:
        DatasetError: One is of no known type, or has wrong arguments.
    """
    if len(rows) > MAX_METRICS:
        raise DatasetError(f"{place}: metrics: at most {MAX_METRICS}, got {len(rows)}")
    return tuple(
        _metric(row, f"{place}: metrics[{number}]", find) for number, row in enumerate(rows)
    )


def _metric(
    row: Mapping[str, Any], place: str, find: Callable[[str], MetricScript]
) -> DatasetMetric:
    kind, given = row.get("type", "mean"), row.get("kwargs", {})
    if kind not in TYPES:
        raise DatasetError(f"{place}.type: expected one of {', '.join(TYPES)}, got {kind!r}")
    if not isinstance(given, dict):
        raise DatasetError(f"{place}.kwargs: expected an object, got {given!r}")
    if kind != SCRIPT:
        if given:
            raise DatasetError(f"{place}.kwargs: {kind} takes none, got {given!r}")
        return DatasetMetric(kind)
    path = given.get("script_path")
    if set(given) != {"script_path"} or not isinstance(path, str) or not path or "\0" in path:
        raise DatasetError(
            f"{place}.kwargs: expected {{'script_path': PATH}} and nothing else, got {given!r}"
        )
    try:
        return DatasetMetric(SCRIPT, find(path))
    except DatasetError as error:
        raise type(error)(f"{place}.kwargs.script_path: {error}") from None
