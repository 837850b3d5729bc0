"""The command ``traces``: what agents did in finished jobs, as lines for training and analysis."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    add("--agent", action="append", default=[], metavar="NAME", help="only this agent; repeatable")
    add("--model", action="append", default=[], metavar="NAME", help="only this model; repeatable")
    add("--with-info", action="store_true", help="chats also tell their trial, in `metadata`")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the lines and say what was left out; 5 and no file where there is no line."""
    from pytest_harbor.errors import OptionError
    from pytest_harbor.report.conversations import Selection
    from pytest_harbor.report.files import write_lines
    from pytest_harbor.report.job import read_job

    if arguments.with_info and arguments.format != "chat":
        raise OptionError("--with-info: is for --format=chat; a trace has its `info` anyway")
    trials = [trial for path in arguments.jobs for trial in read_job(path).trials]
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
    sys.stderr.write(_told(arguments.output, written, selection) + "\n")
    return 0 if written else _NOTHING


def _filters(arguments: argparse.Namespace) -> Any:
    from pytest_harbor.report.conversations import Filters

    return Filters(
        min_reward=arguments.min_reward,
        max_reward=arguments.max_reward,
        reward_key=arguments.reward_key,
        passed=arguments.passed,
        agents=arguments.agent,
        models=arguments.model,
    )


def _lines(
    selection: Selection, trials: Sequence[Trial], arguments: argparse.Namespace
) -> Iterator[str]:
    from pytest_harbor.report.conversations import grade_of
    from pytest_harbor.report.data import plain
    from pytest_harbor.report.traces import json_line, jsonl_lines

    taken = selection.trials(trials)
    if arguments.format == "trace":
        yield from jsonl_lines(one for one in taken if selection.by_grade(grade_of(one)))
        return
    for trial in taken:
        for chat in selection.conversations(trial):
            if not arguments.with_info:
                del chat["metadata"]
            yield json_line(plain(chat))


def _told(path: Path, written: int, selection: Selection) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in selection.left_out.most_common())
    left_out = f"; left out: {reasons}" if reasons else ""
    if not written:
        return f"{path}: not written, there is no line for it{left_out}"
    return f"{path}: {written} line{'s' if written > 1 else ''}{left_out}"


def _reward(value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise argparse.ArgumentTypeError(f"expected a number, got {value!r}")
    return found
