"""Datasets of ``--harbor-locked``: as an earlier job had pinned them, and what they mean by now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_harbor.errors import DatasetError
from pytest_harbor.plugin.options import settings

if TYPE_CHECKING:
    from pytest_harbor.dataset.cache import Cache
    from pytest_harbor.dataset.dataset import Dataset
    from pytest_harbor.dataset.hub import Hub
    from pytest_harbor.dataset.place import RegistryPlace
    from pytest_harbor.trial.lock import JobLock


_LOCK = pytest.StashKey["JobLock | None"]()


def lock_of(config: pytest.Config) -> JobLock | None:
    """The lock that the run is held against, read once; None: none was asked for."""
    if _LOCK not in config.stash:
        config.stash[_LOCK] = _read(settings(config).datasets.locked)
    return config.stash[_LOCK]


def _read(path: Path | None) -> JobLock | None:
    if path is None:
        return None
    from pytest_harbor.errors import OptionError
    from pytest_harbor.trial.lock import read_lock

    try:
        return read_lock(path)
    except OptionError as error:
        raise pytest.UsageError(f"--harbor-locked: {error}") from None


def locked_datasets(config: pytest.Config) -> list[Dataset]:
    """The datasets of the job that this run is to be the same as."""
    if hasattr(config, "workerinput") or (lock := lock_of(config)) is None:
        return []
    from pytest_harbor.dataset.dataset import dataset_of_json

    try:
        return [dataset_of_json(one) for one in lock.conditions.datasets]
    except DatasetError as error:
        raise pytest.UsageError(f"--harbor-locked: {error}") from None


def meaning_now(
    config: pytest.Config, cache: Cache, dataset: Dataset, hub: Callable[[], Hub]
) -> str:
    """Say what a pinned dataset's name means by now; empty where it is the same.

    The run does not hang on it: where nobody answers, that is what is said.
    """
    from pytest_harbor.dataset.drift import drift
    from pytest_harbor.dataset.resolve import Resolver

    wanted = settings(config).datasets
    try:
        place = _registry(config, dataset)
        resolver = Resolver(cache, lambda line: None, place, hub, wanted.base)
        now = resolver.look(dataset.asked)
    except DatasetError as error:
        return f"{dataset.label} is run as it was pinned; what it is by now is not known: {error}"
    return drift(dataset, now) if now is not None else ""


def _registry(config: pytest.Config, dataset: Dataset) -> RegistryPlace:
    """Where to look: as this run says, else where the job had looked."""
    from pytest_harbor.dataset.place import parse_place

    wanted = settings(config).datasets
    known = (dataset.registry or {}).get("place", "")
    if wanted.registry is None and known.startswith(("https://", "http://", "/")):
        return parse_place(known, Path())
    if wanted.registry is None and known and "/" not in dataset.asked:
        raise DatasetError(f"it was listed in {known}; name the registry with --harbor-registry")
    return parse_place(wanted.registry, wanted.registry_base)
