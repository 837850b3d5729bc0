"""A container's image, read file by file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress

from pytest_harbor.environment.docker.changes import UnsuitableError, readable_layers
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.container import remove_container
from pytest_harbor.environment.docker.layers import read_from_layers
from pytest_harbor.environment.docker.transfer import Transfer
from pytest_harbor.errors import EnvironmentFault, TransferError

MAX_DIGEST_BYTES = 256 * 1024**2


def digest(read: Callable[[str, int], bytes], path: str) -> str | None:
    """SHA-256 of a regular file; None for what is none, is not there or is too large."""
    with suppress(FileNotFoundError, TransferError):
        return hashlib.sha256(read(path, MAX_DIGEST_BYTES)).hexdigest()
    return None


class ImageFiles:
    """The files of the image that a container was made from.

    They are read from the engine's folders where that can be, else through a second
    container, which is made at first need and never started.
    """

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container
        self._name = f"{container}-image"
        self._made = False
        self._layers: Sequence[str] | None = None

    def read(self, path: str, max_bytes: int) -> bytes:
        """Content of one regular file."""
        if self._layers is None:
            found = readable_layers(self._engine, self._container)
            self._layers = found[1] if found else ()
        if self._layers:
            with suppress(UnsuitableError, PermissionError):
                return read_from_layers(self._layers, path, max_bytes)
        return self.transfer.read(path, max_bytes)

    @property
    def transfer(self) -> Transfer:
        """The way to the files."""
        if not self._made:
            self._make()
        return Transfer(self._engine, self._name)

    @property
    def name(self) -> str:
        """Name of the second container; makes it."""
        return self.transfer.container

    def _make(self) -> None:
        doing = f"opening the image of {self._container}"
        with self._engine.errors(doing, EnvironmentFault):
            image = self._engine.api.inspect_container(self._container)["Image"]
            config = {
                "Image": image,
                "Entrypoint": ["never"],
                "Labels": self._engine.labels(),
                "HostConfig": {"NetworkMode": "none"},
            }
            self._made = True  # before the request: an interrupt must not lose the container
            self._engine.api.create_from(config, self._name)

    def remove(self) -> None:
        """Remove the second container, if there is one."""
        if self._made:
            self._made = False
            with self._engine.errors(f"removing {self._name}", EnvironmentFault):
                remove_container(self._engine, self._name)
