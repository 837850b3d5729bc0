"""What ``--harbor-dataset`` names → a dataset whose every task is pinned."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_harbor.dataset import git
from pytest_harbor.dataset.cache import Cache, Progress
from pytest_harbor.dataset.dataset import Dataset, dataset_of_json, named
from pytest_harbor.dataset.folder import MANIFEST, read_folder
from pytest_harbor.dataset.hub import Hub
from pytest_harbor.dataset.metric_script import Scripts
from pytest_harbor.dataset.metrics import (
    SCRIPT,
    SCRIPT_FILE,
    DatasetMetric,
    registry_metrics,
)
from pytest_harbor.dataset.pin import Pinner
from pytest_harbor.dataset.place import RegistryPlace, RegistryReading, read_place
from pytest_harbor.dataset.registry_file import RegistryDataset, choose, read_registry
from pytest_harbor.dataset.repository_tasks import RepositoryTasks, find_tasks
from pytest_harbor.dataset.source import GitTask
from pytest_harbor.dataset.spec import FolderSpec, GitSpec, HubSpec, RegistrySpec, parse_dataset
from pytest_harbor.errors import DatasetError, DatasetUnreachableError

_Remote = RegistrySpec | HubSpec | GitSpec


@dataclass(frozen=True)
class Resolver:
    """Resolves names of datasets.

    Attributes:
        cache: Keeps what was resolved, for runs without a network.
        progress: Is told what goes on.
        registry: Where datasets without a ``/`` are looked up.
        hub: Makes the client of the Hub.
        base: Folder from which relative paths count.
    """

    cache: Cache
    progress: Progress
    registry: RegistryPlace
    hub: Callable[[], Hub]
    base: Path

    def resolve(self, asked: str) -> Dataset:
        """Find a dataset and pin its tasks.

        A name that can only mean one content is not asked for twice. Where nobody answers, a
        registry's dataset with its version is what it was the last time.

        Raises:
            DatasetError: There is no such dataset.
            DatasetUnreachableError: Whoever has it does not answer.
        """
        spec = parse_dataset(asked)
        if isinstance(spec, FolderSpec):
            return self._of_folder(spec, asked)
        note = self._note_name(asked, spec)
        kept = self._kept(note)
        if kept is not None and isinstance(spec, GitSpec | HubSpec) and spec.is_pinned:
            return kept
        try:
            found = self._ask(spec, asked)
        except DatasetUnreachableError as error:
            return self._instead(kept, spec, error)
        self.cache.write_note(note, found.as_json())
        if (pinned := _pinned(spec, found)) is not None:
            name = self._note_name(pinned.asked, spec)
            self.cache.write_note(name, pinned.as_json())
        return found

    def look(self, asked: str) -> Dataset | None:
        """What a name means now, asked for and not kept; None for one that cannot change.

        Raises:
            DatasetError: Nothing, or nobody answers.
        """
        spec = parse_dataset(asked)
        if isinstance(spec, FolderSpec):
            return self._of_folder(spec, asked)
        is_pinned = isinstance(spec, GitSpec | HubSpec) and spec.is_pinned
        return None if is_pinned else self._ask(spec, asked)

    def _ask(self, spec: _Remote, asked: str) -> Dataset:
        match spec:
            case RegistrySpec():
                return self._of_registry(spec, asked)
            case HubSpec():
                return self._of_hub(spec, asked)
            case GitSpec():
                return self._of_git(spec, asked)

    def _instead(
        self, kept: Dataset | None, spec: _Remote, error: DatasetUnreachableError
    ) -> Dataset:
        """What was resolved before, where it may stand for what cannot be asked."""
        if kept is None:
            raise error
        if isinstance(spec, RegistrySpec) and spec.version is not None:
            self.progress(f"{kept.label}: as it was resolved before, since {error}")
            return kept
        pinned = _pinned(spec, kept)
        hint = f": {pinned.asked} means that, and needs no network" if pinned else ""
        raise DatasetUnreachableError(f"{error}\nIt was last resolved to {kept.version}{hint}")

    def _kept(self, note: str) -> Dataset | None:
        known = self.cache.read_note(note)
        try:
            return dataset_of_json(known) if known is not None else None
        except DatasetError:
            return None

    def _note_name(self, asked: str, spec: _Remote) -> str:
        where = self.registry.text if isinstance(spec, RegistrySpec) else ""
        return hashlib.sha256(f"{asked}\0{where}".encode()).hexdigest()[:40]

    def _of_folder(self, spec: FolderSpec, asked: str) -> Dataset:
        folder = (self.base / Path(spec.path).expanduser()).resolve()
        if folder.name == MANIFEST:
            folder = folder.parent
        if not folder.is_dir():
            raise DatasetError(f"{folder}: no such folder")
        found = read_folder(folder)
        label = _label(found.name, found.version)
        return Dataset(
            label,
            found.name,
            found.version or "",
            asked,
            named(found.tasks),
            found.description,
            (DatasetMetric(SCRIPT, found.script),) if found.script else (),
        )

    def _of_registry(self, spec: RegistrySpec, asked: str) -> Dataset:
        with self.cache.workspace() as place:
            reading = read_place(self.registry, place, self.cache.room(place))
        found = choose(
            read_registry(reading.text, reading.shown), spec.name, spec.version, reading.shown
        )
        return self._registered(found, reading, asked, _label(found.name, found.version))

    def _registered(
        self, found: RegistryDataset, reading: RegistryReading, asked: str, label: str
    ) -> Dataset:
        if not found.tasks:
            raise DatasetError(f"{reading.shown}: {found.name}@{found.version} has no tasks")
        scripts = Scripts(self.cache, self.hub)
        metrics = registry_metrics(
            found.metrics,
            f"{reading.shown}: {found.name}@{found.version}",
            lambda path: scripts.of_registry(reading, self.base, path),
        )
        tasks = named(Pinner(reading, self.base).pin(found.tasks))
        return Dataset(
            label,
            found.name,
            found.version,
            asked,
            tasks,
            found.description,
            metrics,
            registry=reading.as_json(),
        )

    def _of_git(self, spec: GitSpec, asked: str) -> Dataset:
        commit = git.resolve(spec)
        with self.cache.workspace() as place:
            found = git.with_commit(
                spec.url,
                commit,
                place,
                lambda repository: find_tasks(repository, spec),
                self.cache.room(place),
            )
        if found.registry is not None:
            return self._of_its_registry(spec, found, asked)
        return Dataset(
            spec.label,
            f"{spec.host}/{spec.repository}/tree/{found.commit}/{found.folder}",
            found.commit[:12],
            asked,
            named(GitTask(spec.url, found.commit, path) for path in found.paths),
        )

    def _of_its_registry(self, spec: GitSpec, found: RepositoryTasks, asked: str) -> Dataset:
        """The one dataset of a repository's own ``registry.json``."""
        assert found.registry is not None
        reading = RegistryReading(
            found.registry,
            f"registry.json of {spec.url}",
            repository=spec,
            commit=found.commit,
        )
        datasets = read_registry(reading.text, reading.shown)
        names = sorted({one.name for one in datasets})
        if len(names) != 1:
            raise DatasetError(
                f"{reading.shown} has {len(names)} datasets: {', '.join(names)}. Choose one: "
                f"--harbor-registry=git+{spec.url} --harbor-dataset=NAME[@VERSION]"
            )
        only = choose(datasets, names[0], None, reading.shown)
        return self._registered(
            only, reading, asked, f"{spec.label}/{_label(only.name, only.version)}"
        )

    def _of_hub(self, spec: HubSpec, asked: str) -> Dataset:
        hub = self.hub()
        found = hub.dataset(spec)
        own = found.files.get(SCRIPT_FILE)
        scripts = Scripts(self.cache, lambda: hub)
        script = scripts.of_hub(own.storage_path, own.digest) if own else None
        name = f"{spec.org}/{spec.name}"
        ref = spec.ref[: len("sha256:") + 12] if spec.is_pinned else spec.ref
        return Dataset(
            f"{name}@{ref}",
            name,
            found.digest,
            asked,
            named(found.tasks),
            found.description,
            (DatasetMetric(SCRIPT, script),) if script else (),
            notes=found.notes,
        )


def _pinned(spec: _Remote, found: Dataset) -> Dataset | None:
    """What was found, under the name that always means it; None where there is no such name."""
    match spec:
        case RegistrySpec():
            asked = f"{found.name}@{found.version}"
            return replace(found, asked=asked) if found.version else None
        case HubSpec():
            label = f"{found.name}@{found.version[: len('sha256:') + 12]}"
            return replace(found, asked=f"{found.name}@{found.version}", label=label)
        case GitSpec():
            first = found.tasks[0].source
            if found.registry is not None or not isinstance(first, GitTask):
                return None
            folder = f"/tree/{first.commit}/{spec.folder}" if spec.folder else f"@{first.commit}"
            label = replace(spec, ref=first.commit).label
            return replace(found, asked=f"{spec.url}{folder}", label=label)


def _label(name: str, version: str | None) -> str:
    """A dataset's name in ids.

    Raises:
        DatasetError: It cannot be part of one.
    """
    label = f"{name}@{version}" if version else name
    if not label.isprintable() or any(char.isspace() for char in label) or "::" in label:
        raise DatasetError(f"the name {label!r} cannot be part of a test's id")
    return label
