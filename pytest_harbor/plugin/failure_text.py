"""What a user reads when a trial did not pass: why first, then all that helps."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_harbor.plugin.rerun import again, unset_variables
from pytest_harbor.result.reward import REWARD_KEY, Number, shown
from pytest_harbor.task.plural import in_number
from pytest_harbor.trial.logs import read_tail

if TYPE_CHECKING:
    from pytest_harbor.result.reward import Verdict
    from pytest_harbor.result.trial import StepResult, TrialResult, Work

_TAIL_LINES = 20
_TAIL_BYTES = 8 * 1024
_LINE_CHARS = 500
_MESSAGE_CHARS = 4000
_SHOWN_TESTS = 10
_SHOWN_REWARDS = 20
_SHOWN_REFUSALS = 3
_SHOWN_FINDINGS = 5
_NAME_CHARS = 80

# Colours and titles of terminals: CSI and OSC sequences.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")
_SOURCES = {"steps": "all steps together"}


def failure_text(item: pytest.Item, result: TrialResult, *, kept: str = "") -> str:
    """The whole text, bounded and fit for a terminal whatever the logs hold.

    Args:
        item: The trial's item.
        result: Its result.
        kept: How to enter and remove the environment, where it is kept.
    """
    parts = [headline(result), *_work_lines(result, headline(result))]
    task = getattr(item, "task", None)
    parts += [f"note: {problem}" for problem in (task.problems if task else ())]
    for step in result.steps:
        parts.append(step_headline(step))
        parts += [f"  {line}" for line in _work_lines(step, step_headline(step))]
    parts += [refusals_line(result), *_evidence(result)]
    parts += [_times(result), f"logs: {_short(result.trial_dir)}"]
    if kept:
        parts.append(kept)
    if names := unset_variables(item):
        parts.append(f"set these first, whose values are not shown: {' '.join(names)}")
    parts.append(f"run again: {again(item)}")
    return _printable("\n".join(part for part in parts if part))


def step_text(result: TrialResult, step: StepResult) -> str:
    """What is shown of one step."""
    parts = [step_headline(step), *_work_lines(step, step_headline(step)), *_tests(step)]
    folder = result.trial_dir / "steps" / step.name
    parts += [*_tails(folder, result.agent_name), _times(step), f"logs: {_short(folder)}"]
    return _printable("\n".join(part for part in parts if part))


def step_headline(step: StepResult) -> str:
    """One line: what the step earned, or why it earned nothing."""
    if step.unmet:
        return f"step {step.name}: gate not met: {'; '.join(step.unmet)}"
    if step.verdict is not None:
        relation = "reaches" if step.verdict.passed else "is below"
        return f"step {step.name}: reward {_deciding(step.verdict)} {relation} the threshold"
    first = next(iter(step.faults), None)
    return f"step {step.name}: no valid reward" + (f": {_short_of(first.message)}" if first else "")


def first_failed(result: TrialResult) -> StepResult | None:
    """The first step that has no reward, or not enough of it."""
    return next((step for step in result.steps if step.unmet or not step.passed), None)


def _work_lines(work: Work, said: str) -> Iterator[str]:
    """What is known of a step or a trial, without what ``said`` says already."""
    if work.reward is not None:
        source = _SOURCES.get(work.reward.source, work.reward.source)
        yield f"rewards: {_listed(work.rewards)} (from {source})"
    for fault in work.faults:
        message = _short_of(fault.message)
        if message not in said:
            yield f"{fault.phase}: {message}"
    yield from integrity_lines(work)
    if work.agent_exit_code is not None:
        yield f"agent exit status: {work.agent_exit_code}"
    if work.verifier_exit_code is not None:
        yield f"verifier exit status: {work.verifier_exit_code}"
    yield from (f"note: {finding}" for finding in work.findings)


def _evidence(result: TrialResult) -> Iterator[str]:
    """Test report and output: the trial's, or those of the step that failed first."""
    step = first_failed(result)
    work: Work = result if step is None else step
    folder = result.trial_dir if step is None else result.trial_dir / "steps" / step.name
    if step is not None:
        yield f"the step that failed first: {step.name}"
    yield from _tests(work)
    yield from _tails(folder, result.agent_name)


def _deciding(verdict: Verdict) -> str:
    least_first = dict(sorted(verdict.deciding.items(), key=lambda pair: pair[1]))
    if list(least_first) == [REWARD_KEY]:
        return shown(verdict.reward, verdict.threshold)
    return _listed(least_first, verdict.threshold)


def _listed(rewards: Mapping[str, Number], threshold: float | None = None) -> str:
    pairs = list(rewards.items())[:_SHOWN_REWARDS]
    listed = [f"{name[:_NAME_CHARS]}={shown(value, threshold)}" for name, value in pairs]
    if more := len(rewards) - len(pairs):
        listed.append(f"{more} more")
    return ", ".join(listed)


