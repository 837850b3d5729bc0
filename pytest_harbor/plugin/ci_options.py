"""Options for runs on a pull request: which tasks, whose code, and where findings are shown."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from pytest_harbor.plugin.ini import absolute_path
from pytest_harbor.plugin.option_values import non_empty

ANNOTATION_CHOICES = ("github", "gitlab", "auto", "off")
GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Variable with the file that GitHub shows on a job's page."""

Annotations = Literal["github", "gitlab"]


def annotation_choice(text: str) -> str:
    """Check for one of :data:`ANNOTATION_CHOICES`."""
    if text not in ANNOTATION_CHOICES:
        raise argparse.ArgumentTypeError(
            f"expected 'github', 'gitlab', 'auto' or 'off', got {text!r}; "
            "write the value behind an equals sign: --harbor-annotations=github"
        )
    return text


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
        "--harbor-annotations",
        "Show findings and failures beside the code: github (workflow commands), gitlab (a Code "
        "Quality report), off, or auto, which goes by the service that runs it (default: off)",
        annotation_choice,
        "string",
        "github|gitlab|auto|off",
        None,
        "auto",
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
        pytest.UsageError: The summary's file is a folder.
    """
    annotations = annotations_for(value["annotations"])
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


def is_given(config: pytest.Config, name: str) -> Any:
    """A value before all options are checked: the command line's, else the ini file's."""
    given = config.getoption(name, None)
    return config.getini(name) if given is None else given
