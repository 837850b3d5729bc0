"""What a user reads when a trial did not pass: why first, then all that helps."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_harbor.plugin.options import takes_a_word
from pytest_harbor.trial.logs import read_tail

if TYPE_CHECKING:
    from pytest_harbor.result.reward import Verdict
    from pytest_harbor.result.trial import StepResult, TrialResult, Work

_TAIL_LINES = 20
_TAIL_BYTES = 8 * 1024
_LINE_CHARS = 500
_SHOWN_TESTS = 10
_SOURCES = {"steps": "all steps together"}


def failure_text(item: pytest.Item, result: TrialResult, *, kept: str = "") -> str:
    """The whole text, bounded whatever the logs hold.

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
    parts += _evidence(result)
    parts += [_times(result), f"logs: {_short(result.trial_dir)}"]
    if kept:
        parts.append(kept)
    parts.append(f"run again: {again(item)}")
    return "\n".join(part for part in parts if part)


def step_text(result: TrialResult, step: StepResult) -> str:
    """What is shown of one step."""
    parts = [step_headline(step), *_work_lines(step, step_headline(step)), *_tests(step)]
    folder = result.trial_dir / "steps" / step.name
    parts += [*_tails(folder, result.agent_name), _times(step), f"logs: {_short(folder)}"]
    return "\n".join(part for part in parts if part)


def step_headline(step: StepResult) -> str:
    """One line: what the step earned, or why it earned nothing."""
    if step.unmet:
        return f"step {step.name}: gate not met: {'; '.join(step.unmet)}"
    if step.verdict is not None:
        relation = "reaches" if step.verdict.passed else "is below"
        return f"step {step.name}: reward {_deciding(step.verdict)} {relation} the threshold"
    first = next(iter(step.faults), None)
    return f"step {step.name}: no valid reward" + (f": {first.message}" if first else "")


def first_failed(result: TrialResult) -> StepResult | None:
    """The first step that has no reward, or not enough of it."""
    return next((step for step in result.steps if step.unmet or not step.passed), None)


def _work_lines(work: Work, said: str) -> Iterator[str]:
    """What is known of a step or a trial, without what ``said`` says already."""
    if work.reward is not None:
        shown = ", ".join(f"{name}={value:g}" for name, value in work.rewards.items())
        yield f"rewards: {shown} (from {_SOURCES.get(work.reward.source, work.reward.source)})"
    for fault in work.faults:
        if fault.message not in said:
            yield f"{fault.phase}: {fault.message}"
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
    return ", ".join(
        f"{value:g}" if name == "reward" else f"{name}={value:g}"
        for name, value in verdict.deciding.items()
    )


def headline(result: TrialResult) -> str:
    """One line: the verdict and whose doing it is."""
    if result.category == "reward" and result.verdict is not None:
        relation = "reaches" if result.verdict.passed else "is below"
        step = None if result.verdict.passed else first_failed(result)
        where = f" (step {step.name} failed first)" if step else ""
        return (
            f"reward {_deciding(result.verdict)} {relation} the threshold"
            f" {result.threshold:g}{where}"
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
    return f"{blame}: {first.message}" if first else blame


def again(item: pytest.Item) -> str:
    """The command that runs this one trial again, without secrets."""
    kept: list[str] = []
    words = iter(item.config.invocation_params.args)
    for word in words:
        text = os.fspath(word)
        name, equals, value = text.partition("=")
        if not name.startswith("--harbor-"):
            continue
        takes_next = not equals and takes_a_word(name)
        value = os.fspath(next(words, "")) if takes_next else value
        if name == "--harbor-agent-env":
            # The variable's name is enough: its value is taken from the environment.
            value = value.partition("=")[0]
        kept.append(f"{name}={value}" if equals or takes_next else name)
    return shlex.join(["pytest", _id_from_here(item), *kept])


def _id_from_here(item: pytest.Item) -> str:
    """The item's id for a command line in the folder where this run was started."""
    path, separator, name = str(item.nodeid).partition("::")
    start = item.config.invocation_params.dir
    return os.path.relpath(item.config.rootpath / path, start) + separator + name


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
        yield f"---- {title} ({_short(path)}, last {len(lines)} lines) ----"
        yield from lines


def _last_lines(text: str, count: int) -> list[str]:
    printable = "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for char in text.replace("\r\n", "\n")
    )
    return [line[:_LINE_CHARS] for line in printable.strip("\n").split("\n")[-count:] if line]


def _times(work: Work) -> str:
    shown = [
        f"{phase.replace('_', ' ')} {timing.seconds:.1f} s"
        for phase, timing in work.timings.items()
    ]
    return "time: " + ", ".join(shown) if shown else ""


def _short(path: Path) -> str:
    try:
        return os.path.relpath(path)
    except ValueError:
        return str(path)
