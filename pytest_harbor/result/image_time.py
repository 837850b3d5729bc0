"""What work on an image took."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

ImageWorkKind = Literal["build", "pull", "install"]


class ImageTime(NamedTuple):
    """One piece of work on an image that has ended, well or not.

    Attributes:
        kind: ``build``, ``pull``, or the ``install`` of a tool on top of an image.
        image: The image that was wanted, or the tool.
        seconds: How long it took.
    """

    kind: ImageWorkKind
    image: str
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """An entry of ``images`` in a trial's result."""
        return {**self._asdict(), "seconds": round(self.seconds, 3)}
