"""Agents and models side by side: a row each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from pytest_harbor.report.numbers import GroupNumbers, Rate, Total

_GAP = "  "
_NONE = "-"

Column = tuple[str, Callable[[GroupNumbers], str]]


def table(groups: Sequence[GroupNumbers], width: int) -> list[str]:
    """The heads and a row for each group; columns of which nothing is known are left out.

    Args:
        groups: At least one.
        width: Of the terminal; columns that do not fit stand below, beside the names again.

    Returns:
        The lines; none where the terminal is too narrow for any.
    """
    every = [[head, *map(cell, groups)] for head, cell in _columns(groups)]
    names, *columns = [column for column in every if any(one != _NONE for one in column[1:])]
    blocks: list[list[list[str]]] = []
    for column in columns:
        if not blocks or _width([*blocks[-1], column]) > width:
            blocks.append([names])
        blocks[-1].append(column)
    fits = all(_width(block) <= width for block in blocks)
    return [line for block in blocks for line in _lines(block)] if fits else []


def title_of(groups: Sequence[GroupNumbers]) -> Callable[[GroupNumbers], str]:
    """How each of the groups is called: with its dataset where there are several."""
    several = any(one.pooled for one in groups) or len({one.dataset_label for one in groups}) > 1
    return lambda group: group.full_name if several else group.name


def _width(columns: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, column)) + len(_GAP) for column in columns) - len(_GAP)


def _lines(columns: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in columns]
    for name, *numbers in zip(*columns, strict=True):
        if all(one == _NONE for one in numbers):
            continue
        padded = [one.rjust(width) for one, width in zip(numbers, widths[1:], strict=True)]
        yield _GAP.join([name.ljust(widths[0]), *padded]).rstrip()


def _columns(groups: Sequence[GroupNumbers]) -> Iterator[Column]:
    most = max((k for group in groups for k in group.pass_at), default=1)
    yield "agent", title_of(groups)
    yield "trials", lambda group: str(group.trials)
    yield "passed", lambda group: f"{group.passed} of {group.valid}" if group.valid else _NONE
    # Counts add up over datasets; a mean over two benchmarks is of neither.
    yield "mean reward", lambda group: rate(None if group.pooled else group.mean_reward)
    yield "pass@1", lambda group: rate(None if group.pooled else group.pass_at.get(1))
    if most > 1:
        yield f"pass@{most}", lambda group: rate(None if group.pooled else group.pass_at.get(most))
    yield "tokens in", lambda group: _tokens(group.usage.get("input_tokens"))
    yield "out", lambda group: _tokens(group.usage.get("output_tokens"))
    yield "USD", lambda group: _cost(group.usage.get("cost_usd"))


def rate(found: Rate | None) -> str:
    """A rate and its interval at 95 %, where that is known."""
    if found is None:
        return _NONE
    if found.low is None or found.high is None:
        return _number(found.value)
    return f"{_number(found.value)} [{_number(found.low)}, {_number(found.high)}]"


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.3g}"


def _tokens(total: Total | None) -> str:
    """``1.2M``: who wants to know more reads the report."""
    if total is None:
        return _NONE
    value = total.value
    if not math.isfinite(value):
        return str(value)
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}"


def _cost(total: Total | None) -> str:
    if total is None:
        return _NONE
    return f"{total.value:,.2f}" if total.value >= 1 else f"{total.value:.4f}"
