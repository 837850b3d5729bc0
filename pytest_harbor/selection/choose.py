"""Asks a selector of every task of a job."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_harbor.report.job import JobReading
from pytest_harbor.report.values import count
from pytest_harbor.selection.attempts import Attempts, attempts_of
from pytest_harbor.selection.candidate import (
    INTERRUPTED,
    Candidate,
    Choice,
    Group,
    NothingChosenError,
    Selector,
)
from pytest_harbor.selection.details import details_json
from pytest_harbor.selection.reward import check_key

MOST_OUTAGES = 3
"""In a row; then the selector is not asked of further tasks."""
LAST_WORDS_SEC = 1.0
"""After an interrupt: for what was heard of a selector by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What came of the attempts at one task.

    Attributes:
        attempts: What there was to choose from.
        choice: The attempt that was chosen, if any.
        problem: Why none was, though there were candidates.
        details: What the selector told besides, as JSON has it.
        fingerprint: Names what the choice hung on; empty where the selector does not say.
        is_earlier: An earlier selection chose, with the same fingerprint.
    """

    attempts: Attempts
    choice: Choice | None = None
    problem: str = ""
    details: object = None
    fingerprint: str = ""
    is_earlier: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a selector chose in a job.

    Attributes:
        selector: Who chose.
        job: The job.
        expected: Attempts at each task that were asked for.
        tasks: Each agent's and model's attempts at each task, and what was chosen.
        is_interrupted: It was ended before all tasks were asked of.
    """

    selector: Selector
    job: JobReading
    expected: int
    tasks: Sequence[Selected]
    is_interrupted: bool = False

    @property
    def problems(self) -> list[Selected]:
        """Tasks of which nothing was chosen though there were candidates."""
        return [one for one in self.tasks if one.problem]


class Earlier:
    """Choices of an earlier selection; here none."""

    def of(self, group: Group) -> Mapping[str, Any]:
        """What was chosen: ``fingerprint``, ``selected``, ``reason``, ``details``."""
        return {}


def select(job: JobReading, selector: Selector, earlier: Earlier | None = None) -> Selection:
    """Choose in every task of a job; a selector that fails chooses nothing there.

    Args:
        job: The job.
        selector: Who chooses.
        earlier: What need not be asked again.

    Raises:
        OptionError: The rewards that the selector looks at are nowhere in the job.
    """
    check_key(selector, job.trials)
    expected = count(job.config.get("n_attempts"))
    attempts = attempts_of(job.name, job.trials, selector, expected)
    asked = _Asked(selector, earlier or Earlier())
    several = min(selector.parallel, len(attempts)) > 1 or selector.waits
    chosen = _in_threads(asked, attempts) if several else _one_by_one(asked, attempts)
    found = max((len(one.everyone) for one in attempts), default=0)
    return Selection(
        selector=selector,
        job=job,
        expected=expected or found,
        tasks=chosen,
        is_interrupted=asked.is_over,
    )


def _one_by_one(asked: _Asked, attempts: Sequence[Attempts]) -> list[Selected]:
    found: list[Selected] = []
    try:
        for one in attempts:
            found.append(asked.of(one))
    except KeyboardInterrupt:
        asked.is_over = True
        found += [asked.interrupted(one) for one in attempts[len(found) :]]
    return found


def _in_threads(asked: _Asked, attempts: Sequence[Attempts]) -> list[Selected]:
    """Threads that nothing waits for: whoever interrupts does not wait for open calls."""
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Selected | None]] = queue.SimpleQueue()
    for place in range(len(attempts)):
        todo.put(place)

    def work() -> None:
        while True:
            try:
                place = todo.get_nowait()
            except queue.Empty:
                return
            done.put((place, _heard(asked, attempts[place])))

    for _ in range(min(asked.selector.parallel, len(attempts))):
        threading.Thread(target=work, name="pytest-harbor-select", daemon=True).start()
    found: dict[int, Selected] = {}
    try:
        while len(found) < len(attempts):
            place, one = done.get()
            if one is None:
                raise KeyboardInterrupt
            found[place] = one
    except KeyboardInterrupt:
        _take_last_words(asked, done, found, len(attempts))
    return [found.get(place) or asked.interrupted(one) for place, one in enumerate(attempts)]


