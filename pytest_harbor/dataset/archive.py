"""Archives of published tasks: gzip tar, made by a stranger."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Iterator
from gzip import BadGzipFile, GzipFile
from pathlib import Path

from pytest_harbor.dataset.tree import MAX_ENTRIES, Entry, flatten
from pytest_harbor.dataset.write import Readable, write_tree
from pytest_harbor.errors import DatasetError

MAX_UNPACKED = 2 * 1024**3
_CHUNK = 1024 * 1024


def unpack(
    archive: Path, folder: Path, what: str, announced: Callable[[int], None] | None = None
) -> None:
    """Write an archive's files to a new folder.

    Args:
        archive: The archive; what it holds is written beside it, too.
        folder: Made here.
        what: The task, for messages.
        announced: Is told the size of what it holds, before that is written to the folder.

    Raises:
        DatasetError: It is no archive, or holds what a task may not.
    """
    plain = archive.with_suffix(".tar")
    try:
        size = _inflate(archive, plain, what)
        if announced is not None:
            announced(size)
        with tarfile.open(plain, "r:") as tar:
            entries, members = _entries(tar, what)
            flat = flatten(entries, what)
            write_tree(folder, flat, _contents(tar, flat, members), what)
    except (tarfile.TarError, BadGzipFile, EOFError, zlib.error, UnicodeError) as error:
        raise DatasetError(f"{what}: the archive cannot be read: {error}") from None
    finally:
        plain.unlink(missing_ok=True)


def _inflate(archive: Path, plain: Path, what: str) -> int:
    """Unzip within a bound; a tar's own headers can be bombs, too. Gives the size."""
    size = 0
    with GzipFile(archive) as packed, plain.open("wb") as file:
        while chunk := packed.read(_CHUNK):
            size += len(chunk)
            if size > MAX_UNPACKED:
                raise DatasetError(f"{what}: unpacks to more than {MAX_UNPACKED // 1024**3} GiB")
            file.write(chunk)
    return size


def _entries(
    tar: tarfile.TarFile, what: str
) -> tuple[dict[str, Entry], dict[str, tarfile.TarInfo]]:
    entries: dict[str, Entry] = {}
    members: dict[str, tarfile.TarInfo] = {}
    for member in tar:
        path = _path(member.name)
        if not path:
            continue
        if path in entries and not member.isdir():
            raise DatasetError(f"{what}: {path!r} is there twice")
        if len(entries) >= MAX_ENTRIES:
            raise DatasetError(f"{what}: holds more than {MAX_ENTRIES} files")
        entries.setdefault(path, _entry(member, path, members))
        if member.isfile():
            members[path] = member
    return entries, members


def _entry(member: tarfile.TarInfo, path: str, members: dict[str, tarfile.TarInfo]) -> Entry:
    if member.isdir():
        return Entry("folder")
    if member.issym():
        return Entry("link", member.linkname)
    if member.islnk() and (first := _path(member.linkname)) in members:
        return Entry("file", first, bool(members[first].mode & 0o111))
    if member.isreg():
        return Entry("file", path, bool(member.mode & 0o111))
    return Entry("special")


def _path(name: str) -> str:
    return "/".join(part for part in name.rstrip("/").split("/") if part != ".")


def _contents(
    tar: tarfile.TarFile, flat: dict[str, Entry], members: dict[str, tarfile.TarInfo]
) -> Iterator[Readable]:
    for entry in flat.values():
        if entry.kind == "file":
            content = tar.extractfile(members[entry.content])
            assert content is not None
            yield content
