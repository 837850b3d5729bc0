"""The file lists of an RPM database, taken apart here: no program of the box is asked."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing

_DIGESTS, _FOLDER_OF, _NAMES, _FOLDERS = 1035, 1116, 1117, 1118
_MAX_FILES = 1_000_000
_MAX_HEADER = 32 * 1024**2
_MAX_BYTES = 256 * 1024**2
_MAX_TURNS, _STEPS_A_TURN = 1000, 10_000
_READ_WITHOUT_LOG = b"\x01\x01"


def files_of_rpm(data: bytes) -> Iterator[tuple[str, str]]:
    """Path and hexadecimal digest of every file of every package; no digest for links.

    Raises:
        ValueError: It is no such database.
    """
    # The two bytes ask for a log beside the file, which there is none of in memory.
    data = data[:18] + _READ_WITHOUT_LOG + data[20:]
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            _limit(database)
            database.deserialize(data)
            left = _MAX_BYTES
            for (header,) in database.execute("SELECT blob FROM Packages"):
                left -= len(header)
                if left < 0:
                    raise ValueError("no database of RPM: too large")
                yield from _files_of(header)
    except (sqlite3.Error, TypeError) as error:
        raise ValueError(f"no database of RPM: {error}") from error


def _limit(database: sqlite3.Connection) -> None:
    """What is called a table may be a view, and that a program without an end."""
    turns = iter(range(_MAX_TURNS))
    database.set_progress_handler(lambda: next(turns, None) is None, _STEPS_A_TURN)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_HEADER)
    database.execute("PRAGMA trusted_schema = OFF")


def _files_of(header: bytes) -> Iterator[tuple[str, str]]:
    try:
        count, length = struct.unpack_from(">II", header)
        if len(header) < 8 + 16 * count + length:
            raise ValueError("no header of RPM: cut")
        store = header[8 + 16 * count : 8 + 16 * count + length]
        entries = {
            tag: (offset, number)
            for tag, _, offset, number in struct.iter_unpack(">IIII", header[8 : 8 + 16 * count])
        }
        if _NAMES not in entries:
            return
        names, folders = _texts(store, *entries[_NAMES]), _texts(store, *entries[_FOLDERS])
        at, number = entries[_FOLDER_OF]
        where = struct.unpack_from(f">{min(number, _MAX_FILES)}I", store, at)
        digests = _texts(store, *entries[_DIGESTS])
        for name, folder, digest in zip(names, where, digests, strict=False):
            yield folders[folder] + name, digest
    except (struct.error, KeyError, IndexError) as error:
        raise ValueError("no header of RPM") from error


def _texts(store: bytes, offset: int, number: int) -> list[str]:
    parts = store[offset:].split(b"\0", min(number, _MAX_FILES))
    return [part.decode("utf-8", "replace") for part in parts[:number]]
