"""Values that must not reach a file, a report or a terminal, and how they are taken out."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import BinaryIO, cast

REDACTED = "[REDACTED]"
MIN_SECRET_CHARS = 4
"""Shorter values occur by chance in any output; taking them out would only garble it."""

_CHUNK = 64 * 1024


class Redactor:
    """Replaces every known secret by ``[REDACTED]``."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        kept = {secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS}
        # Longest first: a secret that contains another must go as a whole.
        self._texts = sorted(kept, key=lambda secret: (-len(secret), secret))
        self._bytes = [text.encode("utf-8", "surrogateescape") for text in self._texts]
        self.longest = max((len(data) for data in self._bytes), default=0)

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        for secret in self._texts:
            text = text.replace(secret, REDACTED)
        return text

    def data(self, data: bytes) -> bytes:
        """``data`` without secrets."""
        for secret in self._bytes:
            data = data.replace(secret, REDACTED.encode())
        return data

    def reader(self, source: BinaryIO) -> BinaryIO:
        """A reader of ``source`` that yields its bytes without secrets."""
        if not self._bytes:
            return source
        return cast("BinaryIO", io.BufferedReader(_RedactingReader(source, self)))

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """What of a stream may go on, without secrets, and what must wait for more.

        What waits is at most one byte shorter than the longest secret, and never cuts
        through a secret that is already whole.
        """
        cleaned = self.data(data)
        for start in range(max(len(cleaned) - self.longest + 1, 0), len(cleaned)):
            tail = cleaned[start:]
            if any(secret.startswith(tail) for secret in self._bytes):
                return cleaned[:start], tail
        return cleaned, b""


class _RedactingReader(io.RawIOBase):
    def __init__(self, source: BinaryIO, redactor: Redactor) -> None:
        self._source = source
        self._redactor = redactor
        self._ready = b""
        self._held = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self._ready and not self._ended:
            chunk = self._source.read(_CHUNK)
            self._ended = not chunk
            if self._ended:
                self._ready, self._held = self._redactor.data(self._held), b""
            else:
                self._ready, self._held = self._redactor.split(self._held + chunk)
        taken, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
