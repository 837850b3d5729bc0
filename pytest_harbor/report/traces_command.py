"""The command ``traces``: what agents did in finished jobs, as lines for training and analysis."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_harbor.task.plural import in_number, number_of

if TYPE_CHECKING:
    from pytest_harbor.report.conversations import Selection
    from pytest_harbor.report.trial import Trial

_DESCRIPTION = (
    "Write what agents did as JSON lines: whole trials, or chats for fine-tuning. Trials without"
    " a verdict, with signs of tampering, or that were run again are left out."
)
_NOTHING = 5  # as pytest's, where nothing was collected


def add_command(commands: Any) -> None:
    """Add the command to the subcommands of a parser; ``run`` of its namespace does the work."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "traces", help="write trials for training and analysis", description=_DESCRIPTION
    )
    add = parser.add_argument
    add("jobs", type=Path, nargs="+", metavar="JOB", help="a job's folder")
    add("-o", "--output", type=Path, metavar="FILE", required=True, help="the file to write")
    add("--format", choices=("trace", "chat"), default="trace", help="form of a line")
    add("--min-reward", type=_reward, metavar="X", help="leave out lower rewards")
    add("--max-reward", type=_reward, metavar="X", help="leave out higher rewards")
    add("--reward-key", metavar="K", help="key of the reward that the limits are for")
    add("--passed", action="store_true", help="only what reached the threshold")
    add("--selected", action="store_true", help="only what the last selection chose (best of n)")
    add("--agent", action="append", default=[], metavar="NAME", help="only this agent; repeatable")
    add("--model", action="append", default=[], metavar="NAME", help="only this model; repeatable")
    add("--with-info", action="store_true", help="chats also tell their trial, in `metadata`")
    add("--with-tokens", action="store_true", help="traces also have token ids and logprobs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the lines and say what was left out; 5 and no file where there is no line."""
    from pytest_harbor.errors import OptionError
    from pytest_harbor.report.conversations import Selection
    from pytest_harbor.report.files import write_lines
    from pytest_harbor.report.job import read_job

    if arguments.with_info and arguments.format != "chat":
        raise OptionError("--with-info: is for --format=chat; a trace has its `info` anyway")
    if arguments.with_tokens and arguments.format != "trace":
        raise OptionError("--with-tokens: is for --format=trace; a chat has no place for tokens")
    jobs = [read_job(path) for path in arguments.jobs]
    for job in jobs if arguments.selected else ():
        if not job.selection:
            raise OptionError(
                f"--selected: nothing was chosen in {job.path}; choose first, as with"
                f" `python -m pytest_harbor select {job.path} --by reward`"
            )
    trials = [trial for job in jobs for trial in job.trials]
    selection = Selection(_filters(arguments))
    lines = _lines(selection, trials, arguments)
    written = 0

    def counted() -> Iterator[str]:
        nonlocal written
        for written, line in enumerate(chain(first, lines), 1):  # noqa: B007 - the count is used
            yield line

    first = list(islice(lines, 1))
    if first:
        write_lines(arguments.output, counted())
    problems = [f"{job.path}: {problem}" for job in jobs for problem in job.problems]
    for line in (*problems, *_broken(selection), _told(arguments.output, written, selection)):
        sys.stderr.write("".join(char if char.isprintable() else "?" for char in line) + "\n")
    return 0 if written else _NOTHING


def _filters(arguments: argparse.Namespace) -> Any:
    from pytest_harbor.report.conversations import Filters

    return Filters(
        min_reward=arguments.min_reward,
        max_reward=arguments.max_reward,
        reward_key=arguments.reward_key,
        passed=arguments.passed,
        selected=arguments.selected,
        agents=arguments.agent,
        models=arguments.model,
    )


def _lines(
    selection: Selection, trials: Sequence[Trial], arguments: argparse.Namespace
) -> Iterator[str]:
    from pytest_harbor.report.data import plain
    from pytest_harbor.report.traces import json_line
    from pytest_harbor.result.trajectory_reader import MAX_BYTES

    taken = selection.trials(trials)
    objects = _traces if arguments.format == "trace" else _chats
    for trial, found in objects(selection, taken, arguments):
        line = json_line(plain(found))
        if len(line) > MAX_BYTES:  # which nobody could read back; the line is ASCII
            problem = f"makes a line of more than {MAX_BYTES // 1024**2} MiB, the most that is read"
            selection.leave_out(trial, "agent", "too long for a line", problem)
        else:
            yield line


def _traces(
    selection: Selection, trials: Iterator[Trial], arguments: argparse.Namespace
) -> Iterator[tuple[Trial, dict[str, Any]]]:
    from pytest_harbor.report.conversations import UNREADABLE, grade_of
    from pytest_harbor.report.traces import Examples, trace

    examples = Examples()
    for trial in trials:
        if not selection.by_grade(grade_of(trial)):
            continue
        found = trace(trial, examples.number(trial), with_tokens=arguments.with_tokens)
        if problems := found["info"].get("problems"):
            where, _, problem = problems[0].partition(": ")
            selection.leave_out(trial, where, UNREADABLE, problem)
        else:
            yield trial, found


def _chats(
    selection: Selection, trials: Iterator[Trial], arguments: argparse.Namespace
) -> Iterator[tuple[Trial, dict[str, Any]]]:
    for trial in trials:
        for chat in selection.conversations(trial):
            if not arguments.with_info:
                del chat["metadata"]
            yield trial, chat


def _broken(selection: Selection) -> Iterator[str]:
    yield from selection.broken
    if selection.unnamed:
        yield f"and {selection.unnamed} more that cannot be used"


def _told(path: Path, written: int, selection: Selection) -> str:
    counts = selection.left_out.most_common()
    reasons = ", ".join(in_number(count, reason) for reason, count in counts)
    left_out = f"; left out: {reasons}" if reasons else ""
    if not written:
        return f"{path}: not written, there is no line for it{left_out}"
    return f"{path}: {number_of(written, 'line')}{left_out}"


def _reward(value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise argparse.ArgumentTypeError(f"expected a number, got {value!r}")
    return found
