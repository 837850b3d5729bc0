"""Values that must not reach a file, a report or a terminal, and how they are taken out."""

from __future__ import annotations

import io
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import AnyStr, BinaryIO, cast
from urllib.parse import quote, quote_plus

REDACTED = "[REDACTED]"
MIN_SECRET_CHARS = 4
"""Shorter values occur by chance in any output; taking them out would only garble it."""

# Switches under names such as AUTH_ENABLED. Without them no JSON file could be written,
# a reward least of all.
_COMMON_WORDS = frozenset({"true", "false", "null", "none"})
_CHUNK = 64 * 1024
_MAX_LINES = 200
_MIN_LINE_CHARS = 16
_MIN_ENCODED_CHARS = 8
"""The middle of a shorter value in base64 occurs by chance."""


class Redactor:
    """Replaces every known secret by ``[REDACTED]``.

    A secret is known as it is and as JSON, Python, HTML, URLs and base64 write it; of one with
    many lines, each long line is one. Where secrets overlap, all that belongs to any of them
    goes, and one ``[REDACTED]`` stands for it.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Hide more values, in what comes from now on."""
        whole = [part for secret in secrets for part in (secret, *_lines(secret))]
        known = [secret for secret in whole if _is_worth_hiding(secret)]
        forms = {form for secret in known for form in _forms(secret)}
        self._texts = sorted({*self._texts, *forms})
        self._bytes = [text.encode("utf-8", "surrogateescape") for text in self._texts]

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        return _without(text, list(_spans(text, self._texts)), REDACTED)

    def data(self, data: bytes) -> bytes:
        """``data`` without secrets."""
        return _without(data, list(_spans(data, self._bytes)), REDACTED.encode())

    def stream(self) -> RedactingStream:
        """Take secrets out of bytes that come piece by piece."""
        return RedactingStream(self.forms)

    def forms(self) -> Sequence[bytes]:
        """All that is looked for now."""
        return self._bytes

    def reader(self, source: BinaryIO) -> BinaryIO:
        """A reader of ``source`` that yields its bytes without secrets."""
        if not self._bytes:
            return source
        return cast("BinaryIO", io.BufferedReader(_RedactingReader(source, self.stream())))


class RedactingStream:
    """Gives the same bytes as :meth:`Redactor.data`, however they are cut into pieces.

    What may become a secret with the next piece is held back: always less than the
    longest secret.
    """

    def __init__(self, secrets: Callable[[], Sequence[bytes]]) -> None:
        """Begin a stream; ``secrets`` gives what is looked for, which may become more."""
        self._secrets = secrets
        self._held = b""
        self._covered = 0  # so many bytes of those held belong to a secret that was replaced

    def feed(self, piece: bytes) -> bytes:
        """Take a piece; give what may go on."""
        data = self._held + piece
        return self._release(data, _start_of_unfinished(data, self._secrets()))

    def finish(self) -> bytes:
        """There are no more pieces; give what was held back."""
        return self._release(self._held, len(self._held))

    def _release(self, data: bytes, end: int) -> bytes:
        if not end:
            self._held = data
            return b""
        begun = [(0, self._covered)] if self._covered else []
        found = _merged([*begun, *_spans(data, self._secrets())])
        spans = [span for span in found if span[0] < end]
        last = spans[-1][1] if spans else 0
        self._held, self._covered = data[end:], max(last - end, 0)
        released = _without(data[: max(end, last)], spans, REDACTED.encode())
        return released.removeprefix(REDACTED.encode()) if begun else released


class _RedactingReader(io.RawIOBase):
    def __init__(self, source: BinaryIO, stream: RedactingStream) -> None:
        self._source = source
        self._stream = stream
        self._ready = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self._ready and not self._ended:
            piece = self._source.read(_CHUNK)
            self._ended = not piece
            self._ready = memoryview(self._stream.feed(piece) if piece else self._stream.finish())
        taken, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


def _is_worth_hiding(secret: str) -> bool:
    return len(secret) >= MIN_SECRET_CHARS and secret.lower() not in _COMMON_WORDS


def _lines(secret: str) -> Iterator[str]:
    """The lines of a key that has many: logs and tracebacks put something before each."""
    lines = secret.splitlines()
    if 1 < len(lines) <= _MAX_LINES:
        yield from (line.strip() for line in lines if len(line.strip()) >= _MIN_LINE_CHARS)


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    # As Python shows it: within a longer text either quote may be around it.
    parts = [repr('"' + part)[2:-1] for part in secret.split("'")]
    yield "'".join(parts)
    yield "\\'".join(parts)
    yield escape(secret)
    yield escape(secret, quote=False)
    yield from _url_forms(secret)
    yield from _base64_forms(secret.encode("utf-8", "surrogateescape"))


def _url_forms(secret: str) -> Iterator[str]:
    """As the clients of several languages quote it."""
    for form in (
        quote(secret, safe="", errors="surrogateescape"),
        quote(secret, safe="/", errors="surrogateescape"),
        quote(secret, safe="!~*'()", errors="surrogateescape"),
        quote_plus(secret, errors="surrogateescape"),
    ):
        yield form
        yield re.sub("%..", lambda match: match[0].lower(), form)


def _base64_forms(secret: bytes) -> Iterator[str]:
    """What base64 makes of it, wherever in a text it stands, as behind the name of a user.

    Three bytes are four characters: by where the secret begins among the three, there are three
    forms, each without the characters that what stands before and behind has a part in.
    """
    if len(secret) < _MIN_ENCODED_CHARS:
        return
    for before in range(3):
        bits = 8 * before, 8 * (before + len(secret))
        text = b64encode(b"\0" * before + secret).decode()[-(-bits[0] // 6) : bits[1] // 6]
        yield text
        yield text.replace("+", "-").replace("/", "_")


def _spans(data: AnyStr, secrets: Iterable[AnyStr]) -> Iterator[tuple[int, int]]:
    """Start and end of whatever belongs to a secret, in order; none touches another's inside."""
    return _merged(
        (start, start + len(secret)) for secret in secrets for start in _places(data, secret)
    )


def _places(data: AnyStr, secret: AnyStr) -> Iterator[int]:
    start = data.find(secret)
    while start >= 0:
        yield start
        start = data.find(secret, start + 1)


def _merged(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Make one span of those that overlap; those that only touch stay two."""
    current: tuple[int, int] | None = None
    for start, end in sorted(spans):
        if current is None or start >= current[1]:
            if current is not None:
                yield current
            current = (start, end)
        else:
            current = (current[0], max(current[1], end))
    if current is not None:
        yield current


def _without(data: AnyStr, spans: Sequence[tuple[int, int]], instead: AnyStr) -> AnyStr:
    if not spans:
        return data
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(data)]
    return instead.join(data[start:end] for start, end in zip(starts, ends, strict=True))


def _start_of_unfinished(data: bytes, secrets: Iterable[bytes]) -> int:
    """Where the first part begins that more bytes may make a secret; the end if none does."""
    first = len(data)
    for secret in secrets:
        start = data.find(secret[:1], max(len(data) - len(secret) + 1, 0))
        while 0 <= start < first:
            if secret.startswith(data[start:]):
                first = start
            start = data.find(secret[:1], start + 1)
    return first
