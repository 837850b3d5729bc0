"""Building with BuildKit, through the docker CLI's buildx plugin."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.build_log import BuildLog
from pytest_harbor.environment.docker.client import Endpoint, Engine
from pytest_harbor.environment.docker.program import END_SEC, wait_for
from pytest_harbor.errors import ImageBuildError

if TYPE_CHECKING:
    from pytest_harbor.environment.docker.build import BuildRequest

_FIRST_API_WITH_BUILDKIT = (1, 39)
_PROBE_SEC = 30


def is_usable(engine: Engine) -> bool:
    """Whether this machine's docker CLI has buildx and the engine has BuildKit.

    ``DOCKER_BUILDKIT=0`` asks for the classic builder, as it does from the docker CLI.
    """
    if os.environ.get("DOCKER_BUILDKIT") == "0" or engine.is_podman:
        return False
    version = tuple(int(part) for part in engine.api.api_version.split("."))
    return version >= _FIRST_API_WITH_BUILDKIT and _cli_has_buildx(os.environ.get("DOCKER_CONFIG"))


@cache
def _cli_has_buildx(_config: str | None) -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        probe = subprocess.run(
            [docker, "buildx", "version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SEC,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


def build(engine: Engine, request: BuildRequest, deadline: Deadline, log: BuildLog) -> None:
    """Build with ``docker buildx``, until the deadline at most."""
    environment = {**os.environ, **engine.endpoint.cli_environment(), "DOCKER_BUILDKIT": "1"}
    status = run_logged(_arguments(engine.endpoint, request), environment, deadline, log)
    if status != 0:
        raise ImageBuildError(log.failure(request.source, f"exit code {status}"))


def run_logged(
    arguments: Sequence[str], environment: Mapping[str, str], deadline: Deadline, log: BuildLog
) -> int:
    """Run a build in a process group of its own, and end the group at the deadline.

    Raises:
        DeadlinePassedError: It was ended.
    """
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        start_new_session=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    reader = threading.Thread(target=_copy, args=(process, log), daemon=True)
    reader.start()
    try:
        return wait_for(process, deadline, (signal.SIGTERM, signal.SIGKILL))
    finally:
        reader.join(END_SEC)


def _arguments(endpoint: Endpoint, request: BuildRequest) -> list[str]:
    # The engine's own BuildKit sees the engine's images; another builder that is current on
    # this machine would look for them in a registry.
    arguments = ["docker", "buildx", "build", "--builder", endpoint.context or "default"]
    arguments += ["--load", "--progress", "plain", "--tag", request.tag]
    for key, value in request.labels.items():
        arguments += ["--label", f"{key}={value}"]
    if request.no_cache:
        arguments.append("--no-cache")
    return [*arguments, "--file", str(request.dockerfile), str(request.context)]


def _copy(process: subprocess.Popen[str], log: BuildLog) -> None:
    if process.stdout is not None:
        with process.stdout as lines:
            for line in lines:
                log.write(line)
