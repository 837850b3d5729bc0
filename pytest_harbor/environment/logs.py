"""The logs of a box, brought home."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from pytest_harbor.environment.base import DownloadReport, Environment
from pytest_harbor.errors import TransferError
from pytest_harbor.task.layout import LOGS_DIR

_NAMED = 20
_TRIES = 3


def bring_logs_home(
    environment: Environment,
    homes: Mapping[str, Path],
    landing: Path,
    filter_data: Callable[[BinaryIO], BinaryIO],
) -> list[str]:
    """Copy folders below ``/logs`` home; what lies there already is never replaced.

    Args:
        environment: The box.
        homes: Name of a folder below ``/logs`` to its place on this machine.
        landing: Folder for the time being, on the same disk; is gone afterwards.
        filter_data: Takes secrets out of each file.

    Returns:
        What was left out and why, one sentence each.
    """
    # What an earlier box left half-way must never be taken for this one's.
    shutil.rmtree(landing, ignore_errors=True)
    # One folder alone may lie elsewhere than its neighbours: in a view that has its own.
    only = next(iter(homes)) if len(homes) == 1 else ""
    source, place = (f"{LOGS_DIR}/{only}", landing / only) if only else (LOGS_DIR, landing)
    try:
        found = _download(environment, source, place, filter_data)
        for name, home in homes.items():
            _merge(landing / name, home)
    except FileNotFoundError:
        return [f"{source} is gone from the environment"]
    finally:
        shutil.rmtree(landing, ignore_errors=True)
    findings = [
        f"{source}/{name} was not copied: {reason}"
        for name, reason in sorted(found.skipped.items())[:_NAMED]
    ]
    if not found.complete:
        findings.append(f"{source} holds more than is copied; the rest was left out")
    return findings


def _download(
    environment: Environment, source: str, place: Path, filter_data: Callable[[BinaryIO], BinaryIO]
) -> DownloadReport:
    """Copy a folder; a file that shrinks meanwhile breaks off the engine's archive."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return environment.download(source, place, filter_data=filter_data)
        except TransferError:
            if not tries_left:
                raise
            shutil.rmtree(place, ignore_errors=True)
    raise AssertionError("unreachable: the last try returns or raises")


def _merge(source: Path, target: Path) -> None:
    """Move the content of one folder into another; existing files stay as they are."""
    if not source.is_dir():
        return
    target.mkdir(parents=True, exist_ok=True)
    for entry in sorted(source.iterdir()):
        place = target / entry.name
        if not place.exists() and not place.is_symlink():
            entry.replace(place)
        elif entry.is_dir() and place.is_dir():
            _merge(entry, place)
