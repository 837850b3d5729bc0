"""Unpacking what comes out of a container, which is hostile, onto this machine.

Pure: works on any tar stream, needs no engine. Only regular files and folders are
written, nothing outside the target, nothing through a link, no set-id bits, no foreign
owner; whatever else the stream holds is named with the reason why it was left out.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, BinaryIO, cast

from pytest_harbor.environment.base import DownloadLimits, DownloadReport
from pytest_harbor.errors import TransferError

MAX_SKIPPED = 1000
"""A box can hold any number of things that are skipped; the report names the first."""

OVERHEAD_BYTES = 10 * 1024
BROKEN_STREAM = (tarfile.TarError, EOFError, ValueError, OverflowError, IndexError)
_FORBIDDEN_ON_WINDOWS = re.compile(r'[<>:"\\|?*]|[. ]$', re.MULTILINE)
_DISK_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
KINDS = {
    tarfile.SYMTYPE: "link",
    tarfile.LNKTYPE: "hard link",
    tarfile.CHRTYPE: "device",
    tarfile.BLKTYPE: "device",
    tarfile.FIFOTYPE: "named pipe",
}


class ByteStream:
    """File-like view of an iterable of bytes, with an upper bound of what is read."""

    def __init__(self, chunks: Iterable[bytes], limit: int) -> None:
        self._chunks = iter(chunks)
        self._rest = b""
        self._left = limit

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end."""
        parts: list[bytes] = []
        missing = size
        while missing > 0:
            if not self._rest:
                self._rest = next(self._chunks, b"")
                if not self._rest:
                    break
            part, self._rest = self._rest[:missing], self._rest[missing:]
            parts.append(part)
            missing -= len(part)
        data = b"".join(parts)
        self._left -= len(data)
        if self._left < 0:
            raise TransferError("the engine sent more than the limits of a download allow")
        return data


class Extraction:
    """One tar stream being unpacked below one folder."""

    def __init__(
        self,
        target: Path,
        limits: DownloadLimits,
        filter_data: Callable[[BinaryIO], BinaryIO] | None,
        *,
        case_sensitive: bool,
    ) -> None:
        self._target = target
        self._limits = limits
        self._filter_data = filter_data
        self._case_sensitive = case_sensitive
        self._bytes = 0
        self._entries = 0
        self._sizes: dict[str, int] = {}
        self._skipped: dict[str, str] = {}
        self._seen: dict[str, str] = {}
        self._complete = True

    def run(self, members: Iterator[tuple[tarfile.TarInfo, str | None, BinaryIO | None]]) -> None:
        """Write every member; stops at the first that a limit forbids."""
        for member, relative, content in members:
            if not self._fits(member):
                self._complete = False
                return
            reason = "points outside the folder" if relative is None else None
            path = member.name if relative is None else relative
            if reason is None:
                reason = self._forbidden(member, path)
            if reason is None:
                reason = self._write(member, path, content)
            if reason is not None:
                self._skip(path, reason)

    def report(self) -> DownloadReport:
        """What was done."""
        return DownloadReport(tuple(sorted(self._sizes)), self._skipped, self._complete)

    def _fits(self, member: tarfile.TarInfo) -> bool:
        self._entries += 1
        # A second name of a file is written as a copy, so it counts like one.
        twin = self._sizes.get(member.linkname, 0) if member.islnk() else 0
        self._bytes += member.size if member.isreg() else twin
        return self._entries <= self._limits.files and self._bytes <= self._limits.total_bytes

    def _skip(self, path: str, reason: str) -> None:
        if len(self._skipped) < MAX_SKIPPED:
            self._skipped[printable(path)] = reason

    def _forbidden(self, member: tarfile.TarInfo, path: str) -> str | None:
        """Why a member is not to be written, judged by its kind and name alone."""
        is_copy = member.islnk() and member.linkname in self._sizes
        if not (member.isreg() or member.isdir() or is_copy):
            return KINDS.get(member.type, "unknown kind of entry")
        if printable(path) != path:
            return "name is not valid text"
        if os.name == "nt" and any(_FORBIDDEN_ON_WINDOWS.search(p) for p in path.split("/")):
            return "name is not valid on this system"
        return None if self._case_sensitive else self._collision(path)

    def _collision(self, path: str) -> str | None:
        """Two names that are one here: the second would replace the first."""
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            name = "/".join(parts[:end])
            first = self._seen.setdefault(name.casefold(), name)
            if first != name:
                return f"differs from {first} in case alone"
        return None

    def _write(self, member: tarfile.TarInfo, path: str, content: BinaryIO | None) -> str | None:
        try:
            if member.isdir():
                return self._make_folder(path)
            parent = path.rpartition("/")[0]
            if parent and (reason := self._make_folder(parent)):
                return reason
            return self._write_file(member, path, content)
        except OSError as error:
            if error.errno in _DISK_FULL:
                raise TransferError(f"{self._target / path}: {error.strerror}") from error
            return f"cannot be written here: {error.strerror or error}"

    def _make_folder(self, path: str) -> str | None:
        """Make a folder and those above it; never enter one through a link."""
        current = self._target
        for part in path.split("/"):
            current /= part
            with suppress(FileExistsError):
                current.mkdir()
            if not stat.S_ISDIR(current.lstat().st_mode):
                return f"{part} is there already and is no folder"
        return None

    def _write_file(
        self, member: tarfile.TarInfo, path: str, content: BinaryIO | None
    ) -> str | None:
        target = self._target / path
        if target.is_dir() and not target.is_symlink():
            return "there is a folder of that name already"
        target.unlink(missing_ok=True)
        mode = (member.mode & 0o777) | 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(target, flags, mode), "wb") as file:
            if member.islnk():
                with (self._target / member.linkname).open("rb") as twin:
                    shutil.copyfileobj(twin, file)
            elif content is not None:
                source = self._filter_data(content) if self._filter_data else content
                shutil.copyfileobj(source, file)
            self._sizes[path] = file.tell()
        return None


