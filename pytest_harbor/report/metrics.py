"""Mean, sum, least and greatest of each reward key.

A trial whose reward lacks a key is left out of that key's numbers, and said to be; Harbor counts
it as 0 (:mod:`pytest_harbor.report.harbor_figures`). A box that was tampered with until there
was no verdict counts as 0 for every key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pytest_harbor.report.rates import Rate, mean_rate, total_of
from pytest_harbor.report.trial import Trial

_AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": total_of,
    "min": min,
    "max": max,
}
METRICS = ("mean", *_AGGREGATES)
"""Names of the numbers of each key, which are Harbor's."""


def reward_metrics(
    tasks: Sequence[Sequence[Trial]], left_out: Mapping[str, int]
) -> dict[str, dict[str, Rate]]:
    """Reward key to the name of a metric to its number, over the valid trials of each task."""
    keys = dict.fromkeys(key for task in tasks for trial in task for key in trial.rewards)
    return {key: _of_key(key, tasks, left_out) for key in keys}


def counted(trial: Trial, key: str) -> float | None:
    """A trial's part of a key's numbers; None where it has none."""
    if trial.reward is None:
        return 0.0
    if key not in trial.rewards:
        return None
    value = trial.rewards[key]
    return min(value, 0.0) if trial.untrusted else value


def _of_key(
    key: str, tasks: Sequence[Sequence[Trial]], left_out: Mapping[str, int]
) -> dict[str, Rate]:
    found = [[counted(trial, key) for trial in task] for task in tasks]
    present = [[one for one in task if one is not None] for task in found]
    missing = sum(task.count(None) for task in found)
    why = dict(left_out) | ({f"a reward without the key {key!r}": missing} if missing else {})
    values = [one for task in present for one in task]
    numbers = {"mean": mean_rate([task for task in present if task], why)}
    for name, aggregate in _AGGREGATES.items():
        value = aggregate(values)
        numbers[name] = Rate(value, None, None, value, len(values), "trials", why)
    return numbers
