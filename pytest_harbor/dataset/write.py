"""A tree that was found sound → files on the disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from pytest_harbor.dataset.tree import Entry
from pytest_harbor.errors import DatasetError

MAX_BYTES = 4 * 1024**3
"""Bound for one task, so that a hostile one does not fill the disk."""

TOO_LARGE = f"larger than {MAX_BYTES // 1024**3} GiB, which is the most for one task"

_CHUNK = 1024 * 1024


class Readable(Protocol):
    """What gives bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """At most so many bytes; none at the end."""


def write_tree(
    folder: Path, entries: Mapping[str, Entry], contents: Iterable[Readable], what: str
) -> None:
    """Write files and folders below a new folder.

    Args:
        folder: Made here.
        entries: Without links, by path.
        contents: The files' content, in the order of ``entries``.
        what: The task, for messages.

    Raises:
        DatasetError: Two paths are one on this disk, or there are too many bytes.
    """
    folder.mkdir(parents=True)
    left, reading = MAX_BYTES, iter(contents)
    for path, entry in entries.items():
        place = folder / path
        if entry.kind == "folder":
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        left -= _write(place, next(reading), left, what)
        place.chmod(0o755 if entry.is_executable else 0o644)


def _write(place: Path, content: Readable, left: int, what: str) -> int:
    written = 0
    try:
        with place.open("xb") as file:
            while chunk := content.read(_CHUNK):
                written += len(chunk)
                if written > left:
                    raise DatasetError(f"{what}: {TOO_LARGE}")
                file.write(chunk)
    except FileExistsError:
        raise DatasetError(
            f"{what}: {place.name!r} is there twice for this disk, which knows no small letters"
        ) from None
    return written
