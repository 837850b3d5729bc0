"""Files of a job's folder: bounded, and never what a link leads to."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_harbor.errors import OptionError, TrajectoryFormatError
from pytest_harbor.result.trajectory_reader import load_json, read_bounded

MAX_JSON_BYTES = 16 * 1024**2
MAX_ENTRIES = 100_000
"""Entries of one folder that are looked at."""
MAX_FOUND = 2_000
"""Files below one folder that are listed."""
MAX_DEPTH = 40
_SNIFFED = 4096


class UnreadableError(ValueError):
    """A file that cannot be shown; says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """An entry below a folder: a file, or a link, device or folder that is not gone into.

    Attributes:
        path: From that folder, with slashes.
        size: In bytes; None for what is not a file.
        kind: ``file``, or what else it is.
    """

    path: str
    size: int | None
    kind: str = "file"


def read_object(path: Path, limit: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        UnreadableError: There is none that can be read.
    """
    try:
        value = load_json(read_bounded(path, limit))
    except TrajectoryFormatError as error:
        raise UnreadableError(f"{path.name}: {error}") from None
    if not isinstance(value, dict):
        raise UnreadableError(f"{path.name}: expected an object, got another value")
    return value


def read_list(path: Path, limit: int = MAX_JSON_BYTES) -> list[Any]:
    """The JSON list in a file; empty where there is none."""
    try:
        value = load_json(read_bounded(path, limit))
    except TrajectoryFormatError:
        return []
    return value if isinstance(value, list) else []


def read_text(path: Path, limit: int) -> str | None:
    """A text's beginning and its longer end; None where there is no file.

    The end of a log says most, its beginning what it is a log of.
    """
    descriptor = _open(path)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size <= limit:
            return _decoded(file.read(limit))
        head = file.read(limit // 4)
        file.seek(size - (limit - limit // 4))
        tail = file.read(limit - limit // 4)
    left_out = size - len(head) - len(tail)
    return f"{_decoded(head)}\n… {left_out:,} bytes not shown …\n{_decoded(tail)}"


def read_small_text(path: Path, limit: int) -> str | None:
    """A whole text file; None for a larger one and for one that holds no text."""
    try:
        data = read_bounded(path, limit)
    except TrajectoryFormatError:
        return None
    if b"\0" in data[:_SNIFFED]:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def write_lines(path: Path, pieces: Iterable[str]) -> None:
    """Write a file whole or not at all; into a pipe or a device piece by piece.

    Raises:
        OptionError: It cannot be written.
    """
    if _is_stream(path):
        _write_stream(path, pieces)
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                file.writelines(pieces)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror}") from error


def _is_stream(path: Path) -> bool:
    """Whether a file is one that nothing may be put in place of."""
    if str(path.absolute().parent).startswith(("/dev", "/proc")):  # as /dev/stdout, a link
        return path.exists()
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _write_stream(path: Path, pieces: Iterable[str]) -> None:
    try:
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.writelines(pieces)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror}") from error


def unlinked(path: Path) -> Path:
    """The path; in place of a link one where nothing is."""
    return Path(os.devnull, "link") if path.is_symlink() else path


def subfolders(path: Path) -> list[str]:
    """Names of the folders in a folder, in order; no links."""
    try:
        with os.scandir(path) as entries:
            listed = [one for one, _ in zip(entries, range(MAX_ENTRIES), strict=False)]
        return sorted(one.name for one in listed if one.is_dir(follow_symlinks=False))
    except OSError:
        return []


def files_below(path: Path) -> tuple[list[Found], bool]:
    """Every entry below a folder, in order, and whether some are left out."""
    found: list[Found] = []
    for one in _walk(path, "", 0):
        if len(found) >= MAX_FOUND:
            return found, True
        found.append(one)
    return found, False


def _walk(folder: Path, prefix: str, depth: int) -> Iterator[Found]:
    try:
        with os.scandir(folder) as scanned:
            entries = [one for one, _ in zip(scanned, range(MAX_ENTRIES), strict=False)]
    except OSError:
        return
    for entry in sorted(entries, key=lambda one: one.name):
        name = f"{prefix}{entry.name}"
        if not entry.is_dir(follow_symlinks=False):
            yield _found(entry, name)
        elif depth < MAX_DEPTH:
            yield from _walk(folder / entry.name, f"{name}/", depth + 1)
        else:
            yield Found(name, None, "folder")


def _found(entry: os.DirEntry[str], name: str) -> Found:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return Found(name, None, "unreadable")
    if stat.S_ISLNK(status.st_mode):
        return Found(name, None, "link")
    if not stat.S_ISREG(status.st_mode):
        return Found(name, None, "special file")
    return Found(name, status.st_size)


def _open(path: Path) -> int | None:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
