"""The command ``new``: writes a task that passes ``--harbor-check``."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

_DESCRIPTION = "Write a small sound task to begin with: it passes `pytest --harbor-check` as it is."


def add_command(commands: Any) -> None:
    """Add the command to the subcommands of a parser; ``run`` of its namespace does the work."""
    from pytest_harbor.start.new_task import DEFAULT_IMAGE, VARIANTS

    parser: argparse.ArgumentParser = commands.add_parser(
        "new",
        help="write a new task",
        description=_DESCRIPTION,
        epilog="variants: " + "; ".join(f"{name}: {text}" for name, text in VARIANTS.items()),
    )
    parser.add_argument("folder", type=Path, metavar="NAME", help="the task's folder, as tasks/sum")
    parser.add_argument("--variant", choices=VARIANTS, default="simple", help="kind of task")
    parser.add_argument(
        "--image",
        default=DEFAULT_IMAGE,
        help=f"what it is built from, with bash (default: {DEFAULT_IMAGE})",
    )
    parser.add_argument("--org", metavar="ORG", help="makes the task the package ORG/NAME")
    parser.add_argument(
        "--author",
        action="append",
        default=[],
        metavar="'NAME <EMAIL>'",
        help="an author of the package; may repeat",
    )
    parser.add_argument(
        "--metadata",
        action="append",
        default=[],
        type=_key_and_value,
        metavar="KEY=VALUE",
        help="an entry of [metadata]; may repeat",
    )
    parser.set_defaults(run=run)


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return key.strip(), value


def run(arguments: argparse.Namespace) -> int:
    """Write the task and say what to do next; give the exit status."""
    from pytest_harbor.start.new_task import NewTask, write_task

    new = NewTask(
        arguments.folder,
        arguments.variant,
        arguments.image,
        arguments.org,
        tuple(arguments.author),
        dict(arguments.metadata),
    )
    for path in write_task(new):
        sys.stdout.write(f"{path}\n")
    # The folder above: where the task's own is named, pytest reads an ini file in it.
    above, name = new.folder.parent, new.folder.name
    chosen = f"--harbor-tasks={shlex.quote(name)}"
    sys.stdout.write(f"\nprove it: pytest --harbor-check {chosen} {shlex.quote(str(above))}\n")
    return 0
