"""What in a container differs from its image, seen from outside.

The engine knows, and looks at every file of the image to find out. Where its storage is
this machine's and of the overlay kind, what a container changed lies in a folder of its
own: walking that takes milliseconds. It tells more, too: the engine takes a file for the
image's that has the same size and times, this walk does not.

Files on volumes and other mounts are no part of either.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pytest_harbor.environment.base import Change
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.transfer import FOLDER, LINK, Transfer
from pytest_harbor.errors import EnvironmentFault
from pytest_harbor.task.layout import LOGS_DIR, TESTS_DIR, VERIFIER_LOGS

MAX_ENTRIES = 300_000
_LOOKED_AT = (TESTS_DIR, LOGS_DIR, VERIFIER_LOGS)
_MAX_DEPTH = 200

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
OPAQUE = "trusted.overlay.opaque"
REDIRECT = "trusted.overlay.redirect"
_CAP_SYS_ADMIN = 21
_KINDS: Mapping[int, Literal["changed", "added", "deleted"]] = {
    0: "changed",
    1: "added",
    2: "deleted",
}

FileType = Literal["file", "folder", "link", "other", ""]


def find_changes(engine: Engine, container: str) -> list[Change]:
    """Everything that differs, by path."""
    layers = readable_layers(engine, container)
    if layers is not None:
        try:
            return walk_layers(*layers)
        except UnsuitableError:
            pass
    return changes_by_engine(engine, container)


def changes_by_engine(engine: Engine, container: str) -> list[Change]:
    """What the engine says; it tells no types, which are asked for where most depends on them."""
    with engine.errors(f"comparing {container} with its image", EnvironmentFault):
        answer = engine.api.diff(container) or ()
    found = [Change(each["Path"], _KINDS[each["Kind"]]) for each in answer]
    transfer = Transfer(engine, container)
    told = [_with_type(one, transfer) if one.path in _LOOKED_AT else one for one in found]
    return sorted(told, key=lambda change: change.path)


def _with_type(change: Change, transfer: Transfer) -> Change:
    status = transfer.status(change.path)
    if status is None:
        return change
    kinds: Mapping[str, FileType] = {"": "file", FOLDER: "folder", LINK: "link"}
    return replace(change, type=kinds.get(status.kind, "other"), target=status.target)


def walk_layers(upper: str, lowers: Sequence[str]) -> list[Change]:
    """What the folder of a container holds over the folders of its image, topmost first."""
    descriptor = os.open(upper, _FOLDER)
    walk = _Walk()
    try:
        walk.folder(descriptor, b"", [os.fsencode(lower) for lower in lowers], opaque=False)
    finally:
        os.close(descriptor)
    return sorted(walk.found, key=lambda change: change.path)


class UnsuitableError(Exception):
    """The folders cannot be read as what they mean; the engine can."""


def readable_layers(engine: Engine, container: str) -> tuple[str, list[str]] | None:
    """A container's own folder and its image's, where this process may see all of them."""
    if not engine.endpoint.address.startswith("unix://") or not _sees_trusted_attributes():
        return None
    with engine.errors(f"looking at {container}", EnvironmentFault):
        inspected: Mapping[str, Any] = engine.api.inspect_container(container)
    driver = inspected.get("GraphDriver") or {}
    data = driver.get("Data") or {}
    if driver.get("Name") not in ("overlay2", "overlay") or not data.get("UpperDir"):
        return None
    lowers = str(data.get("LowerDir") or "").split(":")
    folders = [data["UpperDir"], *lowers]
    return (folders[0], lowers) if all(map(os.path.isdir, folders)) else None


def _sees_trusted_attributes() -> bool:
    """Whether the marks on folders show: without the right they seem not to be there."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            held = re.search(r"^CapEff:\s*([0-9a-f]+)", file.read(), re.MULTILINE)
    except OSError:
        return False
    return bool(held and int(held[1], 16) >> _CAP_SYS_ADMIN & 1)


