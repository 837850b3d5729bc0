"""Files of the image put back into a container that does not run."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator

from pytest_harbor.environment.docker.archive import UploadArchive
from pytest_harbor.environment.docker.transfer import FOLDER, FileStatus, Transfer


class Restoration:
    """Gathers what makes a container have some paths as its image has them, or not at all.

    Attributes:
        emptied: Paths that the archive can only replace by empty files, yet to be removed.
    """

    def __init__(self, image: Transfer, box: Transfer, archive: UploadArchive) -> None:
        self._image = image
        self._box = box
        self._archive = archive
        self._whole: list[str] = []
        self.emptied: list[str] = []

    def restore(self, paths: Collection[str]) -> None:
        """Have these as the image has them."""
        for path in sorted(map(posixpath.normpath, paths)):
            if not self._is_done(path):
                self._restore(path)

    def remove(self, paths: Collection[str]) -> None:
        """Have nothing at these."""
        for path in sorted(map(posixpath.normpath, paths)):
            if not self._is_done(path) and self._box.status(path) is not None:
                self._empty(path)

    def _is_done(self, path: str) -> bool:
        return any(path == whole or path.startswith(f"{whole}/") for whole in self._whole)

    def _empty(self, path: str) -> None:
        # A file takes the place of a folder or a link, and one without content or rights
        # does nothing until it can be removed.
        self._archive.add_bytes(path, b"", 0o600)
        self.emptied.append(path)
        self._whole.append(path)

    def _restore(self, path: str) -> None:
        for place in _from_the_root(path):
            wanted, found = self._image.status(place), self._box.status(place)
            if wanted is None:
                if found is not None:
                    self._empty(place if place == path else path)
                return
            if place == path or not _alike(wanted, found):
                # What stands above a path decides where it leads.
                self._copy(place, wanted)
                return

    def _copy(self, path: str, wanted: FileStatus) -> None:
        self._whole.append(path)
        if wanted.kind == FOLDER:
            self._archive.add_bytes(path, b"", 0o600)
        for member, tar in self._image.members(path):
            name = member.name.partition("/")[2]
            content = tar.extractfile(member) if member.isreg() else None
            if member.islnk():
                member.linkname = _beside(path, member.linkname.partition("/")[2])
            self._archive.add_member(member, content, posixpath.join(path, name) if name else path)


def _beside(path: str, name: str) -> str:
    return posixpath.join(path, name).lstrip("/")


def _from_the_root(path: str) -> Iterator[str]:
    """Each folder above a path, and the path."""
    parts = path.strip("/").split("/")
    for count in range(1, len(parts) + 1):
        yield "/" + "/".join(parts[:count])


def _alike(wanted: FileStatus, found: FileStatus | None) -> bool:
    return found is not None and (wanted.kind, wanted.target) == (found.kind, found.target)
