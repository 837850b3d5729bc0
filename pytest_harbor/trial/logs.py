"""Log files on this machine: bounded, without secrets, whatever is written to them."""

from __future__ import annotations

import io
from pathlib import Path

from pytest_harbor.trial.secrets import Redactor

MAX_LOG_BYTES = 256 * 1024**2
"""Bytes that one log may grow to; the rest is counted and dropped."""


class LogFile(io.RawIOBase):
    """A binary log; takes any amount of output, keeps the first ``max_bytes``."""

    def __init__(self, path: Path, redactor: Redactor, max_bytes: int = MAX_LOG_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=64 * 1024)
        self._stream = redactor.stream()
        self._left = max_bytes
        self._dropped = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Append; nothing is ever refused."""
        piece = bytes(data)
        self._append(self._stream.feed(piece))
        return len(piece)

    def close(self) -> None:
        """Write what was held back, and how much was dropped."""
        if self.closed:
            return
        super().close()
        with self._file:
            self._append(self._stream.finish())
            if self._dropped:
                notice = f"\n[pytest-harbor: {self._dropped} more bytes were dropped]\n"
                self._file.write(notice.encode())

    def _append(self, data: bytes) -> None:
        kept = data[: self._left]
        self._file.write(kept)
        self._left -= len(kept)
        self._dropped += len(data) - len(kept)


def read_tail(path: Path, max_bytes: int = 4096) -> str:
    """The last bytes of a file as text; empty where there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(0, io.SEEK_END)
            file.seek(max(file.tell() - max_bytes, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
