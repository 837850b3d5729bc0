"""Options for runs on a pull request: which tasks, whose code, and where findings are shown."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from pytest_harbor.plugin.ini import absolute_path, ini_place
from pytest_harbor.plugin.option_values import non_empty

ANNOTATION_CHOICES = ("github", "gitlab", "auto", "off")
ANNOTATIONS = "harbor_annotations"
ANNOTATIONS_HELP = (
    "Show findings and failures beside the code: =github (workflow commands), =gitlab (a Code "
    "Quality report), =off; alone by the service that runs it (ini: harbor_annotations = "
    "github|gitlab|auto|off; default: off)"
)
GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Variable with the file that GitHub shows on a job's page."""

Annotations = Literal["github", "gitlab"]


ROWS: tuple[tuple[Any, ...], ...] = (
    (
        "--harbor-changed-since",
        "Only tasks with changes since this git revision: committed since HEAD parted from it, "
        "staged, unstaged or not yet added",
        non_empty,
        "string",
        "REV",
    ),
    (
        "--harbor-shared-path",
        "File or folder that tasks share, repeatable, as a line of a .gitignore: a change in it "
        "is one of every task below the folder that holds it",
        non_empty,
        "args",
        "PATTERN",
    ),
    (
        "--harbor-summary",
        "After the run write a summary in Markdown (default: the job page's own file where "
        "annotations are GitHub's)",
        non_empty,
        "string",
        "FILE",
    ),
    (
        "--harbor-untrusted",
        "Tasks of strangers: collect nothing but tasks; no conftest.py, __init__.py, Python test "
        "or doctest is run. Needs -c with a configuration of your own",
        None,
        "bool",
    ),
)
"""Rows of the table of options."""


def add_options(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Declare what is no row: in ``--harbor-annotations tasks/`` the folder is no value."""
    flags = {"--harbor-annotations": "auto"}
    flags |= {f"--harbor-annotations={one}": one for one in ANNOTATION_CHOICES}
    for flag, choice in flags.items():
        text = argparse.SUPPRESS if "=" in flag else ANNOTATIONS_HELP
        group.addoption(
            flag, dest=ANNOTATIONS, action="store_const", const=choice, default=None, help=text
        )
    parser.addini(ANNOTATIONS, ANNOTATIONS_HELP, type="string", default=None)


class CiSettings(NamedTuple):
    """What a run on a pull request was asked for.

    Attributes:
        changed_since: Only tasks that changed since this revision; None: all.
        shared: Patterns of files and folders that tasks share, as in ``.gitignore``.
        annotations: The kind of annotations to write; None: none.
        summary: File for the Markdown summary; None: none.
        untrusted: Nothing but tasks is collected.
    """

    changed_since: str | None = None
    shared: tuple[str, ...] = ()
    annotations: Annotations | None = None
    summary: Path | None = None
    untrusted: bool = False


def annotations_for(choice: str | None) -> Annotations | None:
    """The kind of annotations; ``auto`` goes by the variables that each service sets."""
    if choice == "auto":
        services: tuple[tuple[str, Annotations], ...] = (
            ("GITHUB_ACTIONS", "github"),
            ("GITLAB_CI", "gitlab"),
        )
        return next((kind for name, kind in services if os.environ.get(name) == "true"), None)
    if choice == "github":
        return "github"
    return "gitlab" if choice == "gitlab" else None


def ci_settings(config: pytest.Config, value: Mapping[str, Any]) -> CiSettings:
    """The options' values.

    Raises:
        pytest.UsageError: The summary's file is a folder, or the ini file has another value.
    """
    choice = annotation_choice(config)
    if choice not in (None, *ANNOTATION_CHOICES):
        expected = ", ".join(ANNOTATION_CHOICES)
        raise pytest.UsageError(
            f"{ini_place(config)}{ANNOTATIONS}: expected one of {expected}, got {choice!r}"
        )
    annotations = annotations_for(choice)
    summary = None
    if value["summary"]:
        summary = absolute_path(config, "harbor_summary", value["summary"])
    elif annotations == "github" and os.environ.get(GITHUB_SUMMARY):
        summary = Path(os.environ[GITHUB_SUMMARY])
    if summary is not None and summary.is_dir():
        raise pytest.UsageError(f"--harbor-summary: expected a file, {summary} is a folder")
    return CiSettings(
        changed_since=value["changed_since"],
        shared=tuple(dict.fromkeys(value["shared_path"] or ())),
        annotations=annotations,
        summary=summary,
        untrusted=bool(value["untrusted"]),
    )


def annotation_choice(config: pytest.Config) -> str | None:
    """The command line's value, else the ini file's, as it is; None where there is neither."""
    given: str | None = config.getoption(ANNOTATIONS, None) or config.getini(ANNOTATIONS)
    return given or None
