"""Whether a difference may be chance: two exact tests, without anything drawn by lot."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

_GRID = 2520
"""Differences of rates of up to ten attempts are multiples of 1/2520."""
_MAX_WORK = 4_000_000
_COARSE = 100


def fisher_exact(passed: int, attempts: int, passed_then: int, attempts_then: int) -> float:
    """Two-sided p of Fisher's exact test: both sets of attempts pass as often.

    All tables of the same margins that are no likelier than this one are summed.
    """
    total = passed + passed_then
    whole = math.comb(attempts + attempts_then, total)

    def weight(number: int) -> int:
        return math.comb(attempts, number) * math.comb(attempts_then, total - number)

    possible = range(max(0, total - attempts_then), min(attempts, total) + 1)
    seen = weight(passed)
    return min(float(Fraction(sum(w for w in map(weight, possible) if w <= seen), whole)), 1.0)


def sign_flip(differences: Sequence[float]) -> float:
    """Two-sided p of the paired permutation test: each difference could have either sign.

    Exact up to a bounded effort: without rounding for rates of up to ten attempts at some
    forty tasks, and of one attempt at a thousand; then with differences rounded to a grid; for
    hundreds of differences that no grid suits by the normal distribution, which they are near to.
    """
    present = [one for one in (Fraction(d).limit_denominator(_GRID) for d in differences) if one]
    if not present:
        return 1.0
    unit = math.lcm(*(one.denominator for one in present))
    steps = _on_grid([int(one * unit) for one in present])
    observed = abs(sum(steps))
    if sum(map(abs, steps)) * len(steps) > _MAX_WORK:
        return _normal(observed, steps)
    return _exact(observed, [abs(step) for step in steps])


def _on_grid(steps: list[int]) -> list[int]:
    """The same differences, rounded to as fine a grid as the effort allows, if to a good one."""
    most = _MAX_WORK // len(steps) ** 2
    longest = max(map(abs, steps))
    if longest <= most or most < _COARSE:
        return steps
    return [round(Fraction(step * most, longest)) for step in steps]


def _exact(observed: int, steps: Sequence[int]) -> float:
    """The share of all choices of signs whose sum lies as far from 0."""
    ways: dict[int, int] = {0: 1}
    for step in steps:
        more: defaultdict[int, int] = defaultdict(int)
        for total, number in ways.items():
            more[total + step] += number
            more[total - step] += number
        ways = more
    far = sum(number for total, number in ways.items() if abs(total) >= observed)
    return float(Fraction(far, 2 ** len(steps)))


def _normal(observed: int, steps: Sequence[int]) -> float:
    spread = math.sqrt(sum(step**2 for step in steps))
    return math.erfc(observed / spread / math.sqrt(2))


def holm(p_values: Sequence[float]) -> list[float]:
    """The same p-values, raised so that the least of many is no finding by their number alone."""
    ordered = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, highest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(ordered):
        highest = max(highest, p_values[index] * (len(p_values) - rank))
        adjusted[index] = min(highest, 1.0)
    return adjusted
