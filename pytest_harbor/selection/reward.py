"""Selection by reward, which is the best that any selector could do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pytest_harbor.errors import OptionError
from pytest_harbor.report.numbers import LEFT_OUT
from pytest_harbor.report.rates import total_of
from pytest_harbor.report.trial import Trial
from pytest_harbor.result.reward import shown
from pytest_harbor.selection.candidate import SIGNS, TAMPERED, Candidate, Choice, Group, Selector
from pytest_harbor.task.finding import nearest

_LAST = {SIGNS: 2.0, TAMPERED: 3.0}
"""Places by preference of what is no candidate; other reasons have the first."""

_MOST_KEYS = 20


class RewardSelector(Selector):
    """Chooses the highest reward; among equals the cheapest, then the first."""

    def __init__(self, key: str = "") -> None:
        """A selector.

        Args:
            key: Key of the reward; empty: the number that is held against the threshold.
        """
        self.key = key
        self.name = f"reward:{key}" if key else "reward"

    def why_not(self, candidate: Candidate) -> str:
        """No verdict, none that can be trusted, or none of that key."""
        if candidate.category != "reward":
            return LEFT_OUT.get(candidate.category, LEFT_OUT[""])
        if tampered := super().why_not(candidate):
            return tampered
        return f"a reward without the key {self.key!r}" if self.value(candidate) is None else ""

    def lacks_key(self, candidate: Candidate) -> bool:
        """It has a verdict that can be trusted, and no reward of the key."""
        judged = candidate.category == "reward" and not super().why_not(candidate)
        return judged and self.value(candidate) is None

    def value(self, candidate: Candidate) -> float | None:
        """The number that counts."""
        return candidate.rewards.get(self.key) if self.key else candidate.reward

    def rank(self, candidate: Candidate) -> tuple[float, ...]:
        """Sorts candidates by preference; those that are none come last."""
        why, value = self.why_not(candidate), self.value(candidate)
        if why or value is None:
            return (_LAST.get(why, 1.0), 0.0, *candidate.price)
        return (0.0, -value, *candidate.price)

    def select(self, group: Group) -> Choice:
        """Choose the first by rank."""
        best = min(group.candidates, key=self.rank)
        value = self.value(best)
        equal = sum(self.value(one) == value for one in group.candidates)
        tie = f", the cheapest or first of {equal} equal ones" if equal > 1 else ""
        return Choice(best, f"{self.name} {shown(value)}{tie}" if value is not None else self.name)


def check_key(selector: Selector, trials: Iterable[Trial]) -> None:
    """Check that what a selector by reward looks at is there at all.

    Raises:
        OptionError: Trials of the job have rewards, and none of them its key.
    """
    if not isinstance(selector, RewardSelector) or not selector.key:
        return
    known = sorted({key for trial in trials for key in trial.rewards})
    if known and selector.key not in known:
        near = nearest(selector.key, known)
        some = ", ".join(map(repr, known[:_MOST_KEYS])) + (", …" if known[_MOST_KEYS:] else "")
        raise OptionError(
            f"{selector.name}: no trial has a reward of the key {selector.key!r}{near}; "
            f"there are {some}"
        )


def expected_best(values: Sequence[float], k: int) -> float:
    """The mean, over all sets of ``k`` attempts, of the value of the one that is preferred.

    Exact: the attempt in place ``i`` is the preferred one in ``C(n-1-i, k-1)`` of ``C(n, k)``
    sets.

    Args:
        values: Of all attempts, the preferred first.
        k: From 1 to their number.

    Raises:
        ValueError: There are fewer than ``k``.
    """
    size = len(values)
    if not 0 < k <= size:
        raise ValueError(f"expected 0 < k <= attempts, got {k}, {size}")
    sets = math.comb(size, k)
    # A place that is never preferred has no part, not 0 times a value that may be infinite.
    parts = [values[i] * (math.comb(size - 1 - i, k - 1) / sets) for i in range(size - k + 1)]
    return total_of(parts)
