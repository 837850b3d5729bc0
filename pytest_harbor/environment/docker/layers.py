"""Files of an image read from the engine's own folders, where this process may.

Layers do not change, so a look at each name on the way is enough. Links on the way are
followed inside the image, as a container would, and never by the machine's own rules.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Sequence

from pytest_harbor.environment.docker.changes import (
    OPAQUE,
    REDIRECT,
    UnsuitableError,
    attribute,
    is_whiteout,
)
from pytest_harbor.errors import TransferError

_METACOPY = "trusted.overlay.metacopy"
_MAX_LINKS = 40


def read_from_layers(layers: Sequence[str], path: str, max_bytes: int) -> bytes:
    """Content of one regular file, as the topmost layer that has it has it.

    Raises:
        FileNotFoundError: The image does not have it.
        TransferError: It is no regular file, or too large.
        UnsuitableError: Only the engine can tell.
    """
    place = _locate([os.fsencode(layer) for layer in layers], os.fsencode(path))
    if place is None:
        raise FileNotFoundError(f"{path} does not exist in the image")
    mode = os.lstat(place).st_mode
    if not stat.S_ISREG(mode):
        kind = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}.get(stat.S_IFMT(mode), "a device")
        raise TransferError(f"{path} is {kind}; expected a regular file")
    if attribute(place, _METACOPY) is not None:
        raise UnsuitableError
    with os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise TransferError(f"{path} has {size} bytes; at most {max_bytes} are read")
        return file.read()


def _locate(layers: list[bytes], path: bytes) -> bytes | None:
    """Where on this machine a path of the image lies; a link in the last place is not followed."""
    folders, links = [layers], 0
    waiting = posixpath.normpath(path).split(b"/")[::-1]
    while waiting:
        name = waiting.pop()
        if name in (b"", b"."):
            continue
        if name == b"..":
            folders = folders[: max(len(folders) - 1, 1)]
            continue
        places = _places(folders[-1], name)
        if not places or not waiting:
            return places[0] if places else None
        kind = os.lstat(places[0]).st_mode
        if stat.S_ISLNK(kind) and links < _MAX_LINKS:
            links += 1
            target = os.readlink(places[0])
            folders = [layers] if target.startswith(b"/") else folders
            waiting += target.split(b"/")[::-1]
        elif stat.S_ISDIR(kind):
            folders.append(places)
        else:
            return None
    return None


def _places(folders: Sequence[bytes], name: bytes) -> list[bytes]:
    """An entry of a folder: the topmost, and where it is a folder those below that show through."""
    found: list[bytes] = []
    for folder in folders:
        place = folder + b"/" + name
        try:
            status = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_whiteout(status) or (found and not is_folder):
            break
        found.append(place)
        if is_folder and attribute(place, REDIRECT) is not None:
            raise UnsuitableError
        if not is_folder or attribute(place, OPAQUE) == b"y":
            break
    return found