def extract(
    chunks: Iterable[bytes],
    target: Path,
    *,
    limits: DownloadLimits,
    filter_data: Callable[[BinaryIO], BinaryIO] | None = None,
    case_sensitive: bool | None = None,
) -> DownloadReport:
    """Unpack the engine's archive of one file or folder.

    The archive's names begin with the name of what was asked for; that part is
    replaced by ``target``, so a lone file becomes ``target`` itself.

    Args:
        chunks: The tar stream.
        target: A file's path, or the folder to fill.
        limits: Where to stop; the rest of the stream is not read.
        filter_data: Wraps each file's bytes.
        case_sensitive: Whether names that differ in case alone are two; None: try it out.

    Raises:
        TransferError: The stream is no tar archive or ends too early.
    """
    bound = limits.total_bytes + (limits.files + 2) * OVERHEAD_BYTES
    try:
        with tarfile.open(
            fileobj=cast("IO[bytes]", ByteStream(chunks, bound)), mode="r|", errorlevel=1
        ) as tar:
            return _extract_all(tar, target, limits, filter_data, case_sensitive)
    except BROKEN_STREAM as error:
        raise TransferError(f"the archive from the container is broken: {error}") from error


def _extract_all(
    tar: tarfile.TarFile,
    target: Path,
    limits: DownloadLimits,
    filter_data: Callable[[BinaryIO], BinaryIO] | None,
    case_sensitive: bool | None,
) -> DownloadReport:
    first = tar.next()
    if first is None:
        return DownloadReport()
    folder = target if first.isdir() else target.parent
    folder.mkdir(parents=True, exist_ok=True)
    if case_sensitive is None:
        case_sensitive = is_case_sensitive(folder)
    extraction = Extraction(folder, limits, filter_data, case_sensitive=case_sensitive)
    if first.isdir():
        extraction.run(_members_below(tar, first.name.rstrip("/")))
    else:
        extraction.run(iter([(first, target.name, _content(tar, first))]))
    return extraction.report()


def _members_below(
    tar: tarfile.TarFile, root: str
) -> Iterator[tuple[tarfile.TarInfo, str | None, BinaryIO | None]]:
    while (member := tar.next()) is not None:
        # A stream is read once; keeping its members would keep a hostile number of them.
        tar.members = []  # type: ignore[attr-defined, unused-ignore]
        relative = relative_name(member.name, root)
        if member.islnk():
            member.linkname = relative_name(member.linkname, root) or ""
        if relative != "":
            yield member, relative, _content(tar, member)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> BinaryIO | None:
    return cast("BinaryIO | None", tar.extractfile(member)) if member.isreg() else None


def relative_name(name: str, root: str) -> str | None:
    """The part of a member's name below ``root``; empty for it; None if outside."""
    if name.rstrip("/") == root:
        return ""
    prefix = f"{root}/" if root not in ("", ".", "/") else ""
    if not name.startswith(prefix) or name.startswith("/") or "\0" in name:
        return None
    parts = [part for part in name[len(prefix) :].split("/") if part not in ("", ".")]
    return None if ".." in parts else "/".join(parts)


def printable(name: str) -> str:
    """The name with what no terminal or JSON file can hold written as escapes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in name
    )


def is_case_sensitive(folder: Path) -> bool:
    """Whether this folder tells ``A`` from ``a``."""
    probe = folder / ".Case-Probe"
    try:
        probe.touch()
        return not probe.with_name(probe.name.lower()).exists()
    finally:
        probe.unlink(missing_ok=True)
