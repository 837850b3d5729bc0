"""Files between this machine and a container, by the engine's archive requests."""

from __future__ import annotations

import base64
import io
import json
import posixpath
import re
import tarfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

import requests

from pytest_harbor.environment.base import DownloadLimits, DownloadReport
from pytest_harbor.environment.docker.archive import UploadArchive
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.extraction import ByteStream, extract
from pytest_harbor.environment.repack import repack
from pytest_harbor.errors import EnvironmentLostError, TransferError

_CHUNK = 128 * 1024
_SLOWEST_BYTES_PER_SEC = 1024 * 1024
_BLOCKS = 16 * 1024
_MAX_MEMBERS_BYTES = 8 * 1024**3
_MISSING = re.compile(r"could not find the file|: no such file or directory$", re.IGNORECASE)

STATUS_HEADER = "X-Docker-Container-Path-Stat"
LINK = "a link"
FOLDER = "a folder"

# The engine writes a file's mode as Go does, whose kinds are flags at the top.
_GO_KINDS = {
    1 << 31: FOLDER,
    1 << 27: LINK,
    1 << 26: "a device",
    1 << 25: "a named pipe",
    1 << 24: "a socket",
}


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What the engine says of a path before its content.

    Attributes:
        size: In bytes.
        kind: What it is if it is no regular file; empty if it is one.
        target: Where it leads, if it is a link.
    """

    size: int
    kind: str
    target: str = ""

    @classmethod
    def of(cls, response: requests.Response) -> FileStatus:
        """Read the header of an archive response."""
        # Podman writes the alphabet for URLs, Docker the usual one.
        header = response.headers[STATUS_HEADER].translate(str.maketrans("-_", "+/"))
        status = json.loads(base64.b64decode(header))
        mode = status["mode"]
        kind = next((kind for flag, kind in _GO_KINDS.items() if mode & flag), "")
        return cls(status["size"], kind, status.get("linkTarget") or "")


def _packed_link(name: str, target: str) -> bytes:
    """An archive that holds one link."""
    packed = io.BytesIO()
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(entry)
    return packed.getvalue()


class Transfer:
    """Moves files in and out of one container."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container

    @property
    def container(self) -> str:
        """Whose files these are."""
        return self._container

    def put(self, archive: UploadArchive, doing: str) -> None:
        """Unpack an archive at the container's root."""
        self.put_file(archive.finish(), doing)

    def put_file(self, content: IO[bytes] | BinaryIO, doing: str) -> None:
        """Unpack an archive at the container's root."""
        size = content.seek(0, 2)
        content.seek(0)
        self._put(content, doing, size)

    def put_stream(self, pieces: Iterator[bytes], doing: str, size: int) -> None:
        """Unpack an archive that comes piece by piece, of about this size."""
        self._put(pieces, doing, size)

    def _put(self, data: IO[bytes] | BinaryIO | Iterator[bytes], doing: str, size: int) -> None:
        with self._engine.errors(doing, TransferError):
            self._engine.api.request_container(
                "PUT",
                self._container,
                "archive",
                params={"path": "/"},
                data=data,
                timeout=self._engine.api.timeout + size / _SLOWEST_BYTES_PER_SEC,
            )

    def download(
        self,
        source: str,
        target: Path,
        limits: DownloadLimits,
        filter_data: Callable[[BinaryIO], BinaryIO] | None,
    ) -> DownloadReport:
        """Unpack a file or folder of the container on this machine."""
        with closing(self._get(source)) as response:
            return extract(
                self._chunks(response, source), target, limits=limits, filter_data=filter_data
            )

    def archive(
        self, source: str, sink: BinaryIO, limits: DownloadLimits, exclude: Sequence[str]
    ) -> DownloadReport:
        """Pack a file or folder of the container, made safe."""
        with closing(self._get(source)) as response:
            chunks = self._chunks(response, source)
            return repack(chunks, source, sink, limits=limits, exclude=exclude)

    def read(self, path: str, max_bytes: int) -> bytes:
        """Content of one regular file; judged before its first byte is read."""
        with closing(self._get(path)) as response:
            status = FileStatus.of(response)
            if status.kind:
                raise TransferError(f"{path} is {status.kind}; expected a regular file")
            if status.size > max_bytes:
                raise TransferError(f"{path} has {status.size} bytes; at most {max_bytes} are read")
            return self._only_member(response, path, max_bytes)

    def status(self, path: str) -> FileStatus | None:
        """What is at a path, links not followed; None if nothing is."""
        with self._engine.errors(f"looking at {path}", TransferError):
            response = self._engine.api.look_at(self._container, posixpath.normpath(path))
        return FileStatus.of(response) if STATUS_HEADER in response.headers else None

    def is_folder(self, path: str) -> bool:
        """Whether a folder is at a path, and no link to one."""
        status = self.status(path)
        return status is not None and status.kind == FOLDER

    def members(
        self, path: str, max_bytes: int = _MAX_MEMBERS_BYTES
    ) -> Generator[tuple[tarfile.TarInfo, tarfile.TarFile], None, None]:
        """What the engine packs of a path, each entry to be read before the next."""
        with closing(self._get(path)) as response:
            stream = ByteStream(self._chunks(response, path), max(max_bytes, _MAX_MEMBERS_BYTES))
            with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as tar:
                while (member := tar.next()) is not None:
                    yield member, tar

    def _only_member(self, response: requests.Response, path: str, max_bytes: int) -> bytes:
        stream = ByteStream(self._chunks(response, path), max_bytes + _BLOCKS)
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as tar:
                member = tar.next()
                content = tar.extractfile(member) if member and member.isreg() else None
                if content is None:
                    raise TransferError(f"{path} is no regular file")
                return content.read(max_bytes + 1)
        except tarfile.TarError as error:
            raise TransferError(f"{path}: its archive is broken: {error}") from error

    def _get(self, path: str) -> requests.Response:
        # A trailing slash would make the engine follow a link in the last place.
        clean = posixpath.normpath(path)
        if self._engine.is_podman and (link := self._link_at(clean)):
            return link
        try:
            with self._engine.errors(f"reading {path}", TransferError):
                return self._engine.api.request_container(
                    "GET", self._container, "archive", params={"path": clean}, stream=True
                )
        except (EnvironmentLostError, TransferError) as error:
            # Docker says "No such container:path" of a missing file, Podman names no path.
            if not _MISSING.search(str(error)):
                raise
            raise FileNotFoundError(f"{path} does not exist in the environment") from error

    def _link_at(self, path: str) -> requests.Response | None:
        """The status of a link; Podman would follow it, and may never return from there."""
        with self._engine.errors(f"looking at {path}", TransferError):
            response = self._engine.api.look_at(self._container, path)
        is_link = STATUS_HEADER in response.headers and FileStatus.of(response).kind == LINK
        return response if is_link else None

    def _chunks(self, response: requests.Response, path: str) -> Iterator[bytes]:
        status = FileStatus.of(response)
        if status.kind == LINK and self._engine.is_podman:
            # Docker packs the link itself.
            yield _packed_link(posixpath.basename(posixpath.normpath(path)), status.target)
            return
        with self._engine.errors(f"reading {path}", TransferError, lost=TransferError):
            yield from response.iter_content(_CHUNK)
