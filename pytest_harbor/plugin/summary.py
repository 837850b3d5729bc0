"""What a run came to, in words: rates and means as reports have them, and where the time went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_harbor.plugin.summary_table import table, title_of
from pytest_harbor.report.numbers import (
    GroupNumbers,
    Rate,
    Total,
    group_numbers,
    has_datasets,
)
from pytest_harbor.report.trial import Trial, trial_of_properties
from pytest_harbor.report.values import finite
from pytest_harbor.task.plural import in_number, number_of

_LONG_SEC = 10.0
"""What took less is not worth a line."""
_SHORT_SEC = 1.0
"""A phase that never took as long says nothing beside one that did."""
_SLOWEST = 3
_FINDINGS = 20
_USAGE = {
    "input_tokens": "{:,.0f} tokens read",
    "cache_tokens": "{:,.0f} of them cached",
    "output_tokens": "{:,.0f} tokens written",
    "cost_usd": "{:,.4f} USD",
}


def summary_lines(
    found: Mapping[str, Mapping[str, Any]], *, width: int, rates: bool = True, short: bool = False
) -> Iterator[str]:
    """The lines below the count of trials.

    Args:
        found: Ids of the trials' items to their properties.
        width: Of the terminal.
        rates: Whether rewards are what it is about.
        short: Without a table, and without what took long.
    """
    trials = [trial_of_properties(nodeid, known) for nodeid, known in found.items()]
    groups = group_numbers(trials)
    pooled = [one for one in groups if one.pooled]
    if has_datasets(trials):
        groups = group_numbers(trials, by_dataset=True)
    if rates:
        # A table says more than a sentence where there is something to compare.
        tells_more = not short and any(one.trials > 1 for one in groups)
        if rows := table([*groups, *pooled], width) if tells_more else []:
            yield from rows
            yield from _named(groups, _left_out)
        else:
            yield from _named([*groups, *pooled], sentence, always=True)
            yield from _named([*groups, *pooled], usage)
    else:
        yield from _named([*groups, *pooled], usage)
    yield from _named(groups, _errors)
    if not short:
        yield from _named(groups, _phases)
        yield from _slowest(found, trials)
        yield from _images(found)
    yield from _integrity(found)


def _named(groups: Sequence[GroupNumbers], words: Any, *, always: bool = False) -> Iterator[str]:
    """What there is to say of each group, with its name where it is not the only one."""
    title = title_of(groups)
    for group in groups:
        if said := words(group):
            yield f"{title(group)}: {said}" if always or len(groups) > 1 else said


def sentence(group: GroupNumbers) -> str:
    """The pass rate with its denominator, and everything that is not in it."""
    said = "no valid reward"
    if group.mean_reward is not None:
        said = f"{group.passed} of {group.valid} valid rewards passed"
        said += "" if group.pooled else _means(group, group.mean_reward)
    aside = "".join(f" ({one})" for one in _tampering(group))
    return "; ".join(filter(None, [f"{said}{aside}", _not_counted(group)]))


def _means(group: GroupNumbers, reward: Rate) -> str:
    most = max(group.pass_at, default=1)
    more = f"; pass@{most} {group.pass_at[most].value:.3g}" if most > 1 else ""
    return f"; mean reward {reward.value:.3g}{more}"


def _left_out(group: GroupNumbers) -> str:
    """What a row of the table does not tell."""
    return "; ".join(filter(None, [*_tampering(group), _not_counted(group), _partly_known(group)]))


def _tampering(group: GroupNumbers) -> Iterator[str]:
    if group.untrusted:
        yield f"{group.untrusted} failed for tampering: 0 in the mean"
    if group.evaded:
        yield f"{group.evaded} without a verdict after tampering: not passed, 0 in the mean"


def _not_counted(group: GroupNumbers) -> str:
    apart = ", ".join(in_number(number, why) for why, number in group.left_out.items())
    return f"not counted: {apart}" if apart else ""


def usage(group: GroupNumbers) -> str:
    """Tokens and cost of all trials, where they are known; says of how many they are."""
    known = ((text, group.usage[name]) for name, text in _USAGE.items() if name in group.usage)
    return "; ".join(text.format(total.value) + _of_how_many(total) for text, total in known)


def _of_how_many(total: Total) -> str:
    if total.known == total.trials:
        return ""
    return f" (known of {total.known} of {total.trials} trials)"


def _partly_known(group: GroupNumbers) -> str:
    partly = [total for total in group.usage.values() if total.known < total.trials]
    return f"tokens and cost{_of_how_many(partly[0])}" if partly else ""


def _errors(group: GroupNumbers) -> str:
    kinds = ", ".join(f"{number} {kind}" for kind, number in group.errors.items())
    return f"errors: {kinds}" if kinds else ""


def _phases(group: GroupNumbers) -> str:
    """Where the time of many trials went."""
    longest = max((phase.longest for phase in group.phases.values()), default=0.0)
    if group.trials < 2 or longest < _LONG_SEC:
        return ""
    times = ", ".join(
        f"{name.replace('_', ' ')} {duration(phase.median)} ({duration(phase.longest)})"
        for name, phase in group.phases.items()
        if phase.longest >= _SHORT_SEC
    )
    return f"time, median (longest): {times}"


def _slowest(found: Mapping[str, Any], trials: Sequence[Trial]) -> Iterator[str]:
    spans = [
        (span.seconds, span.phase.replace("_", " "), nodeid)
        for nodeid, trial in zip(found, trials, strict=True)
        for span in trial.spans
        if span.seconds >= _LONG_SEC
    ]
    for seconds, phase, nodeid in sorted(spans, reverse=True)[:_SLOWEST]:
        yield f"slowest: {duration(seconds)} {phase} of {nodeid}"


def _images(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Builds, pulls and installs that took long; only the first trial that needs one has it."""
    times: dict[str, float] = {}
    for nodeid, known in found.items():
        seconds = finite(known.get("seconds.images"))
        if seconds and "resumed" not in known:
            task = nodeid.partition("::")[0].removesuffix("/task.toml")
            times[task] = times.get(task, 0.0) + seconds
    long = sorted(((s, task) for task, s in times.items() if s >= _LONG_SEC), reverse=True)
    for seconds, task in long[:_SLOWEST]:
        yield f"image made: {duration(seconds)} for {task}"
    if len(long) > _SLOWEST:
        yield f"images made: {len(times)}, {duration(sum(times.values()))} in all"


def _integrity(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The trials with signs of tampering, and their kinds."""
    odd = {nodeid: known for nodeid, known in found.items() if known.get("integrity")}
    for nodeid, known in list(odd.items())[:_FINDINGS]:
        number = number_of(known["integrity"], "sign") + " of tampering"
        yield f"integrity: {nodeid}: {number} ({known.get('integrity.codes', '')})"
    if more := max(len(odd) - _FINDINGS, 0):
        yield f"integrity: {number_of(more, 'trial')} more with signs of tampering"


def duration(seconds: float) -> str:
    """``0.3 s``, ``42 s``, ``3 m 05 s``, ``1 h 02 m``."""
    if seconds < _LONG_SEC:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_of_hour = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes_of_hour:02} m"
    return f"{minutes} m {rest:02} s" if minutes else f"{rest} s"
