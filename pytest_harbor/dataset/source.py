"""Where one task comes from: the identities of Harbor, pinned."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_harbor.dataset.spec import is_commit, parse_git, parse_package, parse_task_path
from pytest_harbor.errors import DatasetError


@dataclass(frozen=True, slots=True)
class GitTask:
    """A folder of a repository's commit.

    Attributes:
        url: The repository.
        commit: The full id.
        path: The folder in it; ``.`` for the whole.
    """

    url: str
    commit: str
    path: str

    @property
    def name(self) -> str:
        """Its folder's name."""
        last = self.url if self.path == "." else self.path
        return last.rstrip("/").rpartition("/")[2].removesuffix(".git")

    @property
    def full_name(self) -> str:
        """A longer name, for where the short one is taken."""
        return self.path

    @property
    def key(self) -> str:
        """Its name in the cache."""
        return f"git-{_short_hash(self.url, self.commit, self.path)}"

    @property
    def group(self) -> str:
        """What is fetched with it in one go."""
        return f"git-{_short_hash(self.url, self.commit)}"

    def as_json(self) -> dict[str, Any]:
        """Harbor's ``task_id``."""
        return {"git_url": self.url, "git_commit_id": self.commit, "path": self.path}


@dataclass(frozen=True, slots=True)
class HubTask:
    """A task that was published.

    Attributes:
        org: The organisation.
        name: Its name there.
        digest: ``sha256:`` and the digest of its content.
    """

    org: str
    name: str
    digest: str

    @property
    def full_name(self) -> str:
        """The name that filters of Harbor see."""
        return f"{self.org}/{self.name}"

    @property
    def key(self) -> str:
        """Its name in the cache."""
        return f"hub-{_short_hash(self.full_name, self.digest)}"

    @property
    def group(self) -> str:
        """What is fetched with it in one go: nothing else."""
        return self.key

    def as_json(self) -> dict[str, Any]:
        """Harbor's ``task_id``."""
        return {"org": self.org, "name": self.name, "ref": self.digest}


@dataclass(frozen=True, slots=True)
class FolderTask:
    """A folder of this machine, used where it is.

    Attributes:
        path: The folder, absolute.
        digest: What its dataset says that it must be; None: nothing.
    """

    path: Path
    digest: str | None = None

    @property
    def name(self) -> str:
        """Its folder's name."""
        return self.path.name

    @property
    def full_name(self) -> str:
        """A longer name, for where the short one is taken."""
        return f"{self.path.parent.name}/{self.path.name}"

    def as_json(self) -> dict[str, Any]:
        """Harbor's ``task_id``."""
        return {"path": str(self.path)}


TaskSource = GitTask | HubTask | FolderTask


def source_json(source: TaskSource) -> dict[str, Any]:
    """A form from which :func:`source_of_json` makes the source again."""
    kind = {GitTask: "git", HubTask: "package", FolderTask: "local"}[type(source)]
    digest = {"digest": source.digest} if isinstance(source, FolderTask) else {}
    return {"type": kind, **source.as_json(), **digest}


def source_of_json(known: Mapping[str, Any]) -> TaskSource:
    """The source that :func:`source_json` wrote.

    Raises:
        DatasetError: It did not write this.
    """
    try:
        match known["type"]:
            case "git":
                path = parse_task_path(known["path"])
                url, commit = known["git_url"], known["git_commit_id"]
                if is_commit(commit) and parse_git(url).url == url:
                    return GitTask(url, commit, path)
            case "package":
                org, name, ref = known["org"], known["name"], known["ref"]
                if parse_package(f"{org}/{name}@{ref}").is_pinned:
                    return HubTask(org, name, ref)
            case "local":
                return FolderTask(Path(known["path"]), known.get("digest"))
    except (KeyError, TypeError, AttributeError):
        pass
    raise DatasetError(f"{known!r} is no task's source")


def _short_hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]
