"""Asks a selector of every task of a job."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from pytest_harbor.report.job import JobReading
from pytest_harbor.report.values import count
from pytest_harbor.selection.attempts import Attempts, attempts_of
from pytest_harbor.selection.candidate import (
    Candidate,
    Choice,
    Group,
    NothingChosenError,
    Selector,
)

MOST_OUTAGES = 3
"""In a row; then the selector is not asked of further tasks."""

_NOT_ASKED = "not asked: the run was interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What came of the attempts at one task.

    Attributes:
        attempts: What there was to choose from.
        choice: The attempt that was chosen, if any.
        problem: Why none was, though there were candidates.
        details: What the selector told besides.
    """

    attempts: Attempts
    choice: Choice | None = None
    problem: str = ""
    details: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a selector chose in a job.

    Attributes:
        selector: Who chose.
        job: The job.
        expected: Attempts at each task that were asked for.
        tasks: Each agent's and model's attempts at each task, and what was chosen.
    """

    selector: Selector
    job: JobReading
    expected: int
    tasks: Sequence[Selected]

    @property
    def problems(self) -> list[Selected]:
        """Tasks of which nothing was chosen though there were candidates."""
        return [one for one in self.tasks if one.problem]


def select(job: JobReading, selector: Selector) -> Selection:
    """Choose in every task of a job; a selector that fails chooses nothing there."""
    expected = count(job.config.get("n_attempts"))
    attempts = attempts_of(job.name, job.trials, selector, expected)
    asked = _Asked(selector)
    several = min(selector.parallel, len(attempts)) > 1
    chosen = _at_once(asked, attempts) if several else _one_by_one(asked, attempts)
    found = max((len(one.everyone) for one in attempts), default=0)
    return Selection(selector=selector, job=job, expected=expected or found, tasks=chosen)


def _one_by_one(asked: _Asked, attempts: Sequence[Attempts]) -> list[Selected]:
    found: list[Selected] = []
    try:
        for one in attempts:
            found.append(asked.of(one))
    except KeyboardInterrupt:
        found += [asked.interrupted(one) for one in attempts[len(found) :]]
    return found


def _at_once(asked: _Asked, attempts: Sequence[Attempts]) -> list[Selected]:
    pool = ThreadPoolExecutor(asked.selector.parallel, "pytest-harbor-select")
    futures = [pool.submit(asked.of, one) for one in attempts]
    try:
        wait(futures)
    except KeyboardInterrupt:
        asked.is_over = True
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    found: list[Selected] = []
    for one, future in zip(attempts, futures, strict=True):
        try:
            found.append(future.result(timeout=0))
        except (CancelledError, TimeoutError):
            found.append(asked.interrupted(one))
    return found


class _Asked:
    """Asks a selector, and stops when there is no use in it."""

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.is_over = False
        self._outages = 0

    def of(self, attempts: Attempts) -> Selected:
        """What it chooses."""
        if not attempts.group.candidates:
            return Selected(attempts=attempts)
        if self.is_over:
            return self.interrupted(attempts)
        if self._outages >= MOST_OUTAGES:
            text = f"not asked: {self.selector.name} was not to be had {MOST_OUTAGES} times running"
            return Selected(attempts=attempts, problem=text)
        return self._answer(attempts)

    def interrupted(self, attempts: Attempts) -> Selected:
        """Nothing was chosen, for want of time."""
        problem = _NOT_ASKED if attempts.group.candidates else ""
        return Selected(attempts=attempts, problem=problem)

    def _answer(self, attempts: Attempts) -> Selected:
        try:
            choice = self._choice(attempts.group)
        except NothingChosenError as error:
            self._outages = self._outages + 1 if error.is_outage else 0
            return Selected(attempts=attempts, problem=str(error), details=error.details)
        except Exception as error:  # noqa: BLE001 - it is anybody's code
            return Selected(attempts=attempts, problem=f"{type(error).__name__}: {error}")
        self._outages = 0
        return Selected(attempts=attempts, choice=choice, details=dict(choice.details))

    def _choice(self, group: Group) -> Choice:
        shown = group if self.selector.sees_rewards else _without_rewards(group)
        found = self.selector.select(shown)
        own = {one.trial: one for one in group.candidates}
        if not isinstance(found, Choice) or not isinstance(found.candidate, Candidate):
            raise NothingChosenError(f"expected a Choice with a candidate, got {found!r:.200}")
        if found.candidate.trial not in own:
            raise NothingChosenError(f"{found.candidate.trial} is none of the candidates")
        return found._replace(candidate=own[found.candidate.trial], reason=str(found.reason))


def _without_rewards(group: Group) -> Group:
    return replace(group, candidates=[_unrewarded(one) for one in group.candidates])


def _unrewarded(one: Candidate) -> Candidate:
    return replace(
        one, category="", reward=None, rewards={}, passed=None, untrusted=False, fault=""
    )
