"""A hostile archive from one box → a safe one that another box can unpack.

Pure: works on any tar stream, needs no engine. Owners and modes are kept, set-id bits
are not; links are kept only where they stay inside what is taken. Everything else is
left out and named with the reason.
"""

from __future__ import annotations

import fnmatch
import posixpath
import tarfile
from collections.abc import Iterable, Sequence
from typing import IO, BinaryIO, cast

from pytest_harbor.environment.base import DownloadLimits, DownloadReport
from pytest_harbor.environment.extraction import (
    BROKEN_STREAM,
    KINDS,
    MAX_SKIPPED,
    OVERHEAD_BYTES,
    ByteStream,
    printable,
    relative_name,
)
from pytest_harbor.errors import TransferError


def repack(
    chunks: Iterable[bytes],
    source: str,
    sink: BinaryIO,
    *,
    limits: DownloadLimits,
    exclude: Sequence[str] = (),
) -> DownloadReport:
    """Copy the engine's archive of one file or folder into ``sink``, made safe.

    Args:
        chunks: The tar stream; its names begin with the last part of ``source``.
        source: Absolute path in the box; names in ``sink`` are absolute paths without
            their leading slash, so that the archive is unpacked at the root.
        sink: Takes the archive; left at its end.
        limits: Where to stop; what was taken until then is a whole archive.
        exclude: Patterns of tar's ``--exclude``: a name, or a path below ``source``.

    Raises:
        TransferError: The stream is no tar archive or ends too early.
    """
    bound = limits.total_bytes + (limits.files + 2) * OVERHEAD_BYTES
    stream = cast("IO[bytes]", ByteStream(chunks, bound))
    try:
        with (
            tarfile.open(fileobj=stream, mode="r|", errorlevel=1) as tar,
            tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT) as safe,
        ):
            packing = _Packing(safe, source, limits, exclude)
            packing.run(tar)
            return packing.report()
    except BROKEN_STREAM as error:
        raise TransferError(f"the archive of {source} is broken: {error}") from error


class _Packing:
    def __init__(
        self, safe: tarfile.TarFile, source: str, limits: DownloadLimits, exclude: Sequence[str]
    ) -> None:
        self._safe = safe
        self._root = posixpath.normpath(source).strip("/")
        self._limits = limits
        self._exclude = exclude
        self._taken: set[str] = set()
        self._skipped: dict[str, str] = {}
        self._dropped: set[str] = set()
        self._bytes = 0
        self._entries = 0
        self._complete = True

    def report(self) -> DownloadReport:
        return DownloadReport(tuple(sorted(self._taken)), self._skipped, self._complete)

    def run(self, tar: tarfile.TarFile) -> None:
        first = tar.next()
        if first is None:
            return
        root = first.name.rstrip("/")
        self._take(tar, first, "")
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined, unused-ignore]
            if not self._complete:
                return
            relative = relative_name(member.name, root)
            if relative is None:
                self._skip(member.name, "points outside the folder")
            elif relative:
                if member.islnk():
                    member.linkname = relative_name(member.linkname, root) or ""
                self._take(tar, member, relative)

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo, relative: str) -> None:
        if self._is_excluded(relative):
            return
        if not self._fits(member):
            self._complete = False
            return
        name = posixpath.join(self._root, relative) if relative else self._root
        reason = self._refusal(member, relative)
        if reason is not None:
            self._skip(relative or name, reason)
            return
        entry = _safe_entry(member, name)
        if member.islnk():
            entry.linkname = posixpath.join(self._root, member.linkname)
        self._safe.addfile(entry, tar.extractfile(member) if member.isreg() else None)
        if not member.isdir():
            self._taken.add(relative or posixpath.basename(name))

    def _is_excluded(self, relative: str) -> bool:
        if not relative or not self._exclude:
            return False
        parent = posixpath.dirname(relative)
        names = (relative, posixpath.basename(relative))
        matched = any(fnmatch.fnmatchcase(n, p.rstrip("/")) for n in names for p in self._exclude)
        if matched or parent in self._dropped:
            self._dropped.add(relative)
            return True
        return False

    def _fits(self, member: tarfile.TarInfo) -> bool:
        self._entries += 1
        self._bytes += member.size if member.isreg() else 0
        return self._entries <= self._limits.files and self._bytes <= self._limits.total_bytes

    def _refusal(self, member: tarfile.TarInfo, relative: str) -> str | None:
        if member.isreg() or member.isdir():
            return None
        if member.islnk() and member.linkname in self._taken:
            return None
        if member.issym():
            if relative and not leads_out(relative, member.linkname):
                return None
            return "link that leads out of the artifact"
        return KINDS.get(member.type, "unknown kind of entry")

    def _skip(self, path: str, reason: str) -> None:
        if len(self._skipped) < MAX_SKIPPED:
            self._skipped[printable(path)] = reason


def _safe_entry(member: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = member.type if not member.isreg() else tarfile.REGTYPE
    entry.size = member.size if member.isreg() else 0
    entry.mode = member.mode & 0o777
    entry.uid, entry.gid = max(member.uid, 0), max(member.gid, 0)
    entry.mtime = max(member.mtime, 0)
    entry.linkname = member.linkname if member.issym() else ""
    return entry


def leads_out(path: str, link: str) -> bool:
    """Whether a link at ``path`` below the root may lead out of the root."""
    return link.startswith("/") or _depth(path, link) < 0


def _depth(path: str, link: str) -> int:
    """Lowest depth below the root that is reached on the way from ``path`` along ``link``."""
    depth = path.count("/")
    lowest = depth
    for part in link.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        lowest = min(lowest, depth)
    return lowest