class _Walk:
    """One walk through a container's own folder, which its processes may change meanwhile."""

    def __init__(self) -> None:
        self.found: list[Change] = []

    def folder(self, upper: int, path: bytes, lowers: list[bytes], *, opaque: bool) -> None:
        """Everything in one folder; ``lowers`` are the image's folders at the same place."""
        names = os.listdir(upper)
        for name in names:
            self._entry(upper, path, os.fsencode(name), lowers)
        if opaque:
            hidden = _names(lowers) - {os.fsencode(name) for name in names}
            for missing in hidden:
                self._add(path + b"/" + missing, "deleted", "")

    def _entry(self, upper: int, above: bytes, name: bytes, lowers: list[bytes]) -> None:
        path = above + b"/" + name
        try:
            status = os.stat(name, dir_fd=upper, follow_symlinks=False)
            if is_whiteout(status):
                if _below(lowers, name)[0]:
                    self._add(path, "deleted", "")
                return
            in_image, inner = _below(lowers, name)
            kind: Literal["changed", "added"] = "changed" if in_image else "added"
            target = os.readlink(name, dir_fd=upper) if stat.S_ISLNK(status.st_mode) else b""
            if target and in_image and _link_below(lowers, name) == target:
                return  # made anew, as installers do, and the same
            self._add(path, kind, _type(status.st_mode), target)
            if stat.S_ISDIR(status.st_mode):
                self._inner(upper, path, name, inner)
        except FileNotFoundError:
            return  # gone meanwhile
        except NotADirectoryError:
            return  # another kind of thing meanwhile

    def _inner(self, upper: int, path: bytes, name: bytes, lowers: list[bytes]) -> None:
        if path.count(b"/") > _MAX_DEPTH:
            raise UnsuitableError
        try:
            descriptor = os.open(name, _FOLDER, dir_fd=upper)
        except OSError as error:
            raise FileNotFoundError(error.errno, error.strerror) from error
        try:
            if attribute(descriptor, REDIRECT) is not None:
                raise UnsuitableError
            opaque = attribute(descriptor, OPAQUE) == b"y"
            self.folder(descriptor, path, lowers, opaque=opaque)
        finally:
            os.close(descriptor)

    def _add(
        self,
        path: bytes,
        kind: Literal["changed", "added", "deleted"],
        of_type: FileType,
        target: bytes = b"",
    ) -> None:
        if len(self.found) >= MAX_ENTRIES:
            raise UnsuitableError
        leads_to = target.decode(errors="replace")
        self.found.append(Change(path.decode(errors="replace"), kind, of_type, leads_to))


def _below(lowers: list[bytes], name: bytes) -> tuple[bool, list[bytes]]:
    """Whether the image has this entry, and the folders that make it up if it is one."""
    exists, folders = False, []
    for place, status in _entries(lowers, name):
        if is_whiteout(status) or (exists and not stat.S_ISDIR(status.st_mode)):
            break
        exists = True
        if not stat.S_ISDIR(status.st_mode):
            break
        folders.append(place)
        if attribute(place, OPAQUE) == b"y":
            break
    return exists, folders


def _link_below(lowers: list[bytes], name: bytes) -> bytes:
    """Where the image's link of this name leads; empty where it has no link there."""
    for place, status in _entries(lowers, name):
        return os.readlink(place) if stat.S_ISLNK(status.st_mode) else b""
    return b""


def _entries(lowers: list[bytes], name: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Every layer's entry of this name, the uppermost first."""
    for lower in lowers:
        place = lower + b"/" + name
        try:
            status = os.lstat(place)
        except OSError:
            continue
        yield place, status


def _names(folders: list[bytes]) -> set[bytes]:
    """What the image has in a folder."""
    listed = {name for folder in folders for name in os.listdir(folder)}
    return {name for name in listed if _below(folders, name)[0]}


def attribute(place: int | bytes, name: str) -> bytes | None:
    """What the kernel noted at a file of a layer; None where it noted nothing."""
    try:
        if isinstance(place, int):
            return os.getxattr(place, name)
        return os.getxattr(place, name, follow_symlinks=False)
    except OSError:
        return None


def is_whiteout(status: os.stat_result) -> bool:
    """Whether a layer says with this that a file of those below is gone."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _type(mode: int) -> FileType:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
