"""``registry.json``: datasets by name and version, and which version is meant without one."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_harbor.errors import DatasetError
from pytest_harbor.task.plural import in_number

REGISTRY_FILE = "registry.json"


@dataclass(frozen=True, slots=True)
class RegistryTask:
    """A task as a registry lists it.

    Attributes:
        name: For people; its identity is where it lies.
        path: In its repository, or on this machine.
        git_url: Its repository; None: where the registry is.
        git_commit_id: Its commit, or a ref; None: the newest.
    """

    name: str
    path: str
    git_url: str | None = None
    git_commit_id: str | None = None


@dataclass(frozen=True, slots=True)
class RegistryDataset:
    """One version of a dataset.

    Attributes:
        name: Its name.
        version: Its version.
        description: For people.
        tasks: In the order of the file.
        metrics: As written: ``{"type": …, "kwargs": {…}}``.
    """

    name: str
    version: str
    description: str
    tasks: tuple[RegistryTask, ...]
    metrics: tuple[Mapping[str, Any], ...] = field(default=())


def read_registry(text: str | bytes, place: str) -> tuple[RegistryDataset, ...]:
    """Read the content of a ``registry.json``.

    Args:
        text: The file's content.
        place: Where it came from, for messages.

    Raises:
        DatasetError: It is no registry.
    """
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise DatasetError(f"{place}: not JSON: {error}") from None
    if not isinstance(rows, list):
        raise DatasetError(f"{place}: expected a list of datasets, got {type(rows).__name__}")
    return tuple(_dataset(row, f"{place}: [{number}]") for number, row in enumerate(rows))


def choose(
    datasets: Sequence[RegistryDataset], name: str, version: str | None, place: str
) -> RegistryDataset:
    """Find a dataset; without a version: ``head``, else the highest, else the last by letters.

    Raises:
        DatasetError: There is none; the message has near names.
    """
    versions = {one.version: one for one in datasets if one.name == name}
    if not versions:
        known = {one.name for one in datasets}
        raise DatasetError(f"{place} has no dataset {name!r}. {near(name, known, 'datasets')}")
    wanted = choose_version(versions) if version is None else version
    if wanted not in versions:
        raise DatasetError(
            f"{place} has no version {wanted!r} of {name!r}. It has: {', '.join(versions)}"
        )
    return versions[wanted]


def choose_version(versions: Iterable[str]) -> str:
    """The version that is meant where none is named, by Harbor's rules."""
    from packaging.version import InvalidVersion, Version

    known = list(versions)
    if "head" in known:
        return "head"
    numbered: list[tuple[Version, str]] = []
    for text in known:
        try:
            numbered.append((Version(text), text))
        except InvalidVersion:
            continue
    if numbered:
        return max(numbered, key=lambda pair: pair[0])[1]
    return max(known)


def near(name: str, known: Iterable[str], what: str) -> str:
    """Names that may have been meant."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return f"Near: {', '.join(close)}"
    some = ", ".join(names[:5]) + (", …" if names[5:] else "")
    return f"It has {in_number(len(names), what)}: {some}"


def _dataset(row: object, place: str) -> RegistryDataset:
    table = _table(row, place)
    tasks, metrics = _list(table, "tasks", place, None), _list(table, "metrics", place, [])
    return RegistryDataset(
        _text(table, "name", place),
        _text(table, "version", place),
        _text(table, "description", place, empty=True),
        tuple(_task(one, f"{place}.tasks[{number}]") for number, one in enumerate(tasks)),
        tuple(_table(one, f"{place}.metrics[{i}]") for i, one in enumerate(metrics)),
    )


def _task(row: object, place: str) -> RegistryTask:
    table = _table(row, place)
    optional = {
        key: _text(table, key, place) if table.get(key) is not None else None
        for key in ("git_url", "git_commit_id")
    }
    return RegistryTask(_text(table, "name", place), _text(table, "path", place), **optional)


def _table(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DatasetError(f"{place}: expected an object, got {type(value).__name__}")
    return value


def _list(table: Mapping[str, Any], key: str, place: str, default: list[Any] | None) -> list[Any]:
    value = table.get(key, default)
    if not isinstance(value, list):
        raise DatasetError(f"{place}.{key}: expected a list, got {value!r}")
    return value


def _text(table: Mapping[str, Any], key: str, place: str, *, empty: bool = False) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not (value or empty):
        raise DatasetError(f"{place}.{key}: expected some text, got {value!r}")
    return value
