"""What the page of a report shows, as plain JSON: the job, its numbers, a row for each trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_harbor.report.comparison import ALPHA, Comparison, GroupChange, Score
from pytest_harbor.report.job import JobReading
from pytest_harbor.report.numbers import (
    GroupNumbers,
    group_numbers,
    has_datasets,
    on_dataset,
)
from pytest_harbor.report.trial import PHASES, Trial
from pytest_harbor.report.values import cut, stamp

_MESSAGE_CHARS = 300
_IN_NAME = ("agent", "model", "dataset_label", "pooled")
_LARGEST = 1.7976931348623157e308


def outcome(trial: Trial) -> str:
    """A trial's end in one word: passed, failed, a category, or why it has none."""
    if trial.category == "reward":
        return "passed" if trial.passed else "failed"
    return trial.category or trial.state


def report_data(
    job: JobReading, trials: Sequence[Trial], comparison: Comparison | None = None
) -> dict[str, Any]:
    """Everything but the details of the trials."""
    by_dataset = has_datasets(trials)
    data = {
        "job": job_data(job, trials),
        "groups": [_group(one, by_dataset) for one in group_numbers(trials, by_dataset=by_dataset)],
        "phases": list(PHASES),
        "trials": [_row(trial, by_dataset) for trial in trials],
        "comparison": _comparison(comparison) if comparison else None,
    }
    return dict(plain(data))


def job_data(job: JobReading, trials: Sequence[Trial]) -> dict[str, Any]:
    """The job itself, with its trials counted."""
    return {
        "name": job.name,
        "started": stamp(job.started),
        "finished": stamp(job.finished),
        "problems": list(job.problems),
        "trials": len(trials),
        "tasks": len({trial.task_key for trial in trials}),
    }


def plain(value: Any) -> Any:
    """The same value with numbers that JSON has; an infinite one is the largest there is."""
    if isinstance(value, float):
        return value if math.isfinite(value) else math.copysign(_LARGEST, value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def _group(group: GroupNumbers, by_dataset: bool) -> dict[str, Any]:
    names = [name for name in group.__slots__ if name not in _IN_NAME]
    shown = group.full_name if by_dataset else group.name
    return {"name": shown, **{name: getattr(group, name) for name in names}}


def _row(trial: Trial, by_dataset: bool) -> dict[str, Any]:
    name = trial.group_name
    return {
        "name": trial.name,
        "task": trial.task,
        "path": trial.task_path,
        "group": on_dataset(name, trial.dataset_key) if by_dataset else name,
        "attempt": trial.attempt,
        "outcome": outcome(trial),
        "superseded": trial.superseded,
        "selected": trial.selected,
        "reward": trial.reward,
        "rewards": trial.rewards,
        "threshold": trial.threshold,
        "fault": trial.fault,
        "message": cut(trial.fault_message, _MESSAGE_CHARS),
        "started": stamp(trial.started),
        "spans": trial.spans,
        "seconds": trial.total_seconds,
        "usage": trial.usage,
        "signs": trial.suspicious,
        "codes": trial.codes,
        "refused": trial.refused,
        "problems": len(trial.problems),
    }


def _comparison(found: Comparison) -> dict[str, Any]:
    return {
        "baseline": found.baseline,
        "alpha": ALPHA,
        "groups": [_group_change(group) for group in found.groups],
        "unmatched": found.unmatched,
    }


def _group_change(group: GroupChange) -> dict[str, Any]:
    pairs: tuple[Any, ...] = ("rate", "reward")
    means = {f"{what}_{when}": group.mean(when, what) for what in pairs for when in _TIMES}
    return {
        "name": group.name,
        "then_name": group.then_name,
        **(means if group.tasks else {}),
        "p_passed": group.p_passed,
        "p_reward": group.p_reward,
        "only_now": group.only_now,
        "only_then": group.only_then,
        "tasks": [
            {
                "task": task.task,
                "change": task.change,
                "then": _score(task.then),
                "now": _score(task.now),
                "p": task.p,
                "significant": task.is_significant,
            }
            for task in group.tasks
        ],
    }


_TIMES: tuple[Any, ...] = ("then", "now")


def _score(score: Score) -> list[float]:
    return [score.passed, score.attempts, score.reward]
