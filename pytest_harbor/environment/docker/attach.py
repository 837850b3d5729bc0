"""Reading a command's output from the engine's socket, with deadlines and bounded memory."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

import requests

from pytest_harbor.environment.values import OUTPUT_TAIL_BYTES

STDERR = 2

SILENCE_SEC = 0.2
"""How long to wait for more output once the command has ended but its output is held open."""

DRAIN_SEC = 1.0
"""The same if output keeps coming."""

_HEADER = struct.Struct(">BxxxL")
_CHUNK = 64 * 1024


class DeadlinePassedError(Exception):
    """The time is up; whoever set the deadline says what that means."""


class Deadline:
    """A point in time that may never come."""

    def __init__(self, timeout_sec: float | None) -> None:
        self.timeout_sec = timeout_sec
        self._end = None if timeout_sec is None else time.monotonic() + timeout_sec

    @property
    def remaining(self) -> float | None:
        """Seconds left, never below 0; None: no limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the time is up."""
        return self._end is not None and time.monotonic() >= self._end

    def within(self, limit_sec: float) -> float:
        """Seconds left, ``limit_sec`` at most."""
        return limit_sec if self._end is None else min(limit_sec, self._end - time.monotonic())


class FrameReader:
    """The engine's framing of two streams in one: 8 bytes of header, then the payload."""

    def __init__(self) -> None:
        self._header = b""
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Payloads in ``data`` with their stream; pieces of frames come as they are."""
        view = memoryview(data)
        while view:
            if self._left:
                piece = view[: self._left]
                self._left -= len(piece)
                view = view[len(piece) :]
                yield self._stream, bytes(piece)
                continue
            missing = _HEADER.size - len(self._header)
            self._header += bytes(view[:missing])
            view = view[missing:]
            if len(self._header) == _HEADER.size:
                self._stream, self._left = _HEADER.unpack(self._header)
                self._header = b""


class Tail:
    """The last bytes of a stream."""

    def __init__(self, limit: int = OUTPUT_TAIL_BYTES) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Append ``data``, dropping from the front."""
        self.total += len(data)
        self._kept += data[-self._limit :]
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    @property
    def text(self) -> str:
        """The kept end as text; a character cut in two at its front is left out."""
        kept = bytes(self._kept[-self._limit :])
        if self.total > self._limit:
            while kept and kept[0] & 0xC0 == 0x80:
                kept = kept[1:]
        return kept.decode(errors="replace")


class AttachedStream:
    """The engine's end of a running command; close it in any case."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response
        # The SDK reads from below this buffer, and loses what arrived with the headers.
        raw: Any = response.raw
        buffered = raw._fp.fp
        self._descriptor: int = buffered.fileno()
        self._socket = getattr(buffered.raw, "_sock", None)
        if self._socket is not None:
            self._socket.settimeout(0)
        # A TLS connection does not bear two threads at once.
        self._socket_lock = threading.Lock()
        os.set_blocking(self._descriptor, False)
        self._first: bytes = buffered.peek()
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(self._descriptor, select.POLLIN)

    def receive(self, wait_sec: float) -> bytes | None:
        """The next bytes; empty at the end of the stream; None if nothing came in time."""
        if self._first:
            first, self._first = self._first, b""
            return first
        if not self._readable(max(0.0, wait_sec)):
            return None
        try:
            return self._read()
        except (BlockingIOError, ssl.SSLWantReadError):
            return None

    def _read(self) -> bytes:
        if isinstance(self._socket, ssl.SSLSocket):
            with self._socket_lock:
                return self._socket.recv(_CHUNK)
        return os.read(self._descriptor, _CHUNK)

    def _readable(self, wait_sec: float) -> bool:
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True  # decrypted already: the descriptor below stays quiet
        if self._poll is None:
            return bool(select.select([self._descriptor], [], [], wait_sec)[0])
        return bool(self._poll.poll(wait_sec * 1000))

    @property
    def takes_input(self) -> bool:
        """Whether :meth:`send` and :meth:`end_input` can work."""
        return self._socket is not None

    def send(self, data: memoryview, wait_sec: float) -> int:
        """Hand over the beginning of ``data``, as much as is taken in time.

        Raises:
            BrokenPipeError: Nobody takes it any more.
        """
        assert self._socket is not None
        try:
            with self._socket_lock:
                return int(self._socket.send(data[:_CHUNK]))
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._await_room(wait_sec)
            return 0
        except ConnectionError as error:
            raise BrokenPipeError(str(error)) from error

    def _await_room(self, wait_sec: float) -> None:
        if self._poll is None:
            select.select([], [self._descriptor], [], wait_sec)
            return
        poll = select.poll()  # the reader's own is in use
        poll.register(self._descriptor, select.POLLOUT)
        poll.poll(wait_sec * 1000)

    def end_input(self) -> None:
        """The command gets no more input; it may be gone already."""
        with contextlib.suppress(OSError):
            # TLS has no end of one direction that the engine would take for it.
            if self._socket is not None and not isinstance(self._socket, ssl.SSLSocket):
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of the stream; the command is not touched."""
        self._response.close()


class Output:
    """Where a command's output goes: two tails, and the caller's sink.

    Attributes:
        stdout: End of standard output.
        stderr: End of standard error.
    """

    def __init__(self, sink: BinaryIO | None) -> None:
        self._sink = sink
        self.stdout = Tail()
        self.stderr = Tail()

    def add(self, stream: int, data: bytes) -> None:
        """Take a piece of one stream."""
        if not data:
            return
        (self.stderr if stream == STDERR else self.stdout).add(data)
        if self._sink is not None:
            self._sink.write(data)
