"""Scripts of datasets on this machine's disk: found, pinned by their content, held against it.

One that lies on this machine is used where it is; others are kept beside what datasets were
resolved to. Nothing here runs one.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pytest_harbor.dataset import git
from pytest_harbor.dataset.digest import PREFIX
from pytest_harbor.dataset.metrics import SCRIPT_FILE, DatasetMetric, MetricScript
from pytest_harbor.dataset.source import GitTask, source_of_json
from pytest_harbor.dataset.spec import parse_task_path
from pytest_harbor.errors import DatasetError, DatasetUnreachableError

if TYPE_CHECKING:
    from pytest_harbor.dataset.cache import Cache
    from pytest_harbor.dataset.dataset import Dataset
    from pytest_harbor.dataset.hub import Hub
    from pytest_harbor.dataset.place import RegistryReading

MAX_BYTES = 1024**2
"""A larger file is no script."""


class Scripts:
    """Finds scripts and has them.

    Args:
        cache: Whose notes they are kept beside.
        hub: Makes the client of the Hub.
    """

    def __init__(self, cache: Cache, hub: Callable[[], Hub]) -> None:
        self._cache = cache
        self._hub = hub

    def of_registry(self, reading: RegistryReading, base: Path, path: str) -> MetricScript:
        """The script at a path that a registry names.

        Args:
            reading: The registry.
            base: Folder from which Harbor counts the path.
            path: Counts from the registry's folder or repository, else from ``base``.

        Raises:
            DatasetError: The path leads out of its repository.
            DatasetUnreachableError: Whoever has it does not answer.
        """
        name = PurePosixPath(path).name
        if reading.repository is not None:
            place = {
                "git_url": reading.repository.url,
                "git_commit_id": reading.commit,
                "path": parse_task_path(path),
            }
            return self._pinned(MetricScript(name, place))
        if reading.folder is None:
            why = (
                "a registry that is read by its URL can name no file beside it, and none on this "
                "machine; give --harbor-registry the git repository that has both, or a file here"
            )
            return MetricScript(name, {}, problem=f"{path}: {why}")
        beside = Path(os.path.abspath(reading.folder / Path(path).expanduser()))
        from_here = Path(os.path.abspath(base / Path(path).expanduser()))
        is_here = from_here.is_file() and not beside.is_file()
        return script_of_file(from_here if is_here else beside)

    def of_hub(self, storage_path: str, digest: str) -> MetricScript:
        """The script of a published dataset; where nobody answers, it is fetched later."""
        script = MetricScript(SCRIPT_FILE, {"storage_path": storage_path}, digest)
        try:
            self.path(script)
        except DatasetUnreachableError:
            return script
        except DatasetError as error:
            return replace(script, problem=str(error))
        return script

    def path(self, script: MetricScript) -> Path:
        """The script's file, held against its digest; fetched where it is not there.

        Raises:
            DatasetUnreachableError: Whoever has it does not answer.
            DatasetError: It is gone, was changed, or cannot be used.
        """
        if set(script.place) == {"path"} or _is_hopeless(script):
            return self.kept(script)
        with suppress(DatasetError):
            return self.kept(script)
        content = self._fetched(script.place)
        if digest_of(content) != script.digest:
            raise DatasetError(
                f"{script.name}: expected the content {script.digest}, got {digest_of(content)}"
            )
        self._keep(content)
        return self.kept(script)

    def kept(self, script: MetricScript) -> Path:
        """The same, without asking anybody else for it.

        Raises:
            DatasetError: It is not on this machine, or was changed.
        """
        if _is_hopeless(script):
            raise DatasetError(script.problem)
        is_here = set(script.place) == {"path"}
        path = Path(script.place["path"]) if is_here else self._kept_path(script.digest)
        return _unchanged(path, script.digest)

    def _pinned(self, script: MetricScript) -> MetricScript:
        """A script out of a commit, with the digest of what is there."""
        try:
            content = self._fetched(script.place)
        except DatasetUnreachableError:
            raise
        except DatasetError as error:
            return replace(script, problem=str(error))
        with suppress(DatasetError):  # it is fetched again where it is needed
            self._keep(content)
        return replace(script, digest=digest_of(content))

    def _fetched(self, place: Mapping[str, str]) -> bytes:
        if "storage_path" in place:
            shown = place["storage_path"]
            content: bytes | None = self._hub().download_file(shown)
        else:
            source = source_of_json({"type": "git", **place})
            assert isinstance(source, GitTask)
            shown = f"{source.path} of {source.url} at {source.commit[:12]}"
            with self._cache.workspace() as folder:
                content = git.with_commit(
                    source.url,
                    source.commit,
                    folder,
                    lambda found: found.file(source.path, MAX_BYTES),
                )
        if content is None:
            raise DatasetError(f"{shown}: no such file")
        return _bounded(content, shown)

    def _kept_path(self, digest: str) -> Path:
        # Below what datasets were resolved to, and forgotten with it.
        folder = self._cache.note_path("scripts").with_suffix("")
        return folder / digest.removeprefix(PREFIX) / SCRIPT_FILE

    def _keep(self, content: bytes) -> None:
        path = self._kept_path(digest_of(content))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f".{os.getpid()}.part")
            draft.write_bytes(content)
            draft.replace(path)
        except OSError as error:
            raise DatasetError(f"{path}: cannot be written: {error.strerror}") from None


def _is_hopeless(script: MetricScript) -> bool:
    """A Hub may have failed then and not now; what a file or a commit lacks it lacks."""
    return bool(script.problem) and "storage_path" not in script.place


def script_of_file(path: Path, pinned: str = "") -> MetricScript:
    """A script of this machine.

    Args:
        path: The file.
        pinned: The digest that it must have, as ``sha256:…``; empty: any.
    """
    script = MetricScript(path.name, {"path": str(path)})
    try:
        digest = digest_of(_read(path))
    except DatasetError as error:
        return replace(script, problem=str(error))
    if pinned and pinned != digest:
        why = f"dataset.toml pins another content of it: {pinned}, found {digest}"
        return replace(script, digest=digest, problem=f"{path}: {why}")
    return replace(script, digest=digest)


def with_scripts_of_today(dataset: Dataset) -> Dataset:
    """The dataset with the digests that scripts of this machine's folders have now."""
    return replace(dataset, metrics=tuple(map(_of_today, dataset.metrics)))


def _of_today(metric: DatasetMetric) -> DatasetMetric:
    if metric.script is None or set(metric.script.place) != {"path"}:
        return metric
    found = script_of_file(Path(metric.script.place["path"]))
    return replace(metric, script=replace(metric.script, digest=found.digest))


def digest_of(content: bytes) -> str:
    """``sha256:`` and the digest of a script's content."""
    return PREFIX + hashlib.sha256(content).hexdigest()


def _unchanged(path: Path, digest: str) -> Path:
    found = digest_of(_read(path))
    if found != digest:
        raise DatasetError(f"{path}: was changed since it was pinned: was {digest}, is {found}")
    return path


def _read(path: Path) -> bytes:
    try:
        # A pipe must not be waited for, nor a link followed to who knows what.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(file, "rb") as content:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise DatasetError(f"{path}: no regular file")
            return _bounded(content.read(MAX_BYTES + 1), str(path))
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}") from None


def _bounded(content: bytes, shown: str) -> bytes:
    if len(content) > MAX_BYTES:
        raise DatasetError(f"{shown}: larger than {MAX_BYTES // 1024**2} MiB, which no script is")
    return content
