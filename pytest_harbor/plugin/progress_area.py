"""Lines below what pytest writes on a terminal, gone before it writes on.

pytest writes pieces of lines, and may be in the middle of one. So the cursor is always where
pytest left it; what is shown stands behind it and is erased from there, whatever the
terminal made of it since.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter

_ERASE = "\x1b[J"
_SAVE, _RESTORE = "\x1b7", "\x1b8"
_DOWN = "\x1bD"  # scrolls at the bottom, and keeps the column
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"


class LiveArea:
    """The end of a terminal's screen."""

    def __init__(self, fd: int, encoding: str, writer: TerminalWriter) -> None:
        """An area on the terminal ``fd``, on which ``writer`` writes.

        Args:
            fd: A descriptor of its own: while a test runs, standard output is captured.
            encoding: The terminal's.
            writer: pytest's; what it writes erases the area first.
        """
        self._fd = fd
        self._encoding = encoding
        self._writer = writer
        self._lock = threading.RLock()
        self._drawn = False
        self._closed = False
        self._write_raw = writer.write_raw
        writer.flush()
        writer.write_raw = self._erase_and_write  # type: ignore[method-assign]

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal, now."""
        columns, rows = os.get_terminal_size(self._fd)
        return columns or 80, rows or 24  # a new pseudo-terminal has none

    def show(self, lines: Sequence[str]) -> None:
        """Show lines, each narrower than the terminal, in place of those before.

        Raises:
            OSError: The terminal is gone.
        """
        with self._lock:
            if not lines or self._is_at_edge():
                self.clear()
                return
            number = len(lines)
            room = f"{_DOWN * number}\x1b[{number}A"
            text = "".join(f"\r\n{line}" for line in lines)
            self._drawn = True
            self._put(f"{_HIDE}{_ERASE}{room}{_SAVE}{text}{_RESTORE}{_SHOW}")

    def clear(self) -> None:
        """Show nothing."""
        with self._lock:
            if self._drawn:
                self._drawn = False
                with contextlib.suppress(OSError):
                    self._put(_ERASE)

    def close(self) -> None:
        """Show nothing from now on."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self.clear()
            if self._writer.write_raw == self._erase_and_write:
                self._writer.write_raw = self._write_raw  # type: ignore[method-assign]
            os.close(self._fd)

    def _is_at_edge(self) -> bool:
        """The line is just full: saved and restored there, the cursor would not wrap any more."""
        width = self._writer.width_of_current_line
        return width > 0 and width % self.size[0] == 0

    def _erase_and_write(self, msg: str, *, flush: bool = False) -> None:
        with self._lock:
            self.clear()
            self._write_raw(msg, flush=flush)
            self._writer.flush()  # what is still to come would be written over

    def _put(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        while data:
            data = data[os.write(self._fd, data) :]
