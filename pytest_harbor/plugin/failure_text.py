"""What a user reads when a trial did not pass: why first, then all that helps."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_harbor.trial.logs import read_tail

if TYPE_CHECKING:
    from pytest_harbor.result.trial import TrialResult

_TAIL_LINES = 20
_TAIL_BYTES = 8 * 1024
_LINE_CHARS = 500
_SHOWN_TESTS = 10


def failure_text(item: pytest.Item, result: TrialResult, *, kept: str = "") -> str:
    """The whole text, bounded whatever the logs hold.

    Args:
        item: The trial's item.
        result: Its result.
        kept: How to enter and remove the environment, where it is kept.
    """
    parts = [headline(result), *_rewards(result), *_faults(result), *_statuses(result)]
    parts += [f"note: {finding}" for finding in result.findings]
    task = getattr(item, "task", None)
    parts += [f"note: {problem}" for problem in (task.problems if task else ())]
    parts += _tests(result)
    parts += _tail("verifier output", result.trial_dir / "verifier" / "test-stdout.txt")
    parts += [part for log in _agent_logs(result) for part in _tail("agent output", log)]
    parts += [_times(result), f"logs: {_short(result.trial_dir)}"]
    if kept:
        parts.append(kept)
    parts.append(f"run again: {again(item)}")
    return "\n".join(part for part in parts if part)


def headline(result: TrialResult) -> str:
    """One line: the verdict and whose doing it is."""
    if result.category == "reward" and result.verdict is not None:
        relation = "reaches" if result.verdict.passed else "is below"
        shown = ", ".join(
            f"{value:g}" if name == "reward" else f"{name}={value:g}"
            for name, value in result.verdict.deciding.items()
        )
        return f"reward {shown} {relation} the threshold {result.threshold:g}"
    first = {
        "agent": result.fault("agent_setup") or result.fault("agent"),
        "task": result.fault("verifier"),
    }.get(result.category or "") or next(iter(result.faults), None)
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
        takes_next = not equals and name not in (
            "--harbor-rebuild",
            "--harbor-strict",
            "--harbor-keep",
        )
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


def _rewards(result: TrialResult) -> Iterator[str]:
    if result.reward is not None:
        shown = ", ".join(f"{name}={value:g}" for name, value in result.rewards.items())
        yield f"rewards: {shown} (from {result.reward.source})"


def _faults(result: TrialResult) -> Iterator[str]:
    for fault in result.faults:
        if fault.message not in headline(result):
            yield f"{fault.phase}: {fault.message}"


def _statuses(result: TrialResult) -> Iterator[str]:
    if result.agent_exit_code is not None:
        yield f"agent exit status: {result.agent_exit_code}"
    if result.verifier_exit_code is not None:
        yield f"verifier exit status: {result.verifier_exit_code}"


def _tests(result: TrialResult) -> Iterator[str]:
    report = result.ctrf
    if report is None:
        return
    yield f"verifier's tests: {report.failed} of {report.tests} failed"
    for test in report.failed_tests[:_SHOWN_TESTS]:
        yield f"  FAILED {test.name}"
        text = test.message or test.trace
        yield from (f"    {line}" for line in _last_lines(text or "", 6))
    if (more := report.failed - min(len(report.failed_tests), _SHOWN_TESTS)) > 0:
        yield f"  … and {more} more"


def _agent_logs(result: TrialResult) -> list[Path]:
    names = (f"{result.agent_name}.txt", "oracle.txt", "command.txt")
    folder = result.trial_dir / "agent"
    return [folder / name for name in dict.fromkeys(names) if (folder / name).is_file()][:1]


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


def _times(result: TrialResult) -> str:
    shown = [
        f"{phase.replace('_', ' ')} {timing.seconds:.1f} s"
        for phase, timing in result.timings.items()
    ]
    return "time: " + ", ".join(shown) if shown else ""


def _short(path: Path) -> str:
    try:
        return os.path.relpath(path)
    except ValueError:
        return str(path)
