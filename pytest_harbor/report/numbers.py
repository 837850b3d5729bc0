"""Rates of a group of trials, each with what it counts and what it leaves out.

A missing reward is never a 0. A rate's interval is Wilson's score interval at 95 %. Attempts
at one task are not independent, and estimates of pass@k are no coin tosses: so the sample size
in it is the one that a coin would need for the spread between tasks that was seen (the plain
number where every task has one attempt). Nothing is drawn by lot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import NamedTuple

from pytest_harbor.report.harbor_figures import HarborFigures, harbor_figures
from pytest_harbor.report.metrics import reward_metrics
from pytest_harbor.report.rates import (
    Rate,
    mean_rate,
    rate_by_task,
    rate_interval,
    total_of,
    wilson,
)
from pytest_harbor.report.trial import PHASES, USAGE, Trial

__all__ = ["GroupNumbers", "PhaseTime", "Rate", "Total", "group_numbers", "pass_at_k", "wilson"]

BY_PATH = "tasks by path"
"""In place of a dataset, of tasks that are of none."""
POOLED = "pooled"
"""Behind the name of a group that is of several datasets."""

LEFT_OUT = {
    "task": "no valid reward (the task's fault)",
    "agent": "the agent could not work",
    "environment": "environment faults",
    "skipped": "skipped",
    "": "without a result",
}
"""Why a trial is in no rate, by its category."""


class Total(NamedTuple):
    """A sum over those trials of a group of which it is known.

    Attributes:
        value: The sum.
        known: Of how many trials.
        trials: How many there are.
    """

    value: float
    known: int
    trials: int


class PhaseTime(NamedTuple):
    """Seconds of a phase over those trials in which it ran."""

    trials: int
    mean: float
    median: float
    longest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNumbers:
    """What the trials of one agent and model came to, on one dataset or on several together.

    Attributes:
        agent: The agent's name.
        model: ``provider/name``, or empty.
        dataset_label: The dataset as ids call it; None: tasks by path, or several datasets.
        pooled: They are of several datasets, or of datasets and tasks by path.
        trials: How many; an attempt that was run again is one.
        tasks: How many tasks they are of.
        valid: Trials in rates.
        passed: Those of them that passed.
        evaded: Those of them without a verdict after tampering: not passed, 0 in the mean.
        untrusted: Those of them with a reward that is not believed: at most 0 in the mean.
        left_out: Why the others are in no rate, and how many.
        mean_reward: Over the valid trials; None where there are none.
        pass_rate: Passed trials of the valid ones; None where there are none.
        metrics: Reward key to mean, sum, min and max.
        pass_at: k to pass@k by task, from 1 to the most valid attempts at one task.
        errors: Fault's class name to the number of trials, the most frequent first.
        usage: Tokens and cost, where any trial told.
        phases: Times by phase.
        suspicious: Trials with signs of tampering.
        harbor: What Harbor gives of them, by its name of the group: a dataset has one apart.
    """

    agent: str
    model: str
    dataset_label: str | None = None
    pooled: bool = False
    trials: int
    tasks: int
    valid: int
    passed: int
    evaded: int
    untrusted: int
    left_out: Mapping[str, int]
    mean_reward: Rate | None
    pass_rate: Rate | None = None
    metrics: Mapping[str, Mapping[str, Rate]] = field(default_factory=dict)
    pass_at: Mapping[int, Rate] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    usage: Mapping[str, Total] = field(default_factory=dict)
    phases: Mapping[str, PhaseTime] = field(default_factory=dict)
    suspicious: int = 0
    harbor: Mapping[str, HarborFigures] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Agent and model, as in an item's name."""
        return f"{self.agent}[{self.model}]" if self.model else self.agent

    @property
    def full_name(self) -> str:
        """The same with the dataset, for where there are several."""
        if self.pooled:
            return f"{self.name}, {POOLED}"
        return on_dataset(self.name, self.dataset_label or "")


def on_dataset(name: str, label: str) -> str:
    """An agent and model on one of several datasets; an empty label: on tasks by path."""
    return f"{name} on {label or BY_PATH}"


def group_numbers(trials: Iterable[Trial], *, by_dataset: bool = False) -> list[GroupNumbers]:
    """The numbers of each agent and model, in the order of their first trial.

    Args:
        trials: Of one job.
        by_dataset: One for each dataset, too; tasks that were named by their paths are one.
    """
    groups: dict[tuple[str, ...], list[Trial]] = {}
    for trial in trials:
        dataset = (trial.dataset_key,) if by_dataset else ()
        groups.setdefault((*trial.group, *dataset), []).append(trial)
    return [_group((name[0], name[1]), group) for name, group in groups.items()]


def has_datasets(trials: Iterable[Trial]) -> bool:
    """Whether numbers have to tell datasets apart: there is more than one."""
    return len({trial.dataset_key for trial in trials}) > 1


