"""A command that is talked to over the engine's socket."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import BinaryIO

from pytest_harbor.environment.docker.attach import (
    DRAIN_SEC,
    SILENCE_SEC,
    STDERR,
    AttachedStream,
    Deadline,
    FrameReader,
    Tail,
)
from pytest_harbor.environment.docker.command import MarkFilter, StartedProcess
from pytest_harbor.environment.process import CLOSE_GRACE_SEC, Process

_LOOK_SEC = 0.2
"""How often a thread that waits looks whether the process was closed."""

_QUEUED_PIECES = 16
"""Pieces of output, of 64 KiB at most, that are read ahead."""

_QUEUED_BEFORE_MARK = 1024
"""The same while the wrapper's mark is awaited, which may come behind the command's output."""


class DockerProcess(Process):
    """Reads on a thread of its own, so that the end is seen whether or not anybody reads."""

    def __init__(
        self,
        stream: AttachedStream,
        mark: bytes,
        kill: Callable[[StartedProcess], None],
        stderr: BinaryIO | None,
    ) -> None:
        """A command whose stream was just attached.

        Args:
            stream: The engine's end of it; this object closes it.
            mark: The wrapper's mark.
            kill: Kills the wrapper and its descendants.
            stderr: Takes the whole of standard error.
        """
        self._stream = stream
        self._frames = FrameReader()
        self._marks = MarkFilter(mark)
        self._kill = kill
        self._sink = stderr
        self._tail = Tail()
        self._pieces: queue.Queue[bytes] = queue.Queue(_QUEUED_PIECES)
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._closing = threading.Event()
        self._abandoned = threading.Event()
        self._input_ended = False
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._pump, name="harbor process", daemon=True)
        self._thread.start()

    def begin(self, timeout_sec: float) -> str | None:
        """Wait until the wrapper runs.

        Returns:
            None if it does, or did; else what the engine said instead, which may be nothing.
        """
        self._pieces.maxsize = _QUEUED_BEFORE_MARK
        self._begun.wait(timeout_sec)
        self._pieces.maxsize = _QUEUED_PIECES
        if self._marks.process is not None:
            return None
        words = b""
        while piece := self.read(0):
            words += piece
        return words.decode(errors="replace").strip()

    def write(self, data: bytes) -> None:
        """Hand ``data`` to standard input."""
        left = memoryview(data)
        with self._writing:
            while left:
                if self._input_ended or self._ended.is_set() or self._closing.is_set():
                    raise BrokenPipeError("the process has ended, or takes no more input")
                left = left[self._stream.send(left, _LOOK_SEC) :]

    def end_input(self) -> None:
        """Standard input is at its end."""
        with self._writing:
            if not self._input_ended:
                self._input_ended = True
                self._stream.end_input()

    def read(self, timeout_sec: float | None = None) -> bytes | None:
        """The next bytes of standard output."""
        deadline = Deadline(timeout_sec)
        while True:
            ended = self._ended.is_set() or self._closing.is_set()
            try:
                return self._pieces.get(timeout=0 if ended else max(deadline.within(_LOOK_SEC), 0))
            except queue.Empty:
                if ended:
                    return b""
                if deadline.passed:
                    return None

    def wait(self, timeout_sec: float | None = None) -> bool:
        """Whether the command has ended."""
        return self._ended.wait(timeout_sec)

    @property
    def exit_code(self) -> int | None:
        """The command's status, as the wrapper told."""
        return self._marks.exit_code

    @property
    def stderr(self) -> str:
        """The end of standard error."""
        return self._tail.text

    def close(self, grace_sec: float = CLOSE_GRACE_SEC) -> None:
        """End the input, wait, then kill."""
        if self._closing.is_set():
            return
        self._closing.set()
        try:
            self.end_input()
            if not self._ended.wait(grace_sec) and self._marks.process is not None:
                self._kill(self._marks.process)
                self._ended.wait(_LOOK_SEC)
        finally:
            self._abandoned.set()
            self._thread.join()
            self._stream.close()

    # -- the thread that reads ------------------------------------------------------

    def _pump(self) -> None:
        try:
            while self._marks.exit_code is None and not self._abandoned.is_set():
                data = self._stream.receive(_LOOK_SEC)
                if data == b"":
                    break
                self._take(data or b"")
            self._drain()
        except OSError:
            pass  # the engine's end of the socket is gone, and the process with it
        finally:
            self._begun.set()
            self._ended.set()

    def _drain(self) -> None:
        """Take what is on its way, without waiting for a child that holds the output."""
        limit = Deadline(DRAIN_SEC)
        while not limit.passed and (data := self._stream.receive(SILENCE_SEC)):
            self._take(data)
        self._take_stderr(self._marks.finish())

    def _take(self, data: bytes) -> None:
        for stream, piece in self._frames.feed(data):
            if stream == STDERR:
                self._take_stderr(self._marks.feed(piece))
            else:
                self._put(piece)
        if self._marks.process is not None:
            self._begun.set()

    def _take_stderr(self, data: bytes) -> None:
        self._tail.add(data)
        if self._sink is not None:
            self._sink.write(data)

    def _put(self, piece: bytes) -> None:
        """Queue output; once nobody reads any more, drop it."""
        while not self._closing.is_set():
            try:
                self._pieces.put(piece, timeout=_LOOK_SEC)
            except queue.Full:
                continue
            return
