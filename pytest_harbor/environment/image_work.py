"""Long work on the images of a trial: what goes on now, and how long each piece took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pytest_harbor.result.image_time import ImageTime, ImageWorkKind

_DOING = {"build": "building", "pull": "pulling", "install": "installing"}


def _short(image: str) -> str:
    """An image's name for people: without the digest that our own are named by."""
    own = image.removeprefix("pytest-harbor/")
    return image if own == image else own.partition(":")[0]


def _nobody(_doing: str) -> None:
    """Is told of work that nobody follows."""


class ImageWork:
    """Of one trial; a backend tells it what takes long.

    Attributes:
        times: What has ended, in order.
        used: The images that boxes were made from, each as ``reference@id``.
    """

    def __init__(self, tell: Callable[[str], None] = _nobody) -> None:
        """Work of which ``tell`` is told in a few words; empty words: it is over."""
        self._tell = tell
        self._doing = ""
        self.times: list[ImageTime] = []
        self.used: list[str] = []

    @contextmanager
    def waiting(self, image: str) -> Iterator[None]:
        """Around all that waits for whoever else may be at it."""
        self._tell(f"waiting for {_short(image)}")
        try:
            yield
        finally:
            self._tell("")

    @contextmanager
    def doing(self, kind: ImageWorkKind, image: str) -> Iterator[None]:
        """Work on an image from here to the end of the block."""
        started = time.monotonic()
        self._doing = f"{_DOING[kind]} {_short(image)}"
        self._tell(self._doing)
        try:
            yield
        finally:
            self.times.append(ImageTime(kind, image, time.monotonic() - started))
            self._tell("")

    def step(self, step: str) -> None:
        """The work came to a step."""
        self._tell(f"{self._doing}: {step}")