def pass_at_k(attempts: int, passed: int, k: int) -> float:
    """Chance that one of ``k`` attempts, drawn from those made, passed; unbiased.

    Raises:
        ValueError: Fewer than ``k`` attempts were made.
    """
    if not 0 < k <= attempts or not 0 <= passed <= attempts:
        raise ValueError(f"expected 0 < k <= attempts >= passed, got {k}, {attempts}, {passed}")
    return 1.0 - math.comb(attempts - passed, k) / math.comb(attempts, k)


def _group(name: tuple[str, str], group: Sequence[Trial]) -> GroupNumbers:
    trials = [trial for trial in group if not trial.superseded]
    valid = [trial for trial in trials if trial.counts]
    left_out = left_out_of(trials)
    tasks = _by_task(valid)
    datasets = {trial.dataset_key for trial in group}
    counts = _counts(tasks)
    return GroupNumbers(
        agent=name[0],
        model=name[1],
        dataset_label=(next(iter(datasets)) or None) if len(datasets) == 1 else None,
        pooled=len(datasets) > 1,
        trials=len(trials),
        tasks=len({trial.task_key for trial in trials}),
        valid=len(valid),
        passed=sum(trial.passed for trial in valid),
        evaded=sum(trial.reward is None for trial in valid),
        untrusted=sum(trial.untrusted for trial in valid),
        left_out=left_out,
        mean_reward=mean_rate(_scores(tasks), left_out) if valid else None,
        metrics=reward_metrics(tasks, left_out),
        pass_rate=_pass_rate(counts, left_out) if counts else None,
        pass_at=_pass_at(counts, len({trial.task_key for trial in trials})),
        harbor=harbor_figures(trials),
        errors=dict(Counter(trial.fault for trial in trials if trial.fault).most_common()),
        usage=_usage(trials),
        phases=_phases(trials),
        suspicious=sum(trial.suspicious > 0 for trial in trials),
    )


def left_out_of(trials: Iterable[Trial]) -> dict[str, int]:
    """Why trials are in no rate, and how many of them."""
    reasons = (LEFT_OUT.get(trial.category, LEFT_OUT[""]) for trial in trials if not trial.counts)
    return dict(Counter(reasons))


def _by_task(valid: Iterable[Trial]) -> list[list[Trial]]:
    tasks: dict[str, list[Trial]] = {}
    for trial in valid:
        tasks.setdefault(trial.task_key, []).append(trial)
    return list(tasks.values())


def _scores(tasks: Sequence[Sequence[Trial]]) -> list[list[float]]:
    return [[trial.score for trial in task] for task in tasks]


def _counts(tasks: Sequence[Sequence[Trial]]) -> list[tuple[int, int]]:
    """Attempts at each task, and those that passed."""
    return [(len(task), sum(trial.passed for trial in task)) for task in tasks]


def _pass_rate(counts: Sequence[tuple[int, int]], left_out: Mapping[str, int]) -> Rate:
    """Passed trials of all valid ones."""
    size = sum(attempts for attempts, _ in counts)
    passed = sum(good for _, good in counts)
    value = passed / size
    # A ratio whose parts are summed by task: each task has its share of the trials.
    offsets = [(good - value * attempts) / size for attempts, good in counts]
    low, high = rate_interval(value, offsets, size)
    return Rate(value, low, high, passed, size, "trials", left_out)


def _pass_at(counts: Sequence[tuple[int, int]], tasks: int) -> dict[int, Rate]:
    most = max((attempts for attempts, _ in counts), default=0)
    return {k: _pass_at_one(counts, tasks, k) for k in range(1, most + 1)}


def _pass_at_one(counts: Sequence[tuple[int, int]], tasks: int, k: int) -> Rate:
    """The mean over those tasks that have enough attempts."""
    enough = [(attempts, good) for attempts, good in counts if attempts >= k]
    estimates = [pass_at_k(attempts, good, k) for attempts, good in enough]
    draws = sum(attempts // k for attempts, _ in enough)
    few = tasks - len(enough)
    reason = {f"tasks with fewer than {k} valid attempts": few} if few else {}
    return rate_by_task(estimates, draws, reason)


def _usage(trials: Sequence[Trial]) -> dict[str, Total]:
    totals: dict[str, Total] = {}
    for name in USAGE:
        known = [trial.usage[name] for trial in trials if name in trial.usage]
        if known:
            totals[name] = Total(total_of(known), len(known), len(trials))
    return totals


def _phases(trials: Sequence[Trial]) -> dict[str, PhaseTime]:
    times: dict[str, PhaseTime] = {}
    for phase in PHASES:
        lengths = [found for trial in trials if (found := trial.seconds(phase)) is not None]
        if lengths:
            times[phase] = PhaseTime(len(lengths), fmean(lengths), median(lengths), max(lengths))
    return times
