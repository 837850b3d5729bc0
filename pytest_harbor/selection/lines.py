"""A selection in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_harbor.report.numbers import on_dataset
from pytest_harbor.report.rates import Rate
from pytest_harbor.selection.choose import Selected, Selection
from pytest_harbor.selection.numbers import Figure, Figures, figures
from pytest_harbor.selection.record import usage
from pytest_harbor.task.plural import in_number

_SHOWN = 5
_MOST_K = 8


def title(selection: Selection) -> str:
    """What was done."""
    return _plain(f"best of {selection.expected} by {selection.selector.name}")


def lines(selection: Selection) -> Iterator[str]:
    """A line for each agent and model on each dataset, and what there is to say besides."""
    found = figures(selection)
    several = len({one.dataset_label for one in found}) > 1
    for one in found:
        name = on_dataset(one.name, one.dataset_label or "") if several else one.name
        yield _plain(f"{name}: {_sentence(one)}")
    problems = [f"{_name(one)}: {one.problem}" for one in selection.problems]
    yield from _listed("nothing chosen", problems)
    yield from (_plain(f"job: {problem}") for problem in selection.job.problems)
    incomplete = [
        f"{_name(one)}: {one.attempts.missing} of {selection.expected} attempts have not ended"
        for one in selection.tasks
        if one.attempts.missing
    ]
    yield from _listed("incomplete", incomplete)
    if votes := usage(selection.tasks):
        yield f"{_plain(selection.selector.name)}: {'; '.join(_usage(votes))}"


def _usage(found: Mapping[str, Any]) -> Iterator[str]:
    before = found["earlier_calls"]
    calls = in_number(found["calls"], "calls")
    yield calls + (f", {before} of them of an earlier selection" * (before > 0))
    known = {
        "input_tokens": "{:,.0f} tokens read",
        "output_tokens": "{:,.0f} tokens written",
        "cost_usd": "{:,.4f} USD",
    }
    for key, words in known.items():
        if found[key] is not None:
            yield words.format(found[key])


def _sentence(found: Figures) -> str:
    parts: list[str] = []
    if found.selected is None:
        parts.append("nothing that counts was chosen")
    else:
        passes = found.selected.pass_rate
        parts.append(
            f"mean reward {_rate(found.selected.mean_reward)},"
            f" {passes.numerator:g} of {passes.denominator} tasks passed"
        )
        parts.append(", ".join(_beside(found)))
    if 1 < len(found.best_of) <= _MOST_K:
        values = ", ".join(f"{_value(one)}" for one in found.best_of.values())
        parts.append(f"best of 1 to {max(found.best_of)}: {values}")
    if found.left_out:
        apart = ", ".join(in_number(n, why) for why, n in found.left_out.items())
        parts.append(f"not counted: {apart}")
    return "; ".join(parts)


def _beside(found: Figures) -> Iterator[str]:
    names = {"first attempt": found.first, "mean": found.mean, "best possible": found.best_possible}
    for name, figure in names.items():
        if figure is not None:
            yield f"{name} {_value(figure)}"


def _value(figure: Figure) -> str:
    return f"{figure.mean_reward.value:.3g}"


def _rate(found: Rate) -> str:
    if found.low is None or found.high is None:
        return f"{found.value:.3g}"
    return f"{found.value:.3g} [{found.low:.3g}, {found.high:.3g}]"


def _name(one: Selected) -> str:
    return f"{one.attempts.group.task} of {one.attempts.group.name}"


def _listed(what: str, rows: Sequence[str]) -> Iterator[str]:
    for row in rows[:_SHOWN]:
        yield _plain(f"{what}: {row}")
    if more := len(rows[_SHOWN:]):
        yield f"{what}: {more} more"


def _plain(line: str) -> str:
    """What a job's folder or an endpoint says reaches no terminal raw."""
    return "".join(char if char.isprintable() else " " for char in line)
