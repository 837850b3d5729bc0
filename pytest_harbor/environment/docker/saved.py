"""A box's files beside its image's: packed through the engine, and put into another box.

The engine tells what changed and packs it path by path; what it gives is passed on, never
unpacked on this machine. The other box is given the files by the engine, too.
"""

from __future__ import annotations

import gzip
import posixpath
import re
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from docker.errors import APIError

from pytest_harbor.environment.base import Change
from pytest_harbor.environment.docker.archive import renamed
from pytest_harbor.environment.docker.capabilities import require_seen_from_outside
from pytest_harbor.environment.docker.changes import find_changes
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.fork import most_copied
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.environment.docker.transfer import Transfer
from pytest_harbor.environment.extraction import BROKEN_STREAM, printable
from pytest_harbor.environment.saved import SavedFiles
from pytest_harbor.errors import (
    BoxTooLargeError,
    EnvironmentFault,
    TransferError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from pytest_harbor.environment.docker.networked import NetworkedBox

AT_ONCE = 20
"""So many changes in one folder are packed with the folder; each alone costs a request."""

_NAMED = 100
_CHUNK = 256 * 1024
_MOST_BESIDE_CONTENT = 16 * 1024  # headers, long names, attributes, what fills up blocks
# A command's arguments may take 2 MiB, as a rule, each with a pointer to it.
_MAX_ARGUMENTS = 1024 * 1024
_POINTER = 9
_BY_CONTENT = re.compile(r"pytest-harbor/[^:]+:([0-9a-f]{20})")
_PROGRAMS = re.compile(r"/(s?bin|lib(x?32|64)?)(/|$)|\.so\b")
# The engine's own, in every container.
_ENGINES = (
    "/proc", "/sys", "/dev", "/.dockerenv", "/run/.containerenv",
    "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab",
)  # fmt: skip
_NO_NAME = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Root:
    """One path that the engine packs.

    Attributes:
        path: The path.
        takes: Which paths of its archive are taken; empty: all.
    """

    path: str
    takes: frozenset[str] = frozenset()


def roots_of(changes: Sequence[Change]) -> tuple[list[Root], list[str]]:
    """What is to be packed, folders before their content, and what is gone.

    Raises:
        UnsupportedError: A path cannot be named to the engine.
    """
    roots: list[Root] = []
    removed: list[str] = []
    single: dict[str, list[str]] = defaultdict(list)
    whole = ""
    ordered = sorted(changes, key=lambda one: one.path.split("/"))
    for number, change in enumerate(ordered):
        path = change.path
        if _is_at(path, _ENGINES) or (whole and _is_at(path, (whole,))):
            continue
        if _NO_NAME in path:
            raise UnsupportedError(f"the name of {path} is not UTF-8")
        if change.kind == "added" and change.type in ("folder", ""):
            whole = path
            roots.append(Root(path))
            continue
        if change.kind == "deleted":
            removed.append(path)
            # One that was made anew after that is told of by what it holds.
            if not any(_is_at(one.path, (path,)) for one in ordered[number + 1 : number + 2]):
                continue
        single[posixpath.dirname(path)].append(path)
    return [*_singles(single), *roots], removed


def _singles(by_folder: Mapping[str, Sequence[str]]) -> Iterator[Root]:
    for folder, paths in sorted(by_folder.items()):
        if len(paths) > AT_ONCE and folder != "/":
            yield Root(folder, frozenset(paths))
        else:
            yield from (Root(path, frozenset([path])) for path in paths)


def _is_at(path: str, places: Sequence[str]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in places)


def save_files(
    engine: Engine, box: NetworkedBox, spec: ContainerSpec, sink: BinaryIO, already: int
) -> SavedFiles:
    """Pack what a box has beside its image; raises as :class:`SavesFiles` says."""
    if box.services:
        raise UnsupportedError(f"the state of {', '.join(box.services)} cannot be saved with it")
    with engine.errors(f"looking at {box.name}", EnvironmentFault):
        inspected = engine.api.request_container(
            "GET", box.name, "json", params={"size": "1"}
        ).json()
    require_seen_from_outside(engine, inspected["HostConfig"].get("Runtime"), box.name)
    _require_no_volumes(inspected)
    most = most_copied(spec) - already
    _require_fits(inspected.get("SizeRw") or 0, most)
    image, image_id = box.image_identity()
    with _still(engine, box.name), _broken_explained():
        roots, removed = roots_of(find_changes(engine, box.name))
        packing = Packing(Transfer(engine, box.name), sink, most)
        packing.run(roots)
    return SavedFiles(
        image=image,
        image_id=image_id,
        built=_BY_CONTENT.fullmatch(image) is not None,
        layers=spec.layers,
        removed=tuple(removed),
        left_out=tuple(packing.left_out),
        files=packing.files,
        size=packing.size,
    )


def _require_no_volumes(inspected: Mapping[str, Any]) -> None:
    mounts = [one for one in inspected.get("Mounts") or () if one["Type"] != "tmpfs"]
    if mounts:
        places = ", ".join(sorted(one["Destination"] for one in mounts))
        raise UnsupportedError(f"files on volumes are not saved: {places}")


def _require_fits(size: int, most: int) -> None:
    if size > most:
        raise BoxTooLargeError(f"they come to {size} bytes, holes counted; at most {most} are left")


@contextmanager
def _still(engine: Engine, name: str) -> Iterator[None]:
    """Nothing changes meanwhile, where the engine can see to that."""
    paused = False
    with suppress(APIError):  # an engine that cannot: what changes meanwhile may be torn
        engine.api.pause(name)
        paused = True
    try:
        yield
    finally:
        if paused:
            with engine.errors(f"letting {name} go on", EnvironmentFault):
                engine.api.unpause(name)


@contextmanager
def _broken_explained() -> Iterator[None]:
    try:
        yield
    except (*BROKEN_STREAM, gzip.BadGzipFile, zlib.error) as error:
        raise TransferError(f"an archive cannot be read: {error}") from error


class Packing:
    """One archive out of the engine's many.

    Attributes:
        left_out: Devices, by name; only the first. The engine itself leaves sockets out.
        files: Entries so far.
        size: Bytes of their content.
    """

    def __init__(self, transfer: Transfer, sink: BinaryIO, most: int) -> None:
        self._transfer = transfer
        self._sink = sink
        self._most = most
        self.left_out: list[str] = []
        self.files = 0
        self.size = 0

    def run(self, roots: Sequence[Root]) -> None:
        """Pack them all."""
        with tarfile.open(fileobj=self._sink, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for root in roots:
                with suppress(FileNotFoundError):  # gone meanwhile
                    self._pack(root, tar)

    def _pack(self, root: Root, tar: tarfile.TarFile) -> None:
        with closing(self._transfer.members(root.path, self._most)) as members:
            for member, source in members:
                source.members = []  # type: ignore[attr-defined, unused-ignore]
                inner = member.name.partition("/")[2].rstrip("/")
                path = posixpath.join(root.path, inner) if inner else root.path
                if root.takes and path not in root.takes:
                    continue
                if member.islnk() and root.takes and path != root.path:
                    self._pack(Root(path, frozenset([path])), tar)
                else:
                    self._add(member, source, path, root.path, tar)
                if root.takes == {path}:
                    return  # not what a folder holds

    def _add(
        self,
        member: tarfile.TarInfo,
        source: tarfile.TarFile,
        path: str,
        root: str,
        tar: tarfile.TarFile,
    ) -> None:
        if member.ischr() or member.isblk():
            self.left_out += [printable(path)] if len(self.left_out) < _NAMED else []
            return
        self.files, self.size = self.files + 1, self.size + member.size
        _require_fits(self.size, self._most)
        if member.islnk():
            member.linkname = posixpath.join(root, member.linkname.partition("/")[2]).lstrip("/")
        content: IO[bytes] | None = source.extractfile(member) if member.isreg() else None
        tar.addfile(renamed(member, path), content)
        tar.members = []  # type: ignore[attr-defined, unused-ignore]


def fill(
    engine: Engine, box: NetworkedBox, spec: ContainerSpec, saved: SavedFiles, archive: BinaryIO
) -> None:
    """Give a box that has just started what another was found to have."""
    _require_fits(saved.size, most_copied(spec))
    for batch in removals(saved.removed):
        result = box.exec(["rm", "-rf", "--", *batch], user="0", cwd="/")
        if result.exit_code != 0:
            raise EnvironmentFault(f"{box.name}: files cannot be removed: {result.output}")
    # Programs of the box are not run from here on: they may be the agent's.
    most = saved.size + (saved.files + 1) * _MOST_BESIDE_CONTENT
    pieces = unpacked(archive, most)
    Transfer(engine, box.name).put_stream(pieces, f"filling {box.name}", saved.size)


def removals(paths: Iterable[str]) -> Iterator[Sequence[str]]:
    """Paths as the arguments of so many commands; what commands need themselves goes last."""
    batch, size = list[str](), 0
    for path in sorted(paths, key=lambda path: (bool(_PROGRAMS.search(path)), path)):
        length = len(path.encode()) + _POINTER
        if batch and size + length > _MAX_ARGUMENTS:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += length
    if batch:
        yield batch


def unpacked(archive: BinaryIO, most: int) -> Iterator[bytes]:
    """The content of a compressed archive, of which the engine is given no more than was said.

    Raises:
        BoxTooLargeError: There is more.
        TransferError: It cannot be read.
    """
    size = 0
    with _broken_explained(), gzip.GzipFile(fileobj=archive, mode="rb") as content:
        while piece := content.read(_CHUNK):
            size += len(piece)
            if size > most:
                raise BoxTooLargeError("the archive of the saved files holds more than was saved")
            yield piece


def require_same_image(saved: SavedFiles, image: str, image_id: str) -> None:
    """See that the files are put over the image that they were compared with.

    Raises:
        UnsupportedError: They are not.
    """
    content = _BY_CONTENT.fullmatch(saved.image), _BY_CONTENT.fullmatch(image)
    same = bool(content[0] and content[1] and content[0][1] == content[1][1])
    if saved.image_id == image_id or (saved.built and same):
        return
    raise UnsupportedError(
        f"its files were saved over the image {saved.image} ({saved.image_id[:19]}), and the"
        f" environment's is {image} ({image_id[:19]}) now; have the environment as it was then,"
        " or run the trial again"
    )
