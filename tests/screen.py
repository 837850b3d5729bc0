"""A terminal of the test's own: a pseudo-terminal, and what would be seen on it."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import pyte
from pyte.screens import Char

_LIMIT_SEC = 60.0


class Screen:
    """What has been written to a pseudo-terminal.

    Attributes:
        raw: All of it.
    """

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._master, self.slave = pty.openpty()
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._process: subprocess.Popen[bytes] | None = None
        self.raw = b""
        self.resize(columns, rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._master)
        os.close(self.slave)

    def resize(self, columns: int, rows: int) -> None:
        """Make the terminal another size."""
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, size)
        self._screen.resize(rows, columns)

    def forget_size(self) -> None:
        """Tell programs of no size, as a new pseudo-terminal does."""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))

    def run(self, argv: Sequence[str], env: dict[str, str], folder: Path) -> None:
        """Start a program on it, in a session of its own."""
        end = self.slave
        self._process = subprocess.Popen(
            argv, env=env, cwd=folder, stdin=end, stdout=end, stderr=end, start_new_session=True
        )

    def type(self, text: str) -> None:
        """As somebody at the keyboard does."""
        os.write(self._master, text.encode())

    def wait(self, limit_sec: float = _LIMIT_SEC) -> int:
        """Follow the program to its end; its status."""
        assert self._process is not None
        process = self._process
        self._read_until(lambda: process.poll() is not None, "the end", limit_sec)
        self.read()
        return process.returncode

    def read(self) -> str:
        """Take what there is; what is seen now."""
        while select.select([self._master], [], [], 0.02)[0]:
            data = os.read(self._master, 65536)
            self.raw += data
            self._stream.feed(data)
        return self.text

    @property
    def text(self) -> str:
        """What is seen, without blanks at the ends."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def rows(self) -> list[list[Char]]:
        """The signs on it, with their colours."""
        columns = range(self._screen.columns)
        return [
            [self._screen.buffer[row][at] for at in columns] for row in range(self._screen.lines)
        ]

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and row of the cursor, from 0."""
        return self._screen.cursor.x, self._screen.cursor.y

    def read_until(self, *words: str) -> str:
        """Follow until all of these are seen at once; what is seen then."""
        self._read_until(lambda: all(word in self.text for word in words), words)
        return self.text

    def _read_until(
        self, is_so: Callable[[], bool], what: object, limit_sec: float = _LIMIT_SEC
    ) -> None:
        limit = time.monotonic() + limit_sec
        while not is_so():
            self.read()
            if time.monotonic() > limit:
                raise TimeoutError(f"waited for {what}; seen:\n{self.text}")
