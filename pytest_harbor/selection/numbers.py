"""What the chosen attempts earned, beside the first, the mean and the best possible ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from pytest_harbor.report.numbers import LEFT_OUT
from pytest_harbor.report.rates import Rate, mean_rate, rate_by_task
from pytest_harbor.report.trial import Trial
from pytest_harbor.selection.candidate import SIGNS, Candidate
from pytest_harbor.selection.choose import Selected, Selection
from pytest_harbor.selection.reward import RewardSelector, expected_best

_BEST = RewardSelector()


class Figure(NamedTuple):
    """Mean reward and pass rate over tasks."""

    mean_reward: Rate
    pass_rate: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the choices in the tasks of one dataset by one agent and model came to.

    Attributes:
        agent: The agent's name.
        model: ``provider/name``, or empty.
        dataset_label: What ids call the dataset; None of tasks that were named by their paths.
        tasks: How many tasks there are.
        selected: The chosen attempts; None where none counts.
        first: The first attempt at each of the same tasks.
        mean: All attempts at the same tasks, each task alike.
        best_possible: The best attempt at each of them, by reward.
        best_of: k to what the best of k attempts would come to, for selectors by reward.
        left_out: Why other tasks are not in ``selected``, and how many.
    """

    agent: str
    model: str
    dataset_label: str | None = None
    tasks: int
    selected: Figure | None = None
    first: Figure | None = None
    mean: Figure | None = None
    best_possible: Figure | None = None
    best_of: Mapping[int, Figure] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Agent and model, as in an item's name."""
        return f"{self.agent}[{self.model}]" if self.model else self.agent


def figures(selection: Selection) -> list[Figures]:
    """The figures of each agent and model, each dataset apart, in the order of their first task."""
    groups: dict[tuple[str, str, str], list[Selected]] = {}
    for one in selection.tasks:
        group, dataset = one.attempts.group, one.attempts.trials[0].dataset_key
        groups.setdefault((group.agent, group.model, dataset), []).append(one)
    return [_figures(selection, *name, tasks) for name, tasks in groups.items()]


def _figures(
    selection: Selection, agent: str, model: str, dataset: str, tasks: Sequence[Selected]
) -> Figures:
    left_out = Counter(filter(None, (_why_not(one, selection.expected) for one in tasks)))
    counted = [one for one in tasks if not _why_not(one, selection.expected)]
    every = [[trial for trial in one.attempts.trials if trial.counts] for one in counted]
    first = [found for one in counted if (found := _first(one)) is not None]
    no_first = len(counted) - len(first)
    more = {"tasks whose first attempt has no valid reward": no_first} if no_first else {}
    selector = selection.selector
    return Figures(
        agent=agent,
        model=model,
        dataset_label=dataset or None,
        tasks=len(tasks),
        selected=_of_trials([[_chosen(one)] for one in counted], left_out),
        first=_of_trials([[one] for one in first], {**left_out, **more}),
        mean=_of_trials(every, left_out),
        best_possible=_of_trials([[_best(one, _BEST)[0]] for one in counted], left_out),
        best_of=_best_of(tasks, selector) if isinstance(selector, RewardSelector) else {},
        left_out=dict(left_out),
    )


def _why_not(one: Selected, expected: int) -> str:
    """Why a task has no place; empty where it has."""
    if one.attempts.missing:
        return f"tasks with fewer than {expected} attempts that have ended"
    if one.problem:
        return "tasks of which nothing was chosen"
    if one.choice is None:
        if _all_tampered(one):
            return ""
        signs = SIGNS in one.attempts.left_out
        return f"tasks without an attempt to choose{f': {SIGNS}' if signs else ''}"
    trial = one.choice.candidate.source
    return "" if trial.counts else f"chosen: {LEFT_OUT.get(trial.category, LEFT_OUT[''])}"


def _all_tampered(one: Selected) -> bool:
    """Nothing may be chosen for tampering alone: the task counts, or tampering would pay."""
    counted = [trial for trial in one.attempts.trials if trial.counts]
    return bool(counted) and all(one.untrusted or one.reward is None for one in counted)


def _chosen(one: Selected) -> Trial:
    return one.choice.candidate.source if one.choice else _best(one, _BEST)[0]


def _first(one: Selected) -> Trial | None:
    first = one.attempts.trials[0]
    return first if first.counts else None


def _best(one: Selected, selector: RewardSelector) -> list[Trial]:
    """The attempts that count, the preferred ones first; those tampered with last."""
    counted: list[Candidate] = [
        # One without the key would be chosen by nobody, and is no attempt that earned nothing.
        one for one in one.attempts.everyone if one.source.counts and not selector.lacks_key(one)
    ]
    return [one.source for one in sorted(counted, key=selector.rank)]


def _earned(trial: Trial) -> float:
    # Of a set of attempts with signs of tampering alone nothing would be chosen.
    return min(trial.score, 0.0) if trial.has_signs else trial.score


def _passed(trial: Trial) -> float:
    return float(trial.passed and not trial.has_signs)


def _of_trials(tasks: Sequence[Sequence[Trial]], left_out: Mapping[str, int]) -> Figure | None:
    rewards = [fmean(trial.score for trial in task) for task in tasks]
    passes = [fmean(trial.passed for trial in task) for task in tasks]
    return _figure(rewards, passes, sum(map(len, tasks)), left_out)


def _figure(
    rewards: Sequence[float], passes: Sequence[float], draws: int, left_out: Mapping[str, int]
) -> Figure | None:
    if not rewards:
        return None
    mean = mean_rate([[one] for one in rewards], dict(left_out))._replace(unit="tasks")
    return Figure(mean, rate_by_task(passes, draws, dict(left_out)))


def _best_of(tasks: Sequence[Selected], selector: RewardSelector) -> dict[int, Figure]:
    ranked = [_best(one, selector) for one in tasks]
    most = max(map(len, ranked), default=0)
    found = {k: _best_of_k(ranked, k) for k in range(1, most + 1)}
    return {k: figure for k, figure in found.items() if figure is not None}


def _best_of_k(ranked: Sequence[Sequence[Trial]], k: int) -> Figure | None:
    enough = [trials for trials in ranked if len(trials) >= k]
    few = len(ranked) - len(enough)
    return _figure(
        [expected_best([_earned(trial) for trial in trials], k) for trials in enough],
        [min(expected_best([_passed(trial) for trial in trials], k), 1.0) for trials in enough],
        sum(len(trials) // k for trials in enough),
        {f"tasks with fewer than {k} valid attempts": few} if few else {},
    )
