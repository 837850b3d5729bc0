"""What the package databases of a box say of files: dpkg's, apk's and pip's.

An agent that is root can forge these too. So they turn a suspicion into information, and
nothing more: a fresh box still gets the image's files.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import posixpath
from collections.abc import Callable, Sequence

from pytest_harbor.environment.base import Change

MAX_DATABASE_FILES = 60
Read = Callable[[str], bytes | None]


class PackageFiles:
    """Files that packages brought since the image was made; looked up when first asked."""

    def __init__(self, changes: Sequence[Change], read: Read) -> None:
        self._changes = changes
        self._read = read
        self._loaded = False
        self._digests: dict[str, tuple[str, str]] = {}
        self._listed: set[str] = set()

    def brought(self, path: str, content: bytes | None) -> bool:
        """Whether a package brought the file with this very content.

        Args:
            path: Absolute.
            content: None for a link, whose package need only name it.
        """
        self._load()
        for known in _spellings(path):
            if known in self._digests and content is not None:
                kind, digest = self._digests[known]
                return _digest(kind, content) == digest
            if known in self._listed and (content is None or known.startswith("/etc/")):
                return True
        return False

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        wanted = [c.path for c in self._changes if c.kind != "deleted" and _is_database(c.path)]
        for path in wanted[:MAX_DATABASE_FILES]:
            data = self._read(path)
            if data is not None:
                self._take(path, data.decode("utf-8", "replace"))

    def _take(self, path: str, text: str) -> None:
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
    if path.startswith("/var/lib/dpkg/info/"):
        return path.endswith((".md5sums", ".list"))
    return path == "/lib/apk/db/installed" or path.endswith(".dist-info/RECORD")


def _spellings(path: str) -> tuple[str, ...]:
    """A path, and how packages of a merged ``/usr`` spell it."""
    merged = path.removeprefix("/usr") if path.startswith("/usr/") else f"/usr{path}"
    return path, merged


def _digest(kind: str, content: bytes) -> str:
    return hashlib.new(kind, content, usedforsecurity=False).hexdigest()
