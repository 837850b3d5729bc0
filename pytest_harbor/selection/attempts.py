"""A job's trials as the attempts at each task, by each agent and model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_harbor.report.numbers import LEFT_OUT
from pytest_harbor.report.trial import Trial
from pytest_harbor.selection.candidate import Candidate, Group, Selector

EARLIER_RUN = "an earlier run of the attempt"
_CUT_OFF = ("KeyboardInterrupt", "SystemExit", "Exit", "CancelledError")
"""Faults of a trial that was ended with its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """All attempts of one agent and model at one task.

    Attributes:
        group: Those of them that may be chosen.
        everyone: All as candidates, by their numbers; no earlier runs of an attempt.
        left_out: Why others may not be chosen, and how many.
        missing: How many attempts that were asked for have not ended.
        problem: Why the selector could not say which of them are candidates.
    """

    group: Group
    everyone: Sequence[Candidate]
    left_out: Mapping[str, int]
    missing: int = 0
    problem: str = ""

    @property
    def trials(self) -> list[Trial]:
        """The trials of the attempts."""
        return [one.source for one in self.everyone]


def attempts_of(
    job: str, trials: Iterable[Trial], selector: Selector, expected: int = 0
) -> list[Attempts]:
    """The attempts at each task, in the order of the trials.

    Args:
        job: The job's name.
        trials: All of it.
        selector: Who will choose.
        expected: Attempts that were asked for; 0: as many as the task with the most has.
    """
    groups: dict[tuple[str, ...], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.task_key, *trial.group), []).append(trial)
    ended = [sum(_has_ended(trial) for trial in group) for group in groups.values()]
    expected = expected or max(ended, default=0)
    return [
        replace(_attempts(job, group, selector), missing=max(expected - number, 0))
        for group, number in zip(groups.values(), ended, strict=True)
    ]


def _has_ended(trial: Trial) -> bool:
    return bool(trial.category) and trial.fault not in _CUT_OFF and not trial.superseded


def _attempts(job: str, trials: Sequence[Trial], selector: Selector) -> Attempts:
    first = trials[0]
    left_out: Counter[str] = Counter()
    chosen_from: list[Candidate] = []
    everyone = _candidates(trials)
    problem = ""
    for one in everyone:
        try:
            why = _no_work(one.source) or selector.why_not(one)
        except Exception as error:  # noqa: BLE001 - it is anybody's code
            problem = f"why_not of {one.trial}: {type(error).__name__}: {error}"
            break
        if why:
            left_out[str(why)] += 1
        else:
            chosen_from.append(one)
    if earlier := len(trials) - len(everyone):
        left_out[EARLIER_RUN] += earlier
    group = Group(
        job=job,
        task=first.task,
        task_key=first.task_key,
        agent=first.agent,
        model=first.model,
        candidates=chosen_from,
    )
    return Attempts(group=group, everyone=everyone, left_out=dict(left_out), problem=problem)


def _candidates(trials: Sequence[Trial]) -> list[Candidate]:
    """Harbor's own jobs do not number attempts: they are numbered by their start."""
    standing = [trial for trial in trials if not trial.superseded]
    found = [_candidate(trial, place) for place, trial in enumerate(standing, 1)]
    return sorted(found, key=lambda one: (one.attempt, one.trial))


def _candidate(trial: Trial, place: int) -> Candidate:
    usage = trial.usage
    return Candidate(
        attempt=trial.attempt or place,
        trial=trial.name,
        folder=trial.folder or Path(),
        category=trial.category,
        reward=trial.reward,
        rewards=dict(trial.rewards),
        passed=trial.passed,
        untrusted=trial.untrusted,
        has_signs=trial.has_signs,
        fault=trial.fault,
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cost_usd=usage.get("cost_usd"),
        seconds=trial.seconds("agent"),
        source=trial,
    )


def _no_work(trial: Trial) -> str:
    """Why nothing of an attempt can be chosen, whoever chooses; empty where there is work."""
    graded = trial.category == "environment" and trial.seconds("verifier") is not None
    if trial.folder is not None and (trial.category in ("reward", "task") or graded):
        return ""
    return LEFT_OUT.get(trial.category, LEFT_OUT[""])
