"""How far a job is, in a few lines: what is done, what runs, what was cut off."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pytest_harbor.report.data import outcome
from pytest_harbor.report.earlier import EarlierTrial, read_trial
from pytest_harbor.report.files import UnreadableError, read_object
from pytest_harbor.report.job import JobReading
from pytest_harbor.report.running import is_running
from pytest_harbor.report.values import count, mapping
from pytest_harbor.trial.status import RunningTrial, read_running

_SHOWN = 50


def status_lines(job: JobReading) -> Iterator[str]:
    """The state of a job that runs, has run, or was cut off, for a terminal."""
    for line in _lines(job):
        # Builds and tasks write parts of it: nothing that a terminal obeys.
        yield "".join(char if char.isprintable() else "?" for char in line)


def _lines(job: JobReading) -> Iterator[str]:
    done = [one for one in job.trials if one.state == "finished" and not one.superseded]
    kinds = ", ".join(f"{number} {what}" for what, number in Counter(map(outcome, done)).items())
    total = max(_total(job.path), len(done))
    yield f"{job.name}: {len(done)} of {total} trials done{f': {kinds}' if kinds else ''}"
    told = {one.item: one for one in read_running(job.path)}
    left = [one for one in job.trials if one.state == "unfinished" and not one.superseded]
    for trial in left[:_SHOWN]:
        found = read_trial(trial.folder or job.path / trial.name)
        yield f"  {found.item or trial.name}: {_state(found, told.get(found.item))}"
    if more := len(left) - _SHOWN:
        yield from [f"  and {more} more"] if more > 0 else []
    for problem in job.problems:
        yield f"  {problem}"


def _state(trial: EarlierTrial, told: RunningTrial | None) -> str:
    if trial.owner is None:
        state = "unfinished"
    elif is_running(trial.owner):
        state = "runs"
    else:
        state = "was cut off" if trial.owner.is_dead() else "runs elsewhere, or was cut off"
    if told is None:
        return state
    where = f"{told.phase or 'start'} of step {told.step}" if told.step else told.phase or "start"
    doing = f" ({told.doing})" if told.doing else ""
    if state != "runs":
        return f"{state}, in the phase {where}{doing}"
    return f"{state}: {where} for {max(time.time() - told.since, 0):.0f} s{doing}"


def _total(path: Path) -> int:
    try:
        result = read_object(path / "result.json")
    except UnreadableError:
        return 0
    open_ones = mapping(result.get("stats"))
    pending = sum(count(open_ones.get(f"n_{kind}_trials")) for kind in ("running", "pending"))
    return max(count(result.get("n_total_trials")), pending)
