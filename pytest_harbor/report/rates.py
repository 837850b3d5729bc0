"""A rate or mean with what it counts, what it leaves out, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Z_95 = 1.959963984540054
"""Quantile of the normal distribution for two-sided 95 %."""


class Rate(NamedTuple):
    """A rate, a mean, or another number over trials or tasks.

    Attributes:
        value: ``numerator / denominator``; of a sum, least or greatest the numerator itself.
        low: Lower end of its 95 % interval; None where too little is known.
        high: Upper end.
        numerator: What was summed.
        denominator: Over how many.
        unit: What those are: ``trials`` or ``tasks``.
        left_out: Why others are not among them, and how many.
    """

    value: float
    low: float | None
    high: float | None
    numerator: float
    denominator: int
    unit: str
    left_out: Mapping[str, int]


def wilson(value: float, size: float) -> tuple[float, float]:
    """Wilson's score interval at 95 % of a rate over ``size`` independent cases."""
    spread = Z_95**2 / size
    middle = (value + spread / 2) / (1 + spread)
    half = math.sqrt(max(value * (1 - value), 0) * spread + spread**2 / 4) / (1 + spread)
    # A rate of 0 or 1 lies within its interval, whatever is lost in rounding.
    return max(min(middle - half, value), 0.0), min(max(middle + half, value), 1.0)


def rate_interval(value: float, offsets: Sequence[float], draws: int) -> tuple[float, float]:
    """Wilson's interval for the size at which a coin would vary as much as was seen.

    Args:
        value: The rate.
        offsets: How far each task moves it.
        draws: The largest size that is believed, however little the tasks differ.
    """
    coin = value * (1 - value)
    tasks = len(offsets)
    if coin <= 0 or tasks < 2:  # nothing to see of how far it is the tasks' doing
        return wilson(value, tasks)
    squares = math.fsum(one**2 for one in offsets) * tasks / (tasks - 1)
    # The coin's variance is estimated in the same way: with one attempt a task both are equal.
    size = coin / squares * draws / (draws - 1) if squares > 0 else draws
    return wilson(value, min(max(size, 1), draws))


def rate_by_task(estimates: Sequence[float], draws: int, left_out: Mapping[str, int]) -> Rate:
    """The mean of a rate that was estimated for each task.

    Args:
        estimates: One for each task, at least one.
        draws: As :func:`rate_interval` takes them.
        left_out: Of the rate.
    """
    total, size = math.fsum(estimates), len(estimates)
    value = min(total / size, 1.0)
    low, high = rate_interval(value, [(one - value) / size for one in estimates], draws)
    return Rate(value, low, high, total, size, "tasks", left_out)


def mean_rate(tasks: Sequence[Sequence[float]], left_out: Mapping[str, int]) -> Rate:
    """A mean over trials; its interval is 1.96 standard errors by task.

    Args:
        tasks: The numbers of each task's trials.
        left_out: Of the rate.
    """
    size = sum(map(len, tasks))
    total = total_of(score for task in tasks for score in task)
    value = total / size
    low: float | None = None
    high: float | None = None
    if len(tasks) > 1 and math.isfinite(value):
        residues = [math.fsum(task) - value * len(task) for task in tasks]
        squares = total_of(min(abs(one), 1e150) ** 2 for one in residues)
        error = math.sqrt(squares * len(tasks) / (len(tasks) - 1)) / size
        if error:  # tasks that all agree tell nothing of how far others are off
            low, high = value - Z_95 * error, value + Z_95 * error
    return Rate(value, low, high, total, size, "trials", left_out)


def total_of(values: Iterable[float]) -> float:
    """A sum that may be infinite; opposite infinities have none and are 0."""
    listed = list(values)
    try:
        return math.fsum(listed)
    except (OverflowError, ValueError):
        found = sum(listed)
        return 0.0 if math.isnan(found) else found
