"""Pulling a prebuilt image."""

from __future__ import annotations

from pytest_harbor.environment.docker.attach import Deadline, DeadlinePassedError
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.progress import ProgressStream
from pytest_harbor.errors import (
    EngineUnavailableError,
    EnvironmentStartTimeoutError,
    ImageNotFoundError,
)


def pull_image(engine: Engine, reference: str, deadline: Deadline) -> None:
    """Pull ``reference`` for the engine's own platform.

    Raises:
        ImageNotFoundError: Not there, not allowed, or no registry answers.
        EnvironmentStartTimeoutError: Not before the deadline.
    """
    try:
        with (
            engine.errors(_failed(reference), ImageNotFoundError, EngineUnavailableError),
            ProgressStream(engine, deadline) as progress,
        ):
            for event in progress.events(lambda api: api.pull(reference, stream=True, decode=True)):
                if "error" in event:
                    raise ImageNotFoundError(f"{_failed(reference)}: {event['error']}")
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
