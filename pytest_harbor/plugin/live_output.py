"""What this process prints while a trial runs is without secrets on the terminal, too.

Under ``-s``, at the debugger, and wherever else capturing is switched off, what a Python agent
prints goes straight to the terminal. Loggers and pytest itself hold the streams that it goes
through, so those are changed and not replaced. What programs write that an agent starts on this
machine does not go through them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from pytest_harbor.trial.secrets import RedactingStream


def clean_output(secrets: Callable[[], Sequence[bytes]]) -> ExitStack:
    """Keep secrets out of all that is printed until the stack is closed.

    Args:
        secrets: Gives what is looked for.
    """
    stack = ExitStack()
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    for stream in {id(one): one for one in streams if one is not None}.values():
        with suppress(AttributeError):  # a stream of another kind, which cannot be changed
            stack.callback(_CleanWrites(stream, secrets).end)
    return stack


class _CleanWrites:
    """Stands in for a stream's ``write``.

    What may be the beginning of a secret waits for the next write, or for the end: whole lines
    never do, unless a secret begins with the end of one.
    """

    def __init__(self, stream: Any, secrets: Callable[[], Sequence[bytes]]) -> None:
        self._whole = stream
        # Binary output does not pass the text stream above.
        self._target = getattr(stream, "buffer", stream)
        self._write = self._target.write
        self._stream = RedactingStream(secrets)
        self._is_text = False
        self._lock = threading.Lock()
        self._target.write = self

    def __call__(self, data: Any) -> int:
        self._is_text = isinstance(data, str)
        piece = data.encode("utf-8", "surrogateescape") if self._is_text else bytes(data)
        with self._lock:
            self._pass_on(self._stream.feed(piece))
        return len(data)

    def end(self) -> None:
        """Write what waits, and be gone."""
        with suppress(OSError, ValueError):
            self._whole.flush()  # what still lies there comes here first
            with self._lock:
                self._pass_on(self._stream.finish())
            self._target.flush()
        self._target.write = self._write

    def _pass_on(self, data: bytes) -> None:
        if data:
            self._write(data.decode("utf-8", "surrogateescape") if self._is_text else data)
