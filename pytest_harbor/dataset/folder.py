"""A dataset in a folder: ``dataset.toml`` and the tasks beside it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_harbor.dataset.metric_script import script_of_file
from pytest_harbor.dataset.metrics import SCRIPT_FILE, MetricScript
from pytest_harbor.dataset.source import FolderTask, HubTask, TaskSource
from pytest_harbor.dataset.spec import parse_package
from pytest_harbor.errors import DatasetError
from pytest_harbor.task.layout import CONFIG_FILE

MANIFEST = "dataset.toml"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class FolderDataset:
    """What a folder's manifest says, with the tasks that are there.

    Attributes:
        name: ``org/name``.
        version: None where it has none.
        description: For people.
        tasks: Those of the folder, sorted, then listed ones that are only on a Hub.
        script: Its ``metric.py``; None where it has none.
    """

    name: str
    version: str | None
    description: str
    tasks: tuple[TaskSource, ...]
    script: MetricScript | None = None


def read_folder(folder: Path) -> FolderDataset:
    """Read a folder's manifest and find its tasks.

    All children with a ``task.toml`` belong to it, as in Harbor. What the manifest lists is
    pinned by its digest; a listed task that is not in the folder is the Hub's.

    Raises:
        DatasetError: There is no manifest, or it cannot be used.
    """
    path = folder / MANIFEST
    table = _read_manifest(path)
    dataset = _table(table.get("dataset"), f"{path}: [dataset]")
    name = str(dataset.get("name"))
    _check_name(name, f"{path}: dataset.name")
    version = dataset.get("version")
    if version is not None and (not isinstance(version, str) or not version):
        raise DatasetError(f"{path}: dataset.version: expected some text, got {version!r}")
    pinned = dict(_pinned(table, path))
    here = {
        one: task_name(one) for one in sorted(folder.iterdir()) if (one / CONFIG_FILE).is_file()
    }
    tasks: list[TaskSource] = [FolderTask(one, pinned.get(own)) for one, own in here.items()]
    for listed in [one for one in pinned if one not in here.values()]:
        org, _, short = listed.partition("/")
        tasks.append(HubTask(org, short, pinned[listed]))
    if not tasks:
        raise DatasetError(f"{folder}: no folder with a {CONFIG_FILE} in it, and none listed")
    return FolderDataset(
        name,
        version,
        str(dataset.get("description") or ""),
        tuple(tasks),
        _script(folder, dict(_listed_files(table, path))),
    )


def task_name(folder: Path) -> str:
    """``[task].name`` of a task; its folder's name where it has none that can be read."""
    try:
        table = tomllib.loads((folder / CONFIG_FILE).read_text(encoding="utf-8")).get("task")
    except (OSError, ValueError):
        return folder.name
    name = table.get("name") if isinstance(table, dict) else None
    return name if isinstance(name, str) else folder.name


def _read_manifest(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DatasetError(
            f"{path.parent}: no {MANIFEST} there; a folder of tasks without one is no dataset, "
            f"and is run by naming it: pytest {path.parent}"
        ) from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DatasetError(f"{path}: not TOML: {error}") from None


def _rows(
    manifest: Mapping[str, Any], key: str, path: Path
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The tables of an array, each with its place for messages."""
    rows = manifest.get(key, [])
    if not isinstance(rows, list):
        raise DatasetError(f"{path}: {key}: expected [[{key}]] tables, got {rows!r}")
    for number, row in enumerate(rows):
        place = f"{path}: {key}[{number}]"
        yield place, _table(row, place)


def _pinned(manifest: Mapping[str, Any], path: Path) -> Iterator[tuple[str, str]]:
    for place, table in _rows(manifest, "tasks", path):
        name, digest = str(table.get("name")), str(table.get("digest"))
        _check_name(name, f"{place}.name")
        if not _DIGEST.fullmatch(digest):
            raise DatasetError(f"{place}.digest: expected sha256:…, got {digest!r}")
        yield name, digest


def _listed_files(manifest: Mapping[str, Any], path: Path) -> Iterator[tuple[str, str]]:
    """The dataset's own files with their digests, which Harbor lets be left out."""
    for place, table in _rows(manifest, "files", path):
        name, digest = table.get("path"), table.get("digest", "")
        if not isinstance(name, str) or not name or "/" in name or "\\" in name:
            raise DatasetError(f"{place}.path: expected a file's name, got {name!r}")
        if not isinstance(digest, str) or (digest and not _DIGEST.fullmatch(digest)):
            raise DatasetError(f"{place}.digest: expected sha256:…, got {digest!r}")
        yield name, digest


def _script(folder: Path, listed: Mapping[str, str]) -> MetricScript | None:
    path = folder / SCRIPT_FILE
    if SCRIPT_FILE not in listed and not os.path.lexists(path):
        return None
    return script_of_file(path, listed.get(SCRIPT_FILE, ""))


def _check_name(name: str, place: str) -> None:
    try:
        parse_package(f"{name}@latest")
    except DatasetError:
        raise DatasetError(f"{place}: expected ORG/NAME, got {name!r}") from None


def _table(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DatasetError(f"{place}: expected a table, got {value!r}")
    return value
