"""Metrics that a dataset asks for, by Harbor's formulas, and where they stand in ``evals``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_harbor.report.custom_metrics import Metric, MetricResult, metric_results, rewards_of
from pytest_harbor.report.files import UnreadableError, read_object
from pytest_harbor.report.harbor_figures import aggregated, evals_key
from pytest_harbor.report.job import JobReading
from pytest_harbor.report.metrics import METRICS
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.values import items, mapping, text

_MAX_LOCK_BYTES = 256 * 1024**2


def formula(name: str) -> Metric:
    """One of Harbor's own metrics, as a dataset's: a key that a reward lacks is 0."""
    return Metric(name, partial(aggregated, name=name), "dataset")


def evals_metrics(
    trials: Iterable[Trial], results: Sequence[MetricResult]
) -> dict[str, list[Mapping[str, float]]]:
    """What ``metrics`` of each group in Harbor's ``evals`` is: the dataset's, then the user's.

    A dataset that asks for none has the mean. Harbor has one group for all versions of a dataset
    and all providers of a model: a formula is reckoned over all of it, a script stands for each.
    """
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.counts:
            groups.setdefault(evals_key(trial), []).append(trial)
    found = {}
    for key, group in groups.items():
        parts = {(one.group_name, one.dataset_key or None) for one in group}
        known = [
            one for one in results if (one.group, one.dataset_label) in parts and not one.problem
        ]
        own = list(_of_dataset(known, group))
        default = [] if own else [aggregated(rewards_of(group), "mean")]
        found[key] = [*own, *default, *(one.values for one in known if one.given_by == "user")]
    return found


def _of_dataset(
    results: Iterable[MetricResult], group: Sequence[Trial]
) -> Iterator[Mapping[str, float]]:
    seen = set()
    for one in results:
        if one.given_by != "dataset":
            continue
        if one.digest:
            yield one.values
        elif one.metric not in seen:
            seen.add(one.metric)
            yield aggregated(rewards_of(group), one.metric)


def metrics_of_job(job: JobReading) -> list[MetricResult | Mapping[str, Any]]:
    """The metrics of a job that has run: formulas reckoned again, others as the run left them.

    No script is run. What cannot be read of the job's own files has none.
    """
    rows = [mapping(row) for row in items(_own(job, "result.json", "metrics"))]
    left = [row for row in rows if row.get("digest") or row.get("given_by", "user") == "user"]
    own: dict[str, list[Metric]] = {}
    for dataset in map(mapping, items(_own(job, "lock.json", "datasets"))):
        kinds = [text(mapping(one).get("type")) for one in items(dataset.get("metrics"))]
        own[text(dataset.get("label"))] = [formula(kind) for kind in kinds if kind in METRICS]
    return [*metric_results((), job.trials, own), *filter(None, left)]


def _own(job: JobReading, name: str, part: str) -> Any:
    try:
        return mapping(read_object(job.path / name, _MAX_LOCK_BYTES).get("pytest_harbor")).get(part)
    except UnreadableError:
        return None
