"""The command ``schema``: prints the JSON schema of ``task.toml``."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_command(commands: Any) -> None:
    """Add the command to the subcommands of a parser; ``run`` of its namespace does the work."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "schema",
        help="print a JSON schema of task.toml",
        description="Print a JSON schema of task.toml, by which editors complete and check it.",
    )
    parser.set_defaults(run=run)


def run(_arguments: argparse.Namespace) -> int:
    """Print the schema; give the exit status."""
    import json

    from pytest_harbor.task.schema import task_schema

    sys.stdout.write(json.dumps(task_schema(), indent=2) + "\n")
    return 0
