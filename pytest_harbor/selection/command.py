"""The command ``select``: choose among the attempts of a job that has run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

_DESCRIPTION = (
    "Choose one of the attempts at each task of a job's folder, as --harbor-best-of does at a"
    " run's end. The choice is kept in the job's folder; no verdict changes."
)


_INTERRUPTED = 130  # as shells have it


def add_command(commands: Any) -> None:
    """Add the command to the subcommands of a parser; ``run`` of its namespace does the work."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "select", help="choose the best of several attempts", description=_DESCRIPTION
    )
    parser.add_argument("job", type=Path, metavar="JOB", help="the job's folder")
    parser.add_argument(
        "--by",
        required=True,
        metavar="BY",
        help="who chooses: reward, reward:KEY, judge, package.module:name or an entry point",
    )
    parser.add_argument(
        "--kwarg",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="keyword argument for who chooses, repeatable; JSON, else text",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="a further copy")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Choose, write and tell; 4 where something could not be chosen, though it was there.

    130 where it was interrupted: what was chosen until then is kept.
    """
    from pytest_harbor.report.job import read_job
    from pytest_harbor.selection import record
    from pytest_harbor.selection.choose import select
    from pytest_harbor.selection.find import find_selector
    from pytest_harbor.selection.lines import lines, title

    selector = find_selector(
        arguments.by, _kwargs(arguments.kwarg), folder=Path.cwd(), option="--by"
    )
    if arguments.output is not None:
        record.check_file(arguments.output)
    job = read_job(arguments.job)
    selection = select(job, selector, record.Kept(job.path, selector))
    kept = record.keep(selection)
    if arguments.output is not None:
        record.write(selection, arguments.output)
    told = [f"{title(selection)}:", *lines(selection), f"selection: {kept}"]
    sys.stdout.write("".join(f"{line}\n" for line in told))
    if selection.is_interrupted:
        return _INTERRUPTED
    return 4 if selection.problems else 0


def _kwargs(pairs: list[str]) -> dict[str, Any]:
    import json

    from pytest_harbor.errors import OptionError

    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip().isidentifier():
            raise OptionError(f"--kwarg: expected KEY=VALUE, got {pair!r}")
        try:
            found[key.strip()] = json.loads(value)
        except ValueError:
            found[key.strip()] = value
    return found
