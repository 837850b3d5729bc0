"""A job held against an earlier one: which tasks got better, worse or flaky."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import PurePath
from statistics import fmean
from typing import Literal, NamedTuple

from pytest_harbor.report.job import JobReading
from pytest_harbor.report.numbers import has_datasets, on_dataset
from pytest_harbor.report.significance import fisher_exact, holm, sign_flip
from pytest_harbor.report.trial import Trial
from pytest_harbor.task.plural import number_of

ALPHA = 0.05
"""A smaller p is called significant."""

_MOST = 1e9

_Tasks = Mapping[str, Sequence[Trial]]

Change = Literal["worse", "better", "flaky", "same"]
CHANGES: tuple[Change, ...] = ("worse", "flaky", "better", "same")
"""In the order in which people want to see them."""


class Score(NamedTuple):
    """Valid attempts at one task, how many of them passed, and their mean reward."""

    passed: int
    attempts: int
    reward: float

    @property
    def rate(self) -> Fraction:
        """Share of attempts that passed."""
        return Fraction(self.passed, self.attempts)

    @property
    def is_mixed(self) -> bool:
        """Some attempts passed and some did not."""
        return 0 < self.passed < self.attempts

    def __str__(self) -> str:
        return f"{self.passed}/{self.attempts}"


@dataclass(frozen=True, slots=True)
class TaskChange:
    """One task then and now.

    Attributes:
        task: Its name.
        then: In the baseline.
        now: In this job.
        change: ``flaky``: attempts differ among each other, and chance explains the rest.
        p: Fisher's exact test, for this task alone.
        p_adjusted: The same after Holm, for all compared tasks of the group together.
    """

    task: str
    then: Score
    now: Score
    change: Change
    p: float
    p_adjusted: float

    @property
    def is_significant(self) -> bool:
        """Chance does not explain it, however many tasks were looked at."""
        return self.p_adjusted < ALPHA


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One agent and model then and now, over the tasks that have valid rewards in both jobs.

    Attributes:
        name: Agent and model of this job, and the dataset where there are several.
        then_name: Of the baseline, where it was another.
        tasks: All compared tasks; the worse first.
        p_passed: Paired permutation test over tasks, of the shares that passed.
        p_reward: The same of mean rewards.
        only_now: Tasks with a valid reward in this job alone.
        only_then: In the baseline alone.
    """

    name: str
    then_name: str
    tasks: Sequence[TaskChange]
    p_passed: float
    p_reward: float
    only_now: Sequence[str]
    only_then: Sequence[str]

    def number(self, change: Change) -> int:
        """How many tasks changed so."""
        return sum(task.change == change for task in self.tasks)

    def mean(self, when: Literal["then", "now"], what: Literal["rate", "reward"]) -> float:
        """Mean over the compared tasks."""
        scores = (task.then if when == "then" else task.now for task in self.tasks)
        return fmean(float(getattr(score, what)) for score in scores)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A job against its baseline.

    Attributes:
        baseline: Name of the earlier job.
        groups: Agents and models that are in both.
        unmatched: Those of this job that the baseline does not have.
    """

    baseline: str
    groups: Sequence[GroupChange]
    unmatched: Sequence[str]


def compare(now: JobReading, then: JobReading) -> Comparison:
    """Hold a job against an earlier one, agent by agent and task by task.

    Where neither has an agent and model of the other and each has one alone, these are
    compared. Where a job has several datasets, each is compared apart, whatever its version.
    """
    name_of = _group_name(now.trials, then.trials)
    groups_now, groups_then = _groups(now.trials, name_of), _groups(then.trials, name_of)
    pairs = [(name, name) for name in groups_now if name in groups_then]
    if not pairs and len(groups_now) == len(groups_then) == 1:
        pairs = [(next(iter(groups_now)), next(iter(groups_then)))]
    matched = {name for name, _ in pairs}
    return Comparison(
        then.name,
        [_group(a, b, groups_now[a], groups_then[b]) for a, b in pairs],
        [name for name in groups_now if name not in matched],
    )


def _group_name(*jobs: Sequence[Trial]) -> Callable[[Trial], str]:
    """What the groups of the jobs are called, so that the same of each meet."""
    if not any(map(has_datasets, jobs)):
        return lambda trial: trial.group_name
    labels = [{trial.dataset: trial.dataset_key for trial in job} for job in jobs]
    # A name stands for its versions, unless a job has two of them.
    mixed = {
        trial.dataset
        for job, known in zip(jobs, labels, strict=True)
        for trial in job
        if known[trial.dataset] != trial.dataset_key
    }
    return lambda trial: on_dataset(
        trial.group_name, trial.dataset_key if trial.dataset in mixed else trial.dataset
    )


def _groups(
    trials: Iterable[Trial], name_of: Callable[[Trial], str]
) -> dict[str, list[Trial]]:
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.category != "skipped" and not trial.superseded:
            groups.setdefault(name_of(trial), []).append(trial)
    return groups


def _group(name: str, then_name: str, now: Sequence[Trial], then: Sequence[Trial]) -> GroupChange:
    tasks_now, tasks_then = _by_task(now), _by_task(then)
    pairs = dict(_pairs(tasks_now, tasks_then))
    labels, labels_then = _labels(tasks_now), _labels(tasks_then)
    tasks = _changes(
        [(labels[a], _score(tasks_then[b]), _score(tasks_now[a])) for a, b in pairs.items()]
    )
    return GroupChange(
        name,
        then_name if then_name != name else "",
        sorted(tasks, key=lambda task: (CHANGES.index(task.change), task.p, task.task)),
        sign_flip([float(task.now.rate - task.then.rate) for task in tasks]),
        sign_flip([task.now.reward - task.then.reward for task in tasks]),
        sorted(label for key, label in labels.items() if key not in pairs),
        sorted(label for key, label in labels_then.items() if key not in pairs.values()),
    )


def _by_task(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    tasks: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.counts:
            tasks.setdefault(trial.task_key, []).append(trial)
    return tasks


def _pairs(now: _Tasks, then: _Tasks) -> Iterator[tuple[str, str]]:
    """The same tasks of both jobs: by what of them is unique.

    By path; else by item, by name and folder, by name. The jobs may come from different
    machines, and names repeat.
    """
    left_now, left_then = dict(now), dict(then)
    for identify in (_path, _key, _name_and_folder, _name):
        known_now, known_then = _unique(left_now, identify), _unique(left_then, identify)
        for identity in known_now.keys() & known_then.keys():
            a, b = known_now[identity], known_then[identity]
            del left_now[a], left_then[b]
            yield a, b


def _unique(tasks: _Tasks, identify: Callable[[Trial], str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for key, trials in tasks.items():
        found.setdefault(identify(trials[0]), []).append(key)
    return {identity: keys[0] for identity, keys in found.items() if len(keys) == 1}


def _path(trial: Trial) -> str:
    return trial.task_path or trial.task_key


def _key(trial: Trial) -> str:
    return trial.task_key


def _name_and_folder(trial: Trial) -> str:
    return f"{trial.task}\0{PurePath(trial.task_path).name}"


def _name(trial: Trial) -> str:
    return trial.task


def _labels(tasks: _Tasks) -> dict[str, str]:
    """Names for people; the path where several tasks have the same one."""
    unique = _unique(tasks, _name)
    return {
        key: trials[0].task if trials[0].task in unique else key for key, trials in tasks.items()
    }


def _score(trials: Sequence[Trial]) -> Score:
    # A reward beyond all bounds must not keep the others from being compared.
    rewards = (max(min(trial.score, _MOST), -_MOST) for trial in trials)
    return Score(sum(trial.passed for trial in trials), len(trials), fmean(rewards))


def _changes(scores: Sequence[tuple[str, Score, Score]]) -> list[TaskChange]:
    p_values = [
        fisher_exact(now.passed, now.attempts, then.passed, then.attempts)
        for _, then, now in scores
    ]
    return [
        TaskChange(task, then, now, _change(then, now, p), p, adjusted)
        for (task, then, now), p, adjusted in zip(scores, p_values, holm(p_values), strict=True)
    ]


def _change(then: Score, now: Score, p: float) -> Change:
    if (then.is_mixed or now.is_mixed) and p >= ALPHA:
        return "flaky"
    if then.rate == now.rate:
        return "same"
    return "better" if now.rate > then.rate else "worse"


def comparison_lines(found: Comparison, most: int = 20) -> Iterator[str]:
    """The comparison for a terminal; of the changed tasks at most ``most`` a group."""
    for group in found.groups:
        yield from _group_lines(group, most)
    for name in found.unmatched:
        yield f"{name}: not in the baseline"


def _group_lines(group: GroupChange, most: int) -> Iterator[str]:
    against = f" against {group.then_name}" if group.then_name else ""
    if not group.tasks:
        yield f"{group.name}{against}: no task has a valid reward in both jobs"
        return
    yield (
        f"{group.name}{against}: of {number_of(len(group.tasks), 'task')}"
        f" {', '.join(f'{group.number(change)} {change}' for change in CHANGES)}"
    )
    yield f"{group.name}: passed {_moved(group, 'rate')}, p={group.p_passed:.2g}"
    yield f"{group.name}: mean reward {_moved(group, 'reward')}, p={group.p_reward:.2g}"
    changed = [task for task in group.tasks if task.change != "same"]
    for task in changed[:most]:
        sure = ", significant" if task.is_significant else ""
        yield f"  {task.change:<6} {task.task}: {task.then} -> {task.now} (p={task.p:.2g}{sure})"
    if len(changed) > most:
        yield f"  and {len(changed) - most} more"
    for names, where in ((group.only_now, "this job"), (group.only_then, "the baseline")):
        if names:
            tasks = number_of(len(names), "task")
            yield f"{group.name}: {tasks} with a valid reward in {where} alone"


def _moved(group: GroupChange, what: Literal["rate", "reward"]) -> str:
    then, now = group.mean("then", what), group.mean("now", what)
    if what == "rate":
        return f"{then:.1%} -> {now:.1%}"
    return f"{then:.3g} -> {now:.3g}"
