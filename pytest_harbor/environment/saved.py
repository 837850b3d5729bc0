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
        built: It was built from a folder.
        layers: What was installed on top of it.
        removed: Paths of the image that the box lacks.
        left_out: What the archive lacks: devices.
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
        layers = tuple(ImageLayer(**one) for one in value["layers"])
        removed = tuple(map(str, value["removed"]))
        if not all(one.startswith("/") and one.strip("/") for one in removed):
            raise ValueError("a removed path is not absolute")
        return cls(
            image=str(value["image"]),
            image_id=str(value["image_id"]),
            built=value["built"] is True,
            layers=layers,
            removed=removed,
            left_out=tuple(map(str, value["left_out"])),
            files=int(value["files"]),
            size=int(value["size"]),
        )


@runtime_checkable
class SavesFiles(Protocol):
    """A box whose files can be saved; a backend without these two methods has none."""

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

    def start_from(
        self, saved: SavedFiles, archive: BinaryIO, *, timeout_sec: float | None = None
    ) -> None:
        """Start, in place of ``start()``, with the files that another box had.

        Args:
            saved: Of the other box.
            archive: What was saved, compressed or not.
            timeout_sec: As for ``start()``.

        Raises:
            UnsupportedError: The image is another than the other box's.
            EnvironmentFault: The box did not start, or does not take the files.
        """
