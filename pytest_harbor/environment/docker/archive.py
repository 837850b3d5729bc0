"""Files on their way into a container, as a tar archive."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

from pytest_harbor.errors import TransferError

_IN_MEMORY_BYTES = 4 * 1024 * 1024


class UploadArchive:
    """A tar archive for the container's root folder, filled entry by entry.

    The engine unpacks it so that an entry takes the place of whatever has its name,
    but for a folder on a folder, which merge. Folders above an entry are made where
    they are missing, and left alone where they are not.
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - close() does
        self._tar = tarfile.open(  # noqa: SIM115 - finish() closes it
            fileobj=cast("IO[bytes]", self._file), mode="w", format=tarfile.PAX_FORMAT
        )

    def add_folder(self, path: str, mode: int) -> None:
        """An empty folder, or another mode for the one that is there."""
        entry = tarfile.TarInfo(_member(path))
        entry.type = tarfile.DIRTYPE
        self._add(entry, mode)

    def add_cleared_folder(self, path: str, mode: int) -> None:
        """An empty folder in the place of whatever is there."""
        self._clear(path)
        self.add_folder(path, mode)

    def add_bytes(self, path: str, data: bytes, mode: int) -> None:
        """A file with this content."""
        entry = tarfile.TarInfo(_member(path))
        entry.size = len(data)
        self._add(entry, mode, io.BytesIO(data))

    def add_member(self, entry: tarfile.TarInfo, content: IO[bytes] | None, path: str) -> None:
        """An entry of another archive, under another name, with its owner and attributes."""
        self._tar.addfile(renamed(entry, path), content)

    def add_tree(
        self,
        source: Path,
        target: str,
        *,
        executable: Collection[str] = (),
        include: Callable[[PurePosixPath], bool] | None = None,
        replace: bool = False,
    ) -> None:
        """A file, or a folder's content; raises TransferError for what cannot be read."""
        if not source.is_dir():
            if replace:
                self._clear(target)
            mode = 0o755 if source.name in executable else None
            self._add_path(source, target, mode)
            return
        paths = [path for path in _walk(source) if include is None or include(path)]
        if replace:
            self._clear(target)
        if replace or not paths:
            self.add_folder(target, 0o755)
        for path in paths:
            mode = 0o755 if path.as_posix() in executable else None
            self._add_path(source / path, f"{target.rstrip('/')}/{path}", mode)

    def _clear(self, target: str) -> None:
        # A file in a folder's place makes the engine remove the folder with all in it,
        # and spares a command that would do it.
        self.add_bytes(target, b"", 0o600)

    def _add_path(self, source: Path, target: str, mode: int | None) -> None:
        try:
            status = source.lstat()
            entry = _entry(source, status, _member(target))
            wanted = stat.S_IMODE(status.st_mode) if mode is None else mode
            if entry.type != tarfile.REGTYPE:
                self._add(entry, wanted)
                return
            with source.open("rb") as content:
                self._add(entry, wanted, content)
        except OSError as error:
            raise TransferError(f"{source}: cannot be read for upload: {error}") from error

    def _add(self, entry: tarfile.TarInfo, mode: int, content: IO[bytes] | None = None) -> None:
        entry.mode = mode
        self._tar.addfile(entry, content)

    def finish(self) -> IO[bytes]:
        """The whole archive, at its start."""
        self._tar.close()
        self._file.seek(0)
        return cast("IO[bytes]", self._file)

    def close(self) -> None:
        """Let go of what was gathered."""
        self._file.close()


def renamed(entry: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
    """An entry of another archive, for the path that it has from the root."""
    stale = ("path", "linkpath", "size")
    entry.pax_headers = {k: v for k, v in entry.pax_headers.items() if k not in stale}
    entry.name = _member(path)
    return entry


def _member(path: str) -> str:
    return path.strip("/")


def _entry(source: Path, status: os.stat_result, name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mtime = status.st_mtime
    if stat.S_ISLNK(status.st_mode):
        entry.type = tarfile.SYMTYPE
        entry.linkname = os.readlink(source)
    elif stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
    elif stat.S_ISREG(status.st_mode):
        entry.size = status.st_size
    else:
        raise TransferError(f"{source}: only files, folders and links can be uploaded")
    return entry


def _walk(folder: Path) -> Iterator[PurePosixPath]:
    """Relative paths of all that is below ``folder``, folders before their content."""

    def fail(error: OSError) -> None:
        raise TransferError(f"{error.filename}: cannot be read for upload: {error}") from error

    for where, folders, files in os.walk(folder, onerror=fail):
        folders.sort()
        relative = Path(where).relative_to(folder)
        for name in sorted([*folders, *files]):
            yield PurePosixPath((relative / name).as_posix())
