"""What the package databases of a box say of files: dpkg's, apk's, RPM's, pip's and conda's.

An agent that is root can forge these too. So they turn a suspicion into information, and
nothing more: a fresh box still gets the image's files.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import posixpath
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pytest_harbor.environment.base import Change
from pytest_harbor.integrity.reading import BoxFiles

MAX_DATABASE_FILES = 1000
_RPM = ("/var/lib/rpm/rpmdb.sqlite", "/usr/lib/sysimage/rpm/rpmdb.sqlite")
# Its older kinds, which are not read.
_OTHER_RPM = (
    *("/var/lib/rpm/Packages", "/var/lib/rpm/Packages.db"),
    *("/usr/lib/sysimage/rpm/Packages", "/usr/lib/sysimage/rpm/Packages.db"),
)
_MAX_ORIGINALS = 200
_DPKG = "/var/lib/dpkg/info"
_FEW = 8
_SHA256 = 64


class PackageFiles:
    """Files that packages brought since the image was made; read as far as one is asked for.

    Attributes:
        unreadable: Databases that are none.
    """

    def __init__(self, changes: Sequence[Change], files: BoxFiles) -> None:
        self._files = files
        databases = [c for c in changes if _is_database(c.path)]
        self._waiting = [c.path for c in databases if c.kind != "deleted"][:MAX_DATABASE_FILES]
        self._gone = [c for c in databases if c.kind != "added"][:_MAX_ORIGINALS]
        self._folders = Counter(posixpath.dirname(path) for path in self._waiting)
        self._fetched: dict[str, bytes] = {}
        self._other = any(c.path in _OTHER_RPM and c.kind == "changed" for c in changes)
        self._prefixes = {
            posixpath.dirname(posixpath.dirname(c.path)) for c in databases if _is_conda(c.path)
        }
        self._projects = {_project(p) for p in self._waiting if p.endswith("/RECORD")}
        self._digests: dict[str, tuple[str, str]] = {}
        self._listed: set[str] = set()
        self._listed_before: dict[str, bool] | None = None
        self.unreadable: list[str] = []

    def brought(self, path: str, content: bytes | None) -> bool:
        """Whether a package brought the file with this very content.

        Args:
            path: Absolute.
            content: None for a link, whose package need only name it.
        """
        verdict = self._verdict(path, content)
        while verdict is None and self._waiting:
            self._load_next()
            verdict = self._verdict(path, content)
        return bool(verdict)

    @property
    def is_other(self) -> bool:
        """Whether the image's packages are of a kind that is not read, and there are new ones."""
        return self._other

    def is_of_conda(self, path: str) -> bool:
        """Whether a file is of a distribution whose programs fit their own libraries alone."""
        return any(path.startswith(f"{prefix}/") for prefix in self._prefixes)

    def dropped(self, path: str) -> Literal["", "upgraded", "removed"]:
        """Whether the file went with a newer version of its package, or with the package."""
        if self._listed_before is None:
            self._listed_before = self._load_before()
        if not any(known in self._listed_before for known in _spellings(path)):
            return ""
        if self.brought(path, None):
            return ""  # its package has it still
        upgraded = any(self._listed_before.get(known) for known in _spellings(path))
        return "upgraded" if upgraded else "removed"

    def _verdict(self, path: str, content: bytes | None) -> bool | None:
        for known in _spellings(path):
            if known in self._digests and content is not None:
                kind, digest = self._digests[known]
                return _digest(kind, content) == digest
            if known in self._listed and (content is None or known.startswith("/etc/")):
                return True
        return None

    def _load_next(self) -> None:
        path = self._waiting.pop(0)
        folder = posixpath.dirname(path)
        if self._folders.pop(folder, 0) > _FEW:
            self._fetched.update(self._files.folder(folder))
        known = path in self._fetched
        data = self._fetched[path] if known else self._files.database(path)
        if data is not None:
            self._take(path, data)

    def _load_before(self) -> dict[str, bool]:
        """What changed packages had in the image → whether the package is there still."""
        before: dict[str, bool] = {}
        for change in self._gone:
            if (data := self._files.original(change.path)) is not None:
                old = PackageFiles((), self._files)
                old._take(change.path, data)
                stays = change.kind != "deleted" or _project(change.path) in self._projects
                before.update(dict.fromkeys({*old._listed, *old._digests}, stays))
        return before

    def _take(self, path: str, data: bytes) -> None:
        try:
            if path in _RPM:
                self._take_rpm(data)
            elif _is_conda(path):
                self._take_conda(posixpath.dirname(posixpath.dirname(path)), data)
            else:
                self._take_lines(path, data.decode("utf-8", "replace"))
        except (ValueError, TypeError, AttributeError, RecursionError, csv.Error):
            self.unreadable.append(path)

    def _take_rpm(self, data: bytes) -> None:
        from pytest_harbor.integrity.rpm import files_of_rpm

        for path, digest in files_of_rpm(data):
            self._listed.add(path)
            if digest:
                self._digests[path] = ("sha256" if len(digest) == _SHA256 else "md5", digest)

    def _take_conda(self, prefix: str, data: bytes) -> None:
        for one in json.loads(data).get("paths_data", {}).get("paths", ()):
            place = posixpath.normpath(posixpath.join(prefix, str(one.get("_path"))))
            if not place.startswith(f"{prefix}/"):
                continue
            self._listed.add(place)
            if digest := one.get("sha256_in_prefix") or one.get("sha256"):
                self._digests[place] = ("sha256", str(digest))

    def _take_lines(self, path: str, text: str) -> None:
        if path.endswith(".md5sums"):
            for line in text.splitlines():
                digest, _, name = line.partition("  ")
                self._digests[f"/{name}"] = ("md5", digest)
        elif path.endswith(".list"):
            self._listed.update(text.splitlines())
        elif path.endswith("/RECORD"):
            self._take_record(posixpath.dirname(posixpath.dirname(path)), text)
        else:
            self._take_apk(text)

    def _take_record(self, folder: str, text: str) -> None:
        for row in csv.reader(text.splitlines()):
            if not row:
                continue
            place = posixpath.normpath(posixpath.join(folder, row[0]))
            self._listed.add(place)
            if len(row) > 1 and row[1].startswith("sha256="):
                digest = base64.urlsafe_b64decode(row[1][7:] + "==").hex()
                self._digests[place] = ("sha256", digest)

    def _take_apk(self, text: str) -> None:
        folder = place = ""
        for line in text.splitlines():
            if line.startswith("F:"):
                folder = line[2:]
            elif line.startswith("R:"):
                place = f"/{folder}/{line[2:]}"
                self._listed.add(place)
            elif line.startswith("Z:Q1"):
                self._digests[place] = ("sha1", base64.b64decode(line[4:]).hex())


def _is_database(path: str) -> bool:
    if path.startswith(f"{_DPKG}/"):
        return path.endswith((".md5sums", ".list"))
    known = ("/lib/apk/db/installed", *_RPM)
    return path in known or path.endswith(".dist-info/RECORD") or _is_conda(path)


def _is_conda(path: str) -> bool:
    return path.endswith(".json") and posixpath.basename(posixpath.dirname(path)) == "conda-meta"


def _project(path: str) -> str:
    """A distribution's folder without its version."""
    folder = posixpath.dirname(path)
    return posixpath.join(posixpath.dirname(folder), posixpath.basename(folder).partition("-")[0])


def _spellings(path: str) -> tuple[str, ...]:
    """A path, and how packages of a merged ``/usr`` spell it."""
    merged = path.removeprefix("/usr") if path.startswith("/usr/") else f"/usr{path}"
    return path, merged


def _digest(kind: str, content: bytes) -> str:
    return hashlib.new(kind, content, usedforsecurity=False).hexdigest()