def headline(result: TrialResult) -> str:
    """One line: the verdict and whose doing it is."""
    if result.is_tampered or result.evaded:
        return _distrust(result)
    if result.category == "reward" and result.verdict is not None:
        relation = "reaches" if result.verdict.passed else "is below"
        step = None if result.verdict.passed else first_failed(result)
        where = f" (step {step.name} failed first)" if step else ""
        return (
            f"reward {_deciding(result.verdict)} {relation} the threshold"
            f" {shown(result.threshold)}{where}"
        )
    faults = [fault for work in result.works for fault in work.faults]
    phases = {"agent": ("agent_setup", "agent"), "task": ("verifier",)}
    wanted = phases.get(result.category or "", ())
    first = next((fault for fault in faults if fault.phase in wanted), next(iter(faults), None))
    blame = {
        "agent": "agent fault",
        "task": "task fault: no valid reward",
        "environment": "environment fault",
    }.get(result.category or "", "no result")
    return f"{blame}: {_short_of(first.message)}" if first else blame


def integrity_lines(work: Work) -> Iterator[str]:
    """A line for each suspicious finding, and one for how it was graded where that is unusual."""
    if work.integrity is None:
        return
    found = work.integrity.suspicious
    for one in found[:_SHOWN_FINDINGS]:
        undone = "; undone before grading" if one.remedied else ""
        yield f"integrity: {_short_of(one.message)} ({one.code}{undone})"
    if more := len(found) - _SHOWN_FINDINGS:
        yield from [f"integrity: {more} more, all in result.json"] if more > 0 else []


def refusals_line(result: TrialResult) -> str:
    """One line: how much the network refused, and what most often; empty for nothing."""
    total = sum(phase.count for phase in result.refusals)
    if not total:
        return ""
    phases = " and ".join(dict.fromkeys(one.phase.replace("_", " ") for one in result.refusals))
    listed = [one for phase in result.refusals for one in phase.refused]
    most = sorted(listed, key=lambda one: -one.count)[:_SHOWN_REFUSALS]
    named = ", ".join(f"{one}{f' ×{one.count}' if one.count > 1 else ''}" for one in most)
    what = "refused connection" if total == 1 else "refused connections"
    where = f"the {phases} {'phases' if ' and ' in phases else 'phase'}"
    return f"network: {total} {what} in {where}, as {named}; all in network.json"


def _distrust(result: TrialResult) -> str:
    """Why a trial does not pass, though its reward would do or there is none."""
    first = next((one for one in result.tampering if not one.remedied), result.tampering[0])
    reason = f"{_short_of(first.message)} ({first.code})"
    if result.verdict is None:
        return f"no verdict on a box that was tampered with, so not passed: {reason}"
    earned = f"reward {_deciding(result.verdict)}"
    return f"{earned} is not trusted (--harbor-on-tamper=fail): {reason}"


def _tests(work: Work) -> Iterator[str]:
    report = work.ctrf
    if report is None:
        return
    yield f"verifier's tests: {report.failed} of {report.tests} failed"
    for test in report.failed_tests[:_SHOWN_TESTS]:
        yield f"  FAILED {test.name}"
        text = test.message or test.trace
        yield from (f"    {line}" for line in _last_lines(text or "", 6))
    if (more := report.failed - min(len(report.failed_tests), _SHOWN_TESTS)) > 0:
        yield f"  … and {more} more"


def _tails(folder: Path, agent_name: str) -> Iterator[str]:
    yield from _tail("verifier output", folder / "verifier" / "test-stdout.txt")
    names = dict.fromkeys((f"{agent_name}.txt", "oracle.txt", "command.txt"))
    logs = [folder / "agent" / name for name in names]
    for log in [log for log in logs if log.is_file()][:1]:
        yield from _tail("agent output", log)


def _tail(title: str, path: Path) -> Iterator[str]:
    lines = _last_lines(read_tail(path, _TAIL_BYTES), _TAIL_LINES)
    if lines:
        yield f"---- {title} ({_short(path)}, last {in_number(len(lines), 'lines')}) ----"
        yield from lines


def _last_lines(text: str, count: int) -> list[str]:
    # A terminal shows of a line what comes after the last return: progress bars end there.
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.strip("\n").split("\n")]
    shown_lines = [_ESCAPES.sub("", line).rstrip() for line in lines[-count:]]
    return [
        line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…"
        for line in shown_lines
        if line
    ]


def _short_of(message: str) -> str:
    """A message of any length, without its middle if need be."""
    if len(message) <= 2 * _MESSAGE_CHARS:
        return message
    cut = len(message) - 2 * _MESSAGE_CHARS
    return f"{message[:_MESSAGE_CHARS]}\n… {cut} characters …\n{message[-_MESSAGE_CHARS:]}"


def _printable(text: str) -> str:
    """Text that does nothing to a terminal but to stand there."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for char in _ESCAPES.sub("", text)
    )


def _times(work: Work) -> str:
    phases = [
        f"{phase.replace('_', ' ')} {timing.seconds:.1f} s"
        for phase, timing in work.timings.items()
    ]
    return "time: " + ", ".join(phases) if phases else ""


def _short(path: Path) -> str:
    try:
        return os.path.relpath(path)
    except ValueError:
        return str(path)
