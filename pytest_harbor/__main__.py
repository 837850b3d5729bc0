"""``python -m pytest_harbor COMMAND``: what is done before or after runs, without pytest."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from pytest_harbor.errors import HarborError

# In the order of the help. Each module has add_command(commands): it adds its parser and
# sets ``run``, which takes the namespace and gives the exit status. It imports what its
# command needs when that runs.
COMMANDS = (
    "pytest_harbor.start.new_command",
    "pytest_harbor.start.schema_command",
    "pytest_harbor.clean.command",
    "pytest_harbor.report.command",
    "pytest_harbor.report.traces_command",
    "pytest_harbor.selection.command",
    "pytest_harbor.trial.kept_command",
    "pytest_harbor.dataset.command",
)

_USAGE_ERROR = 4  # as pytest's
_INTERRUPTED = 130  # as shells have it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status."""
    namespace = make_parser().parse_args(arguments)
    try:
        status: int = namespace.run(namespace)
        sys.stdout.flush()
    except HarborError as error:
        sys.stderr.write(f"error: {error}\n")
        return _USAGE_ERROR
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED
    except BrokenPipeError:  # as of `… schema | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def make_parser() -> argparse.ArgumentParser:
    """Give the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_harbor",
        description="Harbor tasks beside pytest; `pytest --help` lists the options of runs.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in COMMANDS:
        import_module(module).add_command(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
