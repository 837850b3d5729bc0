"""Reading no more of a file than anybody will look at."""

from __future__ import annotations

from pathlib import Path

_USUAL_BYTES = 16 * 1024


def read_head(path: Path, limit: int) -> bytes:
    """The first ``limit`` bytes of a file.

    Raises:
        OSError: It cannot be read.
    """
    head = b""
    with open(path, "rb", buffering=0) as file:
        # Room for the whole limit is dear to ask for, and nearly no file of a task needs it.
        while data := file.read(min(limit - len(head), max(_USUAL_BYTES, len(head)))):
            head += data
    return head
