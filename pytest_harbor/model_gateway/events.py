"""Server-sent events, cut out of a stream in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

EVENT_LIMIT = 256 * 1024
"""Bytes of one event that are read whole; of a longer one the start and the end are."""
TAIL = 64 * 1024

_HEAD = 1024
_END = re.compile(rb"\r?\n\r?\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        name: From its ``event:`` line; empty without one.
        data: Its ``data:`` lines.
        is_whole: Whether it was short enough to be kept; else ``data`` is its end alone.
    """

    name: str
    data: bytes
    is_whole: bool = True


class EventSplitter:
    """Takes a stream in pieces of any size and gives its events."""

    def __init__(self) -> None:
        self._head = b""
        self._held = bytearray()

    @property
    def is_within_event(self) -> bool:
        """Whether the stream ended in the middle of an event."""
        return bool(self._head or self._held.strip())

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Take a piece; give the events that are complete."""
        searched = max(len(self._held) - 3, 0)
        self._held += piece
        start = 0
        while (end := _END.search(self._held, max(searched, start))) is not None:
            event = self._event(bytes(self._held[start : end.start()]))
            start = end.end()
            if event is not None:
                yield event
        if start:
            del self._held[:start]
        if len(self._held) > EVENT_LIMIT:
            self._head = self._head or bytes(self._held[:_HEAD])
            del self._held[:-TAIL]

    def _event(self, text: bytes) -> Event | None:
        head, self._head = self._head, b""
        if head:
            return Event(_field(head, b"event").decode(errors="replace"), text, is_whole=False)
        data = _field(text, b"data")
        name = _field(text, b"event").decode(errors="replace")
        return Event(name, data) if data or name else None


def events_of(text: bytes) -> list[Event]:
    """The events of a stream that lies in memory; a last one may lack its end."""
    found = []
    for part in _END.split(text):
        data, name = _field(part, b"data"), _field(part, b"event")
        if data or name:
            found.append(Event(name.decode(errors="replace"), data))
    return found


def _field(text: bytes, name: bytes) -> bytes:
    lines = []
    for line in _LINE.split(text):
        key, colon, value = line.partition(b":")
        if colon and key == name:
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines)
