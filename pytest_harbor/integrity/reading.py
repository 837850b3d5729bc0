"""Files of a box and of its image, as far as a comparison needs them."""

from __future__ import annotations

import tarfile
from collections.abc import Collection, Mapping
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

from pytest_harbor.environment.base import DownloadLimits, Environment
from pytest_harbor.errors import EnvironmentLostError, HarborError

MAX_READ = 200
"""How many files are looked at; what is beyond them is judged by its name alone."""

MAX_TEXT_BYTES = 256 * 1024
"""How much of a text is judged."""

_MAX_PROGRAM_BYTES = 64 * 1024**2
_SMALL = 1024 * 1024
_MAX_VITAL = 1000
_FOLDER_LIMITS = DownloadLimits(total_bytes=96 * 1024**2, files=20_000)


class BoxFiles:
    """Reads what hostile hands may have written: never more than it must.

    Attributes:
        reads: How many files were asked for.
    """

    def __init__(self, environment: Environment, added: Collection[str]) -> None:
        self._environment = environment
        self._added = added
        self.reads = 0
        self._vital = 0
        self._folders: dict[str, Mapping[str, bytes]] = {}

    def read(self, path: str) -> bytes | None:
        """A file of the box; None where it is no small regular file, or too many were read."""
        self.reads += 1
        if self.reads > MAX_READ:
            return None
        return self._read(path, _MAX_PROGRAM_BYTES if path not in self._added else _SMALL)

    def read_vital(self, path: str) -> bytes | None:
        """The same for what runs unasked: other files cannot use up its share."""
        self._vital += 1
        return self._read(path, _SMALL) if self._vital <= _MAX_VITAL else None

    def below(self, folder: str, path: str) -> bytes | None:
        """A file of a folder that is fetched as a whole at the first of them: not counted."""
        if folder not in self._folders:
            self._folders[folder] = self.folder(folder)
        return self._folders[folder].get(path)

    def database(self, path: str) -> bytes | None:
        """A file of a package database: not counted."""
        return self._read(path, _MAX_PROGRAM_BYTES)

    def folder(self, path: str) -> Mapping[str, bytes]:
        """Every file of a folder of the box, in one request; none where that does not work."""
        with SpooledTemporaryFile(max_size=16 * 1024**2) as packed:
            file = cast("BinaryIO", packed)
            try:
                self._environment.archive(path, file, limits=_FOLDER_LIMITS)
            except EnvironmentLostError:
                raise
            except (FileNotFoundError, HarborError):
                return {}
            file.seek(0)
            with tarfile.open(fileobj=file) as tar:
                return {
                    f"/{member.name.strip('/')}": content.read()
                    for member in tar
                    if member.isreg() and (content := tar.extractfile(member)) is not None
                }

    def original(self, path: str) -> bytes | None:
        """A file of the image; None where it is no regular file."""
        try:
            return self._environment.original(path)
        except EnvironmentLostError:
            raise
        except (FileNotFoundError, HarborError):
            return None

    def in_image(self, path: str) -> bool:
        """Whether the image has anything at a path."""
        try:
            self._environment.original(path)
        except FileNotFoundError:
            return False
        except EnvironmentLostError:
            raise
        except HarborError:
            return True  # a link, as python3 is
        return True

    def _read(self, path: str, limit: int) -> bytes | None:
        try:
            return self._environment.read(path, max_bytes=limit)
        except EnvironmentLostError:
            raise
        except (FileNotFoundError, HarborError):
            return None


def text_of(content: bytes | None) -> str:
    """As much of a file as is judged; empty where there is none."""
    return (content or b"")[:MAX_TEXT_BYTES].decode("utf-8", "replace")
