"""The figures that Harbor 0.26 gives of the same trials, by its own rules.

Rules (``format/rewards-and-results.md``, sections 3 and 4): a trial counts where it has rewards
and no error whose policy forbids it; a missing key is 0; steps that never ran are left out of a
trial's reward; pass@k exists only where every reward is a single 0 or 1, for k of 2, 4, 8, … and
5, 10, 15, … up to the fewest trials at a task. Groups are by dataset, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pytest_harbor.report.metrics import METRICS
from pytest_harbor.report.rates import total_of
from pytest_harbor.report.trial import Trial

Rewards = Mapping[str, float]


class HarborFigures(NamedTuple):
    """Harbor's figures of a group.

    Attributes:
        n_trials: Trials that it counts.
        metrics: Name of a metric to its result.
        pass_at_k: As Harbor gives it; empty where it gives none.
        counted_only_there: Trials that Harbor counts and we do not.
        counted_only_here: Trials that we count and Harbor does not.
        other_reward: Trials that both count, with another reward.
    """

    n_trials: int
    metrics: Mapping[str, Rewards]
    pass_at_k: Mapping[int, float]
    counted_only_there: int = 0
    counted_only_here: int = 0
    other_reward: int = 0


def harbor_figures(trials: Iterable[Trial], *, believes: bool = True) -> dict[str, HarborFigures]:
    """Harbor's figures of each of its groups, by the group's name in its ``result.json``.

    Args:
        trials: Of one job; a run that was superseded counts nowhere.
        believes: As Harbor does; else a reward that is not trusted is at most 0.
    """
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.category and not trial.superseded:
            groups.setdefault(evals_key(trial), []).append(trial)
    return {key: _figures(group, believes) for key, group in groups.items()}


def evals_key(trial: Trial) -> str:
    """The name of a trial's group in Harbor's ``result.json``."""
    model = trial.model.partition("/")[2] or trial.model
    return "__".join(filter(None, (trial.agent, model, trial.dataset or "adhoc")))


def aggregated(rewards: Sequence[Rewards | None], name: str) -> dict[str, float]:
    """A metric of Harbor's over rewards; one key gives the metric's name, several their own."""
    aggregate = _AGGREGATES[name]
    keys = sorted({key for one in rewards if one is not None for key in one})
    if len(keys) <= 1:
        return {name: aggregate([next(iter((one or {}).values()), 0) for one in rewards])}
    return {key: aggregate([(one or {}).get(key, 0) for one in rewards]) for key in keys}


def pass_at_k(tasks: Mapping[str, Sequence[Rewards]]) -> dict[int, float]:
    """Harbor's pass@k over the counted rewards of each task; empty where it gives none."""
    rewards = [one for task in tasks.values() for one in task]
    if not rewards or any(
        len(one) != 1 or next(iter(one.values())) not in (0, 1) for one in rewards
    ):
        return {}
    counts = [
        (len(task), int(sum(next(iter(one.values())) for one in task))) for task in tasks.values()
    ]
    least = min(attempts for attempts, _ in counts)
    return {
        k: sum(_of_task(attempts, passed, k) for attempts, passed in counts) / len(counts)
        for k in _eligible(least)
    }


def _figures(trials: Sequence[Trial], believes: bool) -> HarborFigures:
    counted = [(trial, rewards) for trial in trials if (rewards := _rewards(trial, believes))]
    tasks: dict[str, list[Rewards]] = {}
    for trial, rewards in counted:
        tasks.setdefault(trial.task, []).append(rewards)
    listed = [rewards for _, rewards in counted]
    both = [(trial, rewards) for trial, rewards in counted if trial.counts]
    return HarborFigures(
        n_trials=len(counted),
        metrics={name: aggregated(listed, name) for name in METRICS} if counted else {},
        pass_at_k=pass_at_k(tasks),
        counted_only_there=len(counted) - len(both),
        counted_only_here=sum(trial.counts for trial in trials) - len(both),
        other_reward=sum(_ours(trial) != dict(rewards) for trial, rewards in both),
    )


def _rewards(trial: Trial, believes: bool) -> Rewards:
    found = trial.harbor_rewards or {}
    if trial.untrusted and not believes:
        return {key: min(value, 0.0) for key, value in found.items()}
    return found


def _ours(trial: Trial) -> dict[str, float]:
    if trial.untrusted:
        return {key: min(value, 0.0) for key, value in trial.rewards.items()}
    return {} if trial.reward is None else dict(trial.rewards)


def _mean(values: Sequence[float]) -> float:
    return total_of(values) / len(values)


_AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": _mean,
    "sum": total_of,
    "min": min,
    "max": max,
}


def _eligible(most: int) -> list[int]:
    powers = [2**n for n in range(1, most.bit_length()) if 2**n <= most]
    return sorted({*powers, *range(5, most + 1, 5)})


def _of_task(attempts: int, passed: int, k: int) -> float:
    if attempts - passed < k:
        return 1.0
    product = 1.0
    for i in range(k):
        product *= (attempts - passed - i) / (attempts - i)
    return 1.0 - product
