"""Options for datasets by name: which, from where, and which of their tasks."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_harbor.plugin.ini import absolute_path
from pytest_harbor.plugin.option_values import non_empty


def dataset_name(text: str) -> str:
    """Check the form of a dataset's name."""
    from pytest_harbor.dataset.spec import parse_dataset

    return _checked(text, parse_dataset)


def hub_url(text: str) -> str:
    """Check the address of a Hub."""
    from pytest_harbor.dataset.hub import check_address

    return _checked(text, check_address)


def registry_place(text: str) -> str:
    """Check the place of a registry."""
    from pytest_harbor.dataset.place import parse_place

    return _checked(non_empty(text), lambda place: parse_place(place, Path()))


def max_size(text: str) -> int:
    """Check a size; in bytes."""
    from pytest_harbor.dataset.room import parse_size

    try:
        return parse_size(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a size such as 50G, 1.5T or 800M, got {text!r}"
        ) from None


def _checked(text: str, check: Callable[[str], object]) -> str:
    from pytest_harbor.errors import DatasetError

    try:
        check(text.strip())
    except DatasetError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text.strip()


ROWS: tuple[tuple[Any, ...], ...] = (
    (
        "--harbor-dataset",
        "Dataset to run, repeatable: NAME[@VERSION] of a registry, a git repository "
        "(HOST/ORG/NAME[@REF], a URL, git+ORG/NAME), ORG/NAME[@REF] of a Hub, or ./FOLDER with a "
        "dataset.toml",
        dataset_name,
        "args",
        "ID",
    ),
    (
        "--harbor-registry",
        "Where datasets NAME[@VERSION] are looked up: a registry.json, its folder or URL, or a "
        "git repository that has one (default: Harbor's public registry)",
        registry_place,
        "string",
        "PATH_OR_URL",
    ),
    (
        "--harbor-hub",
        "Address of the Hub that has the datasets ORG/NAME (default: the variable "
        "HARBOR_SUPABASE_URL)",
        hub_url,
        "string",
        "URL",
    ),
    (
        "--harbor-dataset-max-size",
        "The most that a dataset's tasks may take on the disk, as 50G or 1.5T; a download that "
        "would take more ends the run before its first trial (default: 50G)",
        max_size,
        "string",
        "SIZE",
    ),
    (
        "--harbor-locked",
        "Run what an earlier job ran, with its datasets' tasks as they were pinned then; a run "
        "that is not the same ends before its first trial and says what differs",
        non_empty,
        "string",
        "JOB",
    ),
    (
        "--harbor-exclude-tasks",
        "Tasks to leave out of what --harbor-tasks keeps, repeatable, as there",
        non_empty,
        "args",
        "GLOB",
    ),
)
"""Rows of the table of options."""


class DatasetSettings(NamedTuple):
    """Which datasets a run was asked for.

    Attributes:
        asked: Names of the datasets, without repeats.
        registry: Where names without a ``/`` are looked up; None: Harbor's public registry.
        hub: Address of the Hub; None: of the environment.
        exclude: Glob patterns of tasks to leave out.
        is_of_line: The datasets stand on the command line, and are all that is run there
            unless paths stand beside them.
        base: Folder from which a dataset's relative path counts.
        registry_base: The same of the registry's.
        locked: Folder of the job that this run is to be the same as.
        max_size: The most that one dataset may take on the disk, in bytes; None: the usual.
    """

    asked: tuple[str, ...] = ()
    registry: str | None = None
    hub: str | None = None
    exclude: tuple[str, ...] = ()
    is_of_line: bool = False
    base: Path = Path()
    registry_base: Path = Path()
    locked: Path | None = None
    max_size: int | None = None


def dataset_settings(config: pytest.Config, value: Mapping[str, Any]) -> DatasetSettings:
    """The options' values together."""
    return DatasetSettings(
        tuple(dict.fromkeys(value["dataset"] or ())),
        value["registry"],
        value["hub"],
        tuple(dict.fromkeys(value["exclude_tasks"] or ())),
        config.getoption("harbor_dataset", None) is not None,
        _base(config, "harbor_dataset") if value["dataset"] else Path(),
        _base(config, "harbor_registry") if value["registry"] else Path(),
        absolute_path(config, "harbor_locked", value["locked"]) if value["locked"] else None,
        value["dataset_max_size"],
    )


def _base(config: pytest.Config, name: str) -> Path:
    """Where relative paths of an option count from: as for all options."""
    from_ini = config.getoption(name, None) is None and config.inipath
    return from_ini.parent if from_ini else config.invocation_params.dir
