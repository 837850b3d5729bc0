"""Calls of Docker's own compose, each with a time limit and an end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.program import wait_for
from pytest_harbor.errors import UnsupportedError

CONFIG_LIMIT_SEC = 30.0
"""For compose's own parser, which has no bounds of its own."""

MAX_OUTPUT_BYTES = 32 * 1024 * 1024
_TAIL_BYTES = 8 * 1024
_PROBE_SEC = 30

# What compose needs of this process; everything else could be read by ${NAME} in a task's file.
_PASSED_ON = (
    "PATH",
    "HOME",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_TLS_VERIFY",
    "DOCKER_CERT_PATH",
    "SSH_AUTH_SOCK",
)

# A task must not fetch included files from elsewhere, nor choose other files than its own.
_FIXED = {
    "COMPOSE_EXPERIMENTAL_GIT_REMOTE": "0",
    "COMPOSE_EXPERIMENTAL_OCI_REMOTE": "0",
    "COMPOSE_FILE": "",
    "COMPOSE_ENV_FILES": "",
    "COMPOSE_IGNORE_ORPHANS": "1",
    "DOCKER_BUILDKIT": "1",
}

# Variables that steer programs on this machine, and not what a compose file says.
_STEERS_PROGRAMS = re.compile(
    r"^(?:LD_|DYLD_|DOCKER_|COMPOSE_|BUILDX_|BUILDKIT_|GO|GIT_|SSH_|OTEL_|MALLOC_|GLIBC_"
    r"|GCONV_PATH$|TMPDIR$|(?:ALL|HTTPS?|NO)_PROXY$|SSL_CERT_)",
    re.IGNORECASE,
)


def require_compose() -> None:
    """Raise UnsupportedError where there is no compose v2."""
    if missing := _what_is_missing(os.environ.get("DOCKER_CONFIG"), os.environ.get("PATH")):
        raise UnsupportedError(
            f"the task has a compose file, and {missing}; install Docker's compose plugin "
            "(Debian: docker-compose from trixie on, Ubuntu: docker-compose-v2, "
            "Docker's own packages: docker-compose-plugin)"
        )


@cache
def _what_is_missing(_config: str | None, _path: str | None) -> str:
    docker = shutil.which("docker")
    if docker is None:
        return "this machine has no docker command"
    try:
        probe = subprocess.run(
            [docker, "compose", "version", "--short"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_SEC,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"`docker compose version` does not work: {error}"
    version = probe.stdout.strip().lstrip("v")
    if probe.returncode != 0 or not version[:1].isdigit():
        return "its docker command has no compose v2 (`docker compose version` fails)"
    return f"`docker compose` is {version}, not 2 or later" if version.startswith("1.") else ""


@dataclass(frozen=True, slots=True)
class Finished:
    """How one call ended.

    Attributes:
        status: Exit status.
        output: Standard output; only its end unless it was asked for.
        errors: End of standard error.
    """

    status: int
    output: str
    errors: str

    @property
    def words(self) -> str:
        """What compose said of a failure."""
        return self.errors.strip() or self.output.strip() or f"exit code {self.status}"


class ComposeCli:
    """``docker compose`` for one project.

    Attributes:
        project: The project's name on the engine.
    """

    def __init__(self, engine: Engine, project: str, variables: Mapping[str, str]) -> None:
        self.project = project
        given = {k: v for k, v in variables.items() if not _STEERS_PROGRAMS.match(k)}
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._env = {**given, **_FIXED, **passed, **engine.endpoint.cli_environment()}

    @property
    def environment(self) -> Mapping[str, str]:
        """All that compose is told by its environment."""
        return self._env

    def command(self, arguments: Sequence[str], files: Sequence[Path], folder: Path) -> list[str]:
        """The argument list of one command of compose."""
        argv = ["docker", "compose", "--ansi", "never", "--progress", "plain"]
        argv += ["--project-name", self.project, "--project-directory", str(folder)]
        for file in files:
            argv += ["--file", str(file)]
        return [*argv, *arguments]

    def run(
        self,
        arguments: Sequence[str],
        files: Sequence[Path],
        folder: Path,
        deadline: Deadline,
        *,
        whole_output: bool = False,
    ) -> Finished:
        """Run one command of compose.

        Args:
            arguments: The command and its options.
            files: Compose files, later ones over earlier ones.
            folder: The project's folder.
            deadline: When it is killed.
            whole_output: Keep all of standard output, up to a limit.

        Raises:
            DeadlinePassedError: It was killed at the deadline.
        """
        argv = self.command(arguments, files, folder)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            status = self._run(argv, folder, deadline, out, err)
            output = _whole(out) if whole_output else _tail(out)
            return Finished(status, output, _tail(err))

    def _run(
        self,
        argv: list[str],
        folder: Path,
        deadline: Deadline,
        out: IO[bytes],
        err: IO[bytes],
    ) -> int:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        # It takes no notice of gentler signals while it reads a file.
        return wait_for(process, deadline, (signal.SIGKILL,))


def _whole(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MAX_OUTPUT_BYTES).decode(errors="replace")


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    return file.read().decode(errors="replace")


def parse_model(text: str) -> dict[str, Any]:
    """Compose's resolved configuration; ``$$`` is one dollar sign again."""
    model = _each_text(json.loads(text), lambda value: value.replace("$$", "$"))
    return dict(model)


def dump_model(model: Mapping[str, Any]) -> str:
    """A configuration that compose reads back as it is, with nothing filled in."""
    return json.dumps(_each_text(model, lambda value: value.replace("$", "$$")))


def _each_text(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each_text(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_each_text(inner, change) for inner in value]
    return value
