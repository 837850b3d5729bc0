"""The command ``report``: files of a job that has run, or still runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pytest_harbor.errors import OptionError

_DESCRIPTION = (
    "Write a report of a job's folder, which may be of a run that goes on, was cut off, or was"
    " Harbor's own. Without a file to write, say how far the job is."
)


def add_command(commands: Any) -> None:
    """Add the command to the subcommands of a parser; ``run`` of its namespace does the work."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "report", help="write a report of a job", description=_DESCRIPTION
    )
    parser.add_argument("job", type=Path, metavar="JOB", help="the job's folder")
    parser.add_argument("-o", "--html", type=Path, metavar="FILE", help="the report")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="a table of trials")
    parser.add_argument("--jsonl", type=Path, metavar="FILE", help="the trials' trajectories")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the job's numbers")
    parser.add_argument("--baseline", type=Path, metavar="JOB", help="folder of an earlier job")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write what was asked for, and say what a baseline shows; give the exit status."""
    try:
        for line in _written(arguments):
            sys.stdout.write(f"{line}\n")
    except OptionError as error:
        sys.stderr.write(f"error: {error}\n")
        return 4
    return 0


def _written(arguments: argparse.Namespace) -> list[str]:
    from pytest_harbor.report.comparison import compare, comparison_lines
    from pytest_harbor.report.dataset_metrics import metrics_of_job
    from pytest_harbor.report.files import write_lines
    from pytest_harbor.report.job import check_job, read_job
    from pytest_harbor.report.numbers_file import json_lines
    from pytest_harbor.report.page import page
    from pytest_harbor.report.tables import csv_lines
    from pytest_harbor.report.traces import jsonl_lines

    job, comparison = read_job(arguments.job), None
    lines: list[str] = []
    if arguments.baseline is not None:
        check_job(arguments.baseline)
        comparison = compare(job, read_job(arguments.baseline))
        lines += comparison_lines(comparison)
    files: dict[Path | None, Callable[[], Iterator[str]]] = {
        arguments.html: lambda: page(job, job.trials, comparison),
        arguments.csv: lambda: csv_lines(job.trials),
        arguments.jsonl: lambda: jsonl_lines(job.trials),
        arguments.json: lambda: json_lines(job, job.trials, metrics_of_job(job)),
    }
    wanted = {path: write for path, write in files.items() if path is not None}
    if not wanted and comparison is None:
        from pytest_harbor.report.status import status_lines

        lines += status_lines(job)
    for path, write in wanted.items():
        write_lines(path, write())
        lines.append(f"report: {path}")
    return lines
