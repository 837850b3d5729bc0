"""What a box holds beside its image, saved so that another box can be made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, Protocol, runtime_checkable

from pytest_harbor.environment.request import ImageLayer


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """What an archive of a box's files does not say itself.

    Attributes:
        image: How the box's image is called; one that was built is called by its content.
        image_id: Its id on the engine.
        built: It was built from a folder, by whose content it is called.
        layers: What was installed on top of it.
        removed: Paths of the image that the box lacks.
        left_out: Devices, which the archive lacks; it has no sockets either.
        files: How many entries the archive has.
        size: Bytes of their content.
    """

    image: str
    image_id: str
    built: bool
    layers: tuple[ImageLayer, ...] = ()
    removed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    files: int = 0
    size: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> SavedFiles:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: It is nothing of the kind.
        """
        removed = tuple(map(str, value["removed"]))
        if not all(one.startswith("/") and one.strip("/") for one in removed):
            raise ValueError("a removed path is not absolute")
        return cls(
            image=str(value["image"]),
            image_id=str(value["image_id"]),
            built=value["built"] is True,
            layers=tuple(map(_layer, value["layers"])),
            removed=removed,
            left_out=tuple(map(str, value["left_out"])),
            files=_count(value["files"]),
            size=_count(value["size"]),
        )


def _count(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no number of files or bytes")
    return value


def _layer(value: Mapping[str, Any]) -> ImageLayer:
    """A layer; its folder becomes a part of a line of a Dockerfile."""
    layer = ImageLayer(**value)
    texts = (layer.name, layer.script, layer.key, layer.folder)
    limit = layer.timeout_sec
    if not all(isinstance(one, str) for one in texts) or not layer.name:
        raise ValueError("a layer's name, script, key and folder are texts")
    if layer.folder and (not layer.folder.startswith("/") or set(layer.folder) & set(" \t\r\n")):
        raise ValueError(f"a layer's folder {layer.folder!r} is no absolute path")
    if limit is not None and not (isinstance(limit, int | float) and limit > 0):
        raise ValueError(f"a layer's limit {limit!r} is no time")
    return layer


@runtime_checkable
class SavesFiles(Protocol):
    """A box whose files can be saved; a backend without these three methods has none."""

    def save_files(self, sink: BinaryIO, *, already: int = 0) -> SavedFiles:
        """Write what differs from the image into ``sink``, as a tar archive for the root.

        Nothing runs in the box meanwhile.

        Args:
            sink: Takes the archive.
            already: Bytes that count against what may be saved of a box.

        Raises:
            UnsupportedError: The box has files that cannot be saved.
            BoxTooLargeError: It has too many.
            EnvironmentFault: They cannot be read.
        """

    def start_for(self, saved: SavedFiles, *, timeout_sec: float | None = None) -> None:
        """Start, in place of ``start()``, to be given the files that another box had.

        Args:
            saved: Of the other box.
            timeout_sec: As for ``start()``.

        Raises:
            UnsupportedError: The image is another than the other box's.
            EnvironmentFault: The box did not start.
        """

    def fill(self, saved: SavedFiles, archive: BinaryIO) -> None:
        """Have the files that another box had; done once, right after :meth:`start_for`.

        Args:
            saved: Of the other box.
            archive: What was saved, compressed with gzip.

        Raises:
            BoxTooLargeError: They are more than may be saved of a box, or than was said.
            EnvironmentFault: The box does not take them.
        """
