"""The command ``clean``: lists what runs left on the engine, and removes it when told to."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_harbor.clean.choice import Wishes, choose

if TYPE_CHECKING:
    from pytest_harbor.environment.docker.client import Engine
    from pytest_harbor.environment.docker.leftovers import Leftover

_DESCRIPTION = (
    "List everything of this package's on the container engine: containers, networks, volumes and"
    " images, with age, size and run, and what would become of it. With --yes, remove what runs"
    " left that have ended. What a running job uses always stays."
)
_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0}


def add_command(commands: Any) -> None:
    """Add the command to the subcommands of a parser; ``run`` of its namespace does the work."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "clean", help="list and remove what is left on the engine", description=_DESCRIPTION
    )
    parser.add_argument("--yes", action="store_true", help="remove, instead of listing alone")
    parser.add_argument(
        "--images", action="store_true", help="images, too: of tasks, agents and the gateway"
    )
    parser.add_argument("--kept", action="store_true", help="what --harbor-keep kept, too")
    parser.add_argument(
        "--foreign",
        action="store_true",
        help="also what other machines or containers made, whose processes are not seen here",
    )
    parser.add_argument(
        "--older-than", type=_age, default=0.0, metavar="AGE", help="as 90m, 12h or 7d"
    )
    parser.add_argument("--run", dest="of_run", metavar="ID", help="only what one run made")
    parser.set_defaults(run=run)


def _age(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([mhd])", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"expected an age as 90m, 12h or 7d, got {text!r}")
    return float(match[1]) * _UNITS[match[2]]


def run(arguments: argparse.Namespace) -> int:
    """List, and remove where told to; give the exit status."""
    from pytest_harbor.environment.docker.client import Engine
    from pytest_harbor.environment.docker.leftovers import leftovers

    wishes = Wishes(
        arguments.images,
        arguments.kept,
        arguments.foreign,
        arguments.older_than,
        arguments.of_run,
    )
    engine = Engine.connect()
    try:
        now = time.time()
        chosen = list(choose(leftovers(engine), wishes, now))
        outcome = [(one, _outcome(engine, one, reason, arguments.yes)) for one, reason in chosen]
    finally:
        engine.close()
    for line in _lines(outcome, now):
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(_closing([one for one, reason in chosen if not reason], arguments.yes))
    return 0


def _outcome(engine: Engine, thing: Leftover, reason: str, remove: bool) -> str:
    from pytest_harbor.environment.docker.reaper import remove_leftover

    if reason:
        return f"stays: {reason}"
    if not remove:
        return "goes with --yes"
    is_removed = remove_leftover(engine, thing.kind, thing.id)
    return "removed" if is_removed else "stays: something still uses it"


def _lines(outcome: Sequence[tuple[Leftover, str]], now: float) -> list[str]:
    rows = [
        (one.kind, one.name, _duration(now - one.created), _size(one.size), one.run, text)
        for one, text in outcome
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _closing(going: Sequence[Leftover], removed: bool) -> str:
    if not going:
        return "nothing to remove\n"
    size = sum(one.size or 0 for one in going)
    of_images = f", images of {_size(size)} with what they share" if size else ""
    verb = "tried to remove" if removed else "would remove"
    remedy = "" if removed else "; --yes does it"
    return f"{verb} {len(going)}{of_images}{remedy}\n"


def _duration(seconds: float) -> str:
    for unit in ("d", "h"):
        if seconds >= _UNITS[unit]:
            return f"{seconds / _UNITS[unit]:.0f} {unit}"
    return f"{max(seconds, 0) / _UNITS['m']:.0f} m"


def _size(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:,.0f} MB"
