"""Building an image: with BuildKit where the docker CLI and the engine can, else the SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_harbor.environment.docker import buildx
from pytest_harbor.environment.docker.attach import Deadline, DeadlinePassedError
from pytest_harbor.environment.docker.build_log import BuildLog
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.progress import ProgressStream
from pytest_harbor.errors import (
    EngineUnavailableError,
    EnvironmentStartTimeoutError,
    ImageBuildError,
)


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One image to build.

    Attributes:
        context: Folder with the Dockerfile.
        tag: What to call the image.
        labels: For the image.
        log_path: Where the whole log goes; None: only its end is kept, for a message.
        no_cache: Run every step again.
        made_from: The file from which the Dockerfile ``file`` outside the context was made.
        file: The Dockerfile, if it is not the context's own.
        on_step: Is told each step, as ``2/3 RUN make``.
    """

    context: Path
    tag: str
    labels: Mapping[str, str]
    log_path: Path | None = None
    no_cache: bool = False
    made_from: Path | None = None
    file: Path | None = None
    on_step: Callable[[str], None] | None = None

    @property
    def dockerfile(self) -> Path:
        """The Dockerfile."""
        return self.file or self.context / "Dockerfile"

    @property
    def source(self) -> Path:
        """What its author wrote, for messages."""
        return self.made_from or self.dockerfile


def build_image(engine: Engine, request: BuildRequest, deadline: Deadline) -> None:
    """Build an image and leave it on the engine under its tag.

    Raises:
        ImageBuildError: A step failed; names it, and ends with the log's last lines.
        EnvironmentStartTimeoutError: The deadline passed first; the build is ended.
    """
    with BuildLog.opened(request.log_path, request.on_step) as log:
        try:
            if buildx.is_usable(engine):
                buildx.build(engine, request, deadline, log)
            else:
                _build_classic(engine, request, deadline, log)
        except DeadlinePassedError as error:
            raise EnvironmentStartTimeoutError(_too_long(request, deadline, log)) from error


def _build_classic(
    engine: Engine, request: BuildRequest, deadline: Deadline, log: BuildLog
) -> None:
    """The engine's own builder: no cache mounts, no secrets, but always there."""
    with (
        engine.errors(f"{request.source}", ImageBuildError, EngineUnavailableError),
        ProgressStream(engine, deadline) as progress,
    ):
        events = progress.events(
            lambda api: api.build(
                path=str(request.context),
                dockerfile=str(request.dockerfile),
                tag=request.tag,
                labels=dict(request.labels),
                rm=True,
                forcerm=True,
                nocache=request.no_cache,
                decode=True,
                timeout=api.timeout,
            )
        )
        for event in events:
            log.write(str(event.get("stream") or event.get("status") or ""))
            if "error" in event:
                log.write(f"{event['error']}\n")
                raise ImageBuildError(log.failure(request.source, str(event["error"])))


def _too_long(request: BuildRequest, deadline: Deadline, log: BuildLog) -> str:
    return (
        f"{request.source}: the build did not end within the build limit of "
        f"{deadline.timeout_sec:g} s and was stopped; raise [environment].build_timeout_sec "
        f"or --harbor-build-timeout-multiplier{log.last_step()}\n{log.tail()}"
    )
