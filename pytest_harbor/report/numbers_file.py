"""The numbers of a job as JSON: each with its numerator, its denominator and what it leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_harbor.report.custom_metrics import MetricResult
from pytest_harbor.report.data import job_data, outcome, plain
from pytest_harbor.report.job import JobReading
from pytest_harbor.report.numbers import GroupNumbers, group_numbers
from pytest_harbor.report.trial import Trial

SCHEMA_VERSION = 1

AnyResult = MetricResult | Mapping[str, Any]
"""A metric's result, or a row of it as it was written."""


def json_lines(
    job: JobReading, trials: Sequence[Trial], metrics: Sequence[AnyResult] = ()
) -> Iterator[str]:
    """The content of ``--harbor-json``: the job, its numbers, a row for each trial."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "job": job_data(job, trials),
        **numbers_json(trials, metrics),
        "selection": job.selection or None,
        "trials": [_row(trial) for trial in trials],
    }
    yield json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def numbers_json(trials: Sequence[Trial], metrics: Sequence[AnyResult] = ()) -> dict[str, Any]:
    """The numbers of each agent and model, also by dataset, and metrics, as plain JSON."""
    content = {
        "groups": [_group(one) for one in group_numbers(trials)],
        "by_dataset": [_group(one) for one in group_numbers(trials, by_dataset=True)],
        "metrics": list(metrics),
    }
    return dict(plain(content))


def _group(group: GroupNumbers) -> dict[str, Any]:
    return {"name": group.name, **{name: getattr(group, name) for name in group.__slots__}}


def _row(trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.name,
        "task": trial.task,
        "task_path": trial.task_path,
        "dataset": trial.dataset or None,
        "dataset_label": trial.dataset_key or None,
        "agent": trial.agent,
        "model": trial.model or None,
        "attempt": trial.attempt or None,
        "outcome": outcome(trial),
        "category": trial.category or None,
        "counts": trial.counts,
        "superseded": trial.superseded,
        "selected": trial.selected,
        "reward": trial.reward,
        "rewards": trial.rewards,
        "untrusted": trial.untrusted,
        "fault": trial.fault or None,
    }
