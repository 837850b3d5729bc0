"""Room on the disk: how much a dataset may take, and whether it is there."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from threading import Lock

from pytest_harbor.errors import DatasetError

OPTION = "--harbor-dataset-max-size"
DEFAULT_MAX_SIZE = 50 * 1024**3
"""The most that one dataset may take unless the user says otherwise, in bytes."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


class RoomError(DatasetError):
    """A dataset takes more room than it may, or than there is; none of it is run."""


class Room:
    """What one dataset may take; threads may share it.

    Args:
        limit: The most, in bytes.
        place: Where it comes to lie.
        hint: What else to do where the disk is full.

    Attributes:
        used: What it takes now, in bytes.
    """

    def __init__(self, limit: int, place: Path, hint: str = "") -> None:
        self._limit = limit
        self._place = place
        self._hint = hint
        self._lock = Lock()
        self._is_closed = False
        self.used = 0

    @property
    def left(self) -> int:
        """What it may still take, in bytes."""
        return max(self._limit - self.used, 0)

    def close(self) -> None:
        """Let nothing more in: whoever works for it in another thread ends at the next look."""
        self._is_closed = True

    def check(self, size: int, what: str, *, passing: int = 0) -> None:
        """See that there is room before it is used.

        Args:
            size: What is to stay, in bytes.
            what: What it is, for messages.
            passing: What else is on the disk meanwhile, in bytes.

        Raises:
            RoomError: There is not.
        """
        if size > self.left:
            raise self._too_large(f"{what}: {size_text(size)}", size)
        free = shutil.disk_usage(self._place).free
        if size + passing > free:
            raise RoomError(
                f"{what}: {size_text(size + passing)} are needed, and {size_text(free)} are free "
                f"on the disk of {self._place}{self._hint}"
            )

    def take(self, size: int, what: str) -> None:
        """Count what has come to lie there.

        Raises:
            RoomError: It is more than there may be.
        """
        with self._lock:
            if size > self.left:
                raise self._too_large(f"{what}: {size_text(size)}", size)
            self.used += size

    def watch(self, folder: Path, what: str) -> None:
        """Hold a folder that grows against what is left.

        Raises:
            RoomError: It is larger, or the room is closed.
        """
        if self._is_closed:
            raise RoomError(f"{what}: given up with the rest of the dataset")
        if (size := size_on_disk(folder)) > self.left:
            raise self._too_large(f"{what}: {size_text(size)} so far", size)

    def _too_large(self, what: str, size: int) -> RoomError:
        before = f" beside the {size_text(self.used)} that are there" if self.used else ""
        return RoomError(
            f"{what}{before}; a dataset may take {size_text(self._limit)}. Choose fewer of its "
            f"tasks with --harbor-tasks, or give it more room: {OPTION}={_asked(self.used + size)}"
        )


def parse_size(text: str) -> int:
    """Bytes of a size as ``50G``, ``1.5T`` or ``800M``; units are powers of 1024.

    Raises:
        ValueError: It is none, or nothing.
    """
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")) if match else 0
    if size < 1:
        raise ValueError(text)
    return size


def _asked(size: int) -> str:
    """A size that is enough, as the option takes it."""
    return f"{-(-size // 1024**3)}G"


def size_text(size: int) -> str:
    """A size for people."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}" if unit else f"{size} bytes"


def size_on_disk(folder: Path) -> int:
    """Bytes of all files below a folder that may change meanwhile."""
    total = 0
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            with suppress(OSError):
                if one.is_dir(follow_symlinks=False):
                    total += size_on_disk(Path(one.path))
                else:
                    total += one.stat(follow_symlinks=False).st_size
    return total
