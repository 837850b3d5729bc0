"""Bodies on their way into the record: little in memory, the rest on disk, and only so much."""

from __future__ import annotations

import tempfile
from typing import Any

IN_MEMORY = 256 * 1024
BODY_CAP = 16 * 1024 * 1024
"""Bytes of one body that the record keeps."""


class Spool:
    """Takes the bytes of one body.

    Attributes:
        size: Bytes that came.
    """

    def __init__(self, cap: int = BODY_CAP) -> None:
        self.size = 0
        self._cap = cap
        self._parts: list[bytes] = []
        self._file: Any = None

    def write(self, piece: bytes) -> None:
        """Take more bytes."""
        room = max(self._cap - self.size, 0)
        self.size += len(piece)
        kept = piece[:room]
        if not kept:
            return
        if self._file is None and self.size <= IN_MEMORY:
            self._parts.append(kept)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # until close()
            self._file.writelines(self._parts)
            self._parts.clear()
        self._file.write(kept)

    @property
    def dropped(self) -> int:
        """Bytes that came and were not kept."""
        return max(self.size - self._cap, 0)

    def read(self) -> bytes:
        """What was kept."""
        if self._file is None:
            return b"".join(self._parts)
        self._file.seek(0)
        data: bytes = self._file.read()
        return data

    def close(self) -> None:
        """Let go of the bytes."""
        self._parts.clear()
        if self._file is not None:
            self._file.close()
            self._file = None
