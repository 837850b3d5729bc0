"""Changes to an answer on its way to the client: keys masked, counts nobody asked for held back."""

from __future__ import annotations

import json
from collections.abc import Iterable

_SHORTEST_KEY = 8
_END_OF_EVENT = b"\n\n"
_EVENT_LIMIT = 256 * 1024


class KeyMask:
    """Masks keys in bytes that come piece by piece; all other bytes stay as they are.

    Providers and proxies repeat keys in their errors. The mask is as long as the key, so
    that the length of a body holds.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = [key.encode() for key in keys if len(key) >= _SHORTEST_KEY]
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """Take a piece; give what may go on. What may become a key is held back."""
        data = self._masked(self._held + piece)
        held = max((_begun(data, key) for key in self._keys), default=0)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def finish(self) -> bytes:
        """There are no more pieces."""
        data, self._held = self._held, b""
        return data

    def _masked(self, data: bytes) -> bytes:
        for key in self._keys:
            if key in data:
                data = data.replace(key, b"x" * len(key))
        return data


def _begun(data: bytes, key: bytes) -> int:
    """How many bytes at the end are a key's beginning."""
    start = data.find(key[:1], max(len(data) - len(key) + 1, 0))
    while start >= 0:
        if key.startswith(data[start:]):
            return len(data) - start
        start = data.find(key[:1], start + 1)
    return 0


class UsageFilter:
    """Holds back the chunk with a stream's counts, which only the gateway asked for.

    Its ``choices`` are empty, and some clients look at the first of them.
    """

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """Take a piece; give the events that are complete."""
        *events, self._held = (self._held + piece).split(_END_OF_EVENT)
        if len(self._held) > _EVENT_LIMIT:
            events.append(self._held)
            self._held = b""
            return _END_OF_EVENT.join(events)
        return b"".join(event + _END_OF_EVENT for event in events if not _is_usage(event))

    def finish(self) -> bytes:
        """There are no more pieces."""
        data, self._held = self._held, b""
        return data


def _is_usage(event: bytes) -> bool:
    if b'"usage"' not in event:
        return False
    _, _, data = event.partition(b"data:")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and body.get("choices") == [] and bool(body.get("usage"))