def _heard(asked: _Asked, attempts: Attempts) -> Selected | None:
    """What is chosen; None where the selector is interrupted."""
    try:
        return asked.of(attempts)
    except KeyboardInterrupt:
        return None


def _take_last_words(
    asked: _Asked,
    done: queue.SimpleQueue[tuple[int, Selected | None]],
    found: dict[int, Selected],
    tasks: int,
) -> None:
    """What was paid for is kept, as far as it comes at once."""
    asked.is_over = True
    asked.selector.stop()
    try:
        while len(found) < tasks:
            place, one = done.get(timeout=LAST_WORDS_SEC)
            if one is not None:
                found[place] = one
    except (queue.Empty, KeyboardInterrupt):
        return


class _Asked:
    """Asks a selector, and stops when there is no use in it."""

    def __init__(self, selector: Selector, earlier: Earlier) -> None:
        self.selector = selector
        self.is_over = False
        self._earlier = earlier
        self._outages = 0

    def of(self, attempts: Attempts) -> Selected:
        """What it chooses."""
        if not attempts.group.candidates or attempts.problem:
            return Selected(attempts=attempts, problem=attempts.problem)
        if self.is_over:
            return self.interrupted(attempts)
        try:
            return self._answer(attempts)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - it is anybody's code, and may exit
            return Selected(attempts=attempts, problem=f"{type(error).__name__}: {error}")

    def interrupted(self, attempts: Attempts) -> Selected:
        """Nothing was chosen, for want of time."""
        problem = INTERRUPTED if attempts.group.candidates else ""
        return Selected(attempts=attempts, problem=problem)

    def _answer(self, attempts: Attempts) -> Selected:
        group = attempts.group
        shown = group if self.selector.sees_rewards else _without_rewards(group)
        own = {one.trial: one for one in group.candidates}
        fingerprint = self.selector.fingerprint(shown)
        known = self._earlier.of(group) if fingerprint else {}
        if known.get("fingerprint") == fingerprint and (best := own.get(str(known["selected"]))):
            choice = Choice(best, str(known.get("reason")))
            details = known.get("details")
            return Selected(
                attempts=attempts,
                choice=choice,
                details=details,
                fingerprint=fingerprint,
                is_earlier=True,
            )
        if self._outages >= MOST_OUTAGES:
            text = f"not asked: {self.selector.name} was not to be had {MOST_OUTAGES} times running"
            return Selected(attempts=attempts, problem=text)
        try:
            choice = self._choice(shown, own)
        except NothingChosenError as error:
            self._outages = self._outages + 1 if error.is_outage else 0
            told = details_json(error.details)
            return Selected(attempts=attempts, problem=str(error), details=told)
        self._outages = 0
        return Selected(
            attempts=attempts,
            choice=choice,
            details=details_json(choice.details),
            fingerprint=fingerprint,
        )

    def _choice(self, shown: Group, own: Mapping[str, Candidate]) -> Choice:
        found = self.selector.select(shown)
        if not isinstance(found, Choice) or not isinstance(found.candidate, Candidate):
            raise NothingChosenError(f"expected a Choice with a candidate, got {found!r:.200}")
        if found.candidate.trial not in own:
            raise NothingChosenError(f"{found.candidate.trial} is none of the candidates")
        return found._replace(candidate=own[found.candidate.trial], reason=str(found.reason))


def _without_rewards(group: Group) -> Group:
    return replace(group, candidates=[_unrewarded(one) for one in group.candidates])


def _unrewarded(one: Candidate) -> Candidate:
    return replace(
        one,
        category="",
        reward=None,
        rewards={},
        passed=None,
        untrusted=False,
        has_signs=False,
        fault="",
    )
