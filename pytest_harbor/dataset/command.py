"""The command ``cache``: what was downloaded for datasets, listed and removed."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from pytest_harbor.task.plural import in_number

if TYPE_CHECKING:
    from pytest_harbor.dataset.cache import EntryReading

_DAY = 86400.0


def add_command(commands: Any) -> None:
    """Add the command to the subcommands of a parser; ``run`` of its namespace does the work."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "cache",
        help="list and remove downloaded datasets",
        description="List and remove what was downloaded for datasets.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the tasks, last used first")
    listing.set_defaults(run=run_list)
    clean = actions.add_parser(
        "clean", help="remove tasks", description="Remove tasks: by default all of them."
    )
    clean.add_argument(
        "--unused-for", type=_days, metavar="DAYS", help="only what no run used for so many days"
    )
    clean.add_argument(
        "--changed", action="store_true", help="only what was changed since it was downloaded"
    )
    clean.add_argument("--force", action="store_true", help="also while a run uses the cache")
    clean.set_defaults(run=run_clean)


def run_list(arguments: argparse.Namespace) -> int:
    """Print the tasks, one a line, and the sum."""
    from pytest_harbor.dataset.cache import Cache, days_ago

    cache = Cache()
    entries = cache.entries()
    for one in entries:
        sys.stdout.write(f"{one.source}  {_size(one.bytes)}  used {days_ago(one.used)}\n")
    total = _size(sum(one.bytes for one in entries))
    sys.stdout.write(f"{in_number(len(entries), 'tasks')}, {total} in {cache.root}\n")
    return 0


def run_clean(arguments: argparse.Namespace) -> int:
    """Remove what was asked for; nothing while a run uses the cache."""
    from pytest_harbor.dataset.cache import Cache
    from pytest_harbor.dataset.leftovers import forget_locks, sweep
    from pytest_harbor.errors import OptionError

    cache = Cache()
    if not arguments.force and (users := cache.users()):
        raise OptionError(
            f"{users} {'runs use' if users > 1 else 'run uses'} the cache {cache.root} now; wait, "
            "or take --force"
        )
    chosen = [one for one in cache.entries() if _is_chosen(one, arguments)]
    for one in chosen:
        cache.remove(one)
    sweep(cache.root)
    if not (arguments.changed or arguments.unused_for is not None):
        cache.forget_notes()
        forget_locks(cache.root)
    freed = _size(sum(one.bytes for one in chosen))
    sys.stdout.write(f"removed {in_number(len(chosen), 'tasks')}, {freed} of {cache.root}\n")
    return 0


def _is_chosen(entry: EntryReading, arguments: argparse.Namespace) -> bool:
    from pytest_harbor.dataset.cache import is_changed

    if arguments.changed and not is_changed(entry):
        return False
    return arguments.unused_for is None or time.time() - entry.used > arguments.unused_for * _DAY


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < 1e6:
        raise argparse.ArgumentTypeError(f"expected a number of days, got {text!r}")
    return days


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
