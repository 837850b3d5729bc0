"""Pulling a prebuilt image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_harbor.environment.docker.attach import Deadline, DeadlinePassedError
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.progress import ProgressStream
from pytest_harbor.errors import (
    EngineUnavailableError,
    EnvironmentStartTimeoutError,
    ImageNotFoundError,
)


class PullProgress:
    """How far a pull is, by its events."""

    def __init__(self) -> None:
        self._layers: dict[str, bool] = {}

    def take(self, event: Mapping[str, Any]) -> str:
        """Take an event; how far it is now, empty before any layer is known."""
        layer, status = str(event.get("id") or ""), str(event.get("status") or "")
        if status in ("Pulling fs layer", "Waiting"):
            self._layers.setdefault(layer, False)
        elif status in ("Pull complete", "Already exists"):
            self._layers[layer] = True
        done = sum(self._layers.values())
        return f"{done}/{len(self._layers)} layers" if self._layers else ""


def pull_image(
    engine: Engine,
    reference: str,
    deadline: Deadline,
    on_step: Callable[[str], None] = lambda _: None,
) -> None:
    """Pull ``reference`` for the engine's own platform, and tell how far it is.

    Raises:
        ImageNotFoundError: Not there, not allowed, or no registry answers.
        EnvironmentStartTimeoutError: Not before the deadline.
    """
    try:
        with (
            engine.errors(_failed(reference), ImageNotFoundError, EngineUnavailableError),
            ProgressStream(engine, deadline) as progress,
        ):
            pulled = PullProgress()
            for event in progress.events(lambda api: api.pull(reference, stream=True, decode=True)):
                if "error" in event:
                    raise ImageNotFoundError(f"{_failed(reference)}: {event['error']}")
                if how_far := pulled.take(event):
                    on_step(how_far)
    except DeadlinePassedError as error:
        raise EnvironmentStartTimeoutError(
            f"image {reference} was not pulled within {deadline.timeout_sec:g} s; "
            "raise [environment].build_timeout_sec or --harbor-build-timeout-multiplier, "
            f"or pull it beforehand with `docker pull {reference}`"
        ) from error


def _failed(reference: str) -> str:
    return (
        f"image {reference} is not on the engine and cannot be pulled; see that its name is "
        "right and the registry is reachable, log in with `docker login`, or build it here "
        "under that name"
    )
