"""Where datasets without a ``/`` are looked up: a ``registry.json`` on disk, by URL or in git."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pytest_harbor.dataset import git
from pytest_harbor.dataset.http import Http
from pytest_harbor.dataset.registry_file import REGISTRY_FILE
from pytest_harbor.dataset.room import Room
from pytest_harbor.dataset.spec import GitSpec, is_git, parse_git, refuse_account
from pytest_harbor.errors import DatasetError

DEFAULT_REGISTRY = "https://raw.githubusercontent.com/laude-institute/harbor/main/registry.json"
"""Harbor's public one."""


@dataclass(frozen=True, slots=True)
class RegistryPlace:
    """A registry's place.

    Attributes:
        kind: How it is read.
        text: Path, URL, or the repository's name.
    """

    kind: Literal["file", "url", "git"]
    text: str


class RegistryReading(NamedTuple):
    """What was read at a registry's place.

    Attributes:
        text: The file's content.
        shown: The place, for messages.
        folder: The file's folder on this machine; None where it came from elsewhere.
        repository: The repository that it is in; None where it is in none.
        commit: The repository's commit.
    """

    text: bytes
    shown: str
    folder: Path | None = None
    repository: GitSpec | None = None
    commit: str = ""

    def as_json(self) -> dict[str, str]:
        """The place, without a query that may hold a key, and what it said."""
        place = self.shown.partition("?")[0] if "://" in self.shown else self.shown
        return {"place": place, "digest": f"sha256:{hashlib.sha256(self.text).hexdigest()}"}


def parse_place(text: str | None, base: Path) -> RegistryPlace:
    """Tell a registry's place from its form.

    Args:
        text: As given; None: Harbor's public registry.
        base: Folder from which a relative path counts.

    Raises:
        DatasetError: It is the name of a repository, and not allowed.
    """
    if text is None:
        return RegistryPlace("url", DEFAULT_REGISTRY)
    text = text.strip()
    is_web = text.startswith(("http://", "https://"))
    path = text.partition("://")[2].partition("/")[2].partition("?")[0]
    path = path.rpartition("@")[0] or path
    if is_web and not (path.endswith(".git") or "/tree/" in text):
        refuse_account(text, "keep the file on this machine, or in a git repository")
        return RegistryPlace("url", text)
    if text.startswith("file://") and text.endswith(".json"):
        return RegistryPlace("file", text.removeprefix("file://"))
    if is_git(text) and not text.startswith((".", "/", "~")):
        parse_git(text)
        return RegistryPlace("git", text)
    return RegistryPlace("file", os.path.abspath(base / Path(text).expanduser()))


def read_place(place: RegistryPlace, workspace: Path, room: Room | None = None) -> RegistryReading:
    """Read a registry.

    Args:
        place: Where it is.
        workspace: Folder for temporary files.
        room: What its repository may take there.

    Raises:
        DatasetUnreachableError: Whoever has it does not answer.
        DatasetError: It is not there.
    """
    match place.kind:
        case "file":
            return _read_file(Path(place.text))
        case "url":
            return RegistryReading(Http().document("GET", place.text), place.text)
        case "git":
            return _read_from_git(parse_git(place.text), workspace, room)


def _read_file(path: Path) -> RegistryReading:
    if path.is_dir():
        path /= REGISTRY_FILE
    try:
        return RegistryReading(path.read_bytes(), str(path), folder=path.parent)
    except OSError as error:
        raise DatasetError(f"--harbor-registry: {path}: {error.strerror}") from None


def _read_from_git(spec: GitSpec, workspace: Path, room: Room | None) -> RegistryReading:
    commit = git.resolve(spec)
    folder = spec.folder or "."
    path = folder if folder.endswith(".json") else f"{folder}/{REGISTRY_FILE}".removeprefix("./")

    def read(repository: git.Repository) -> RegistryReading:
        shown = f"{path} of {spec.url}"
        text = repository.file(path)
        if text is None:
            raise DatasetError(f"{shown}: no such file at {repository.commit[:12]}")
        return RegistryReading(text, shown, repository=spec, commit=repository.commit)

    return git.with_commit(spec.url, commit, workspace, read, room)
