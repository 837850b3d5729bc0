"""The log of an image's build: whole in its file, its end in a message."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TextIO

TAIL_LINES = 30
_MAX_LINE = 500

# "Step 3/5 : RUN exit 7" of the classic builder, "#6 [2/3] RUN exit 7" of BuildKit.
_STEP = re.compile(
    r"^(?:Step (?P<classic>\d+/\d+) : |#\d+ \[[^\]]*?(?P<kit>\d+/\d+)\] )(?P<text>.+)$"
)
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class BuildLog:
    """Lines of a build as they come."""

    def __init__(
        self,
        file: TextIO | None,
        path: Path | None,
        on_step: Callable[[str], None] | None = None,
    ) -> None:
        self._file = file
        self._path = path
        self._on_step = on_step
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self._step = ""
        self._unfinished = ""

    @classmethod
    @contextmanager
    def opened(
        cls, path: Path | None, on_step: Callable[[str], None] | None = None
    ) -> Iterator[Self]:
        """A log that writes to ``path``, whose folder is made, and tells ``on_step`` each step."""
        if path is None:
            yield cls(None, None, on_step)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            yield cls(file, path, on_step)

    def write(self, text: str) -> None:
        """Take a piece of the log, of any length."""
        if self._file is not None:
            self._file.write(text)
            self._file.flush()
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            self._note(_TERMINAL_CODES.sub("", line).rstrip())

    def _note(self, line: str) -> None:
        if not line:
            return
        self._lines.append(line[:_MAX_LINE])
        if match := _STEP.match(line):
            self._step = match["text"]
            if self._on_step is not None:
                self._on_step(f"{match['classic'] or match['kit']} {self._step}"[:_MAX_LINE])

    def tail(self) -> str:
        """The last lines, and where all of them are."""
        where = f"whole log: {self._path}" if self._path else ""
        rest = [self._unfinished] if self._unfinished.strip() else []
        return "\n".join(filter(None, [*(f"  | {line}" for line in [*self._lines, *rest]), where]))

    def last_step(self) -> str:
        """The step that ran last, ready to be appended to a sentence."""
        return f"; it was at: {self._step}" if self._step else ""

    def failure(self, dockerfile: Path, reason: str) -> str:
        """Message for a build that failed: the line, the reason, the log's end."""
        number = line_of_step(dockerfile, self._step)
        place = f"{dockerfile}:{number}" if number else str(dockerfile)
        step = f": {self._step}" if self._step else ""
        return f"{place}{step}: the image's build failed: {reason}\n{self.tail()}"


def line_of_step(dockerfile: Path, step: str) -> int | None:
    """Line from 1 on which an instruction begins; None if it cannot be told.

    Builders print an instruction on one line, however many it has in the file.
    """
    wanted = _words(step)
    if not wanted:
        return None
    try:
        lines = dockerfile.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for number, _ in enumerate(lines, start=1):
        if _words(_instruction(lines[number - 1 :]))[: len(wanted)] == wanted:
            return number
    return None


def _instruction(lines: list[str]) -> str:
    """The instruction on the first line, with the lines that continue it."""
    joined = ""
    for line in lines:
        if line.lstrip().startswith("#") and joined:
            continue
        joined += line.rstrip().removesuffix("\\") + " "
        if not line.rstrip().endswith("\\"):
            break
    return joined


def _words(text: str) -> list[str]:
    return text.split()
