"""A service that lives beside ``main``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from pytest_harbor.environment.base import ExecResult
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.compose_project import ServiceState
from pytest_harbor.environment.docker.execution import CommandRunner
from pytest_harbor.environment.docker.operations import ContainerOperations
from pytest_harbor.errors import EnvironmentFault


class ServiceEnvironment(ContainerOperations):
    """A service beside ``main``: its own image's user, folder and variables, and ``sh``."""

    def __init__(self, engine: Engine, service: str, state: ServiceState) -> None:
        super().__init__(engine, str(state.inspected["Name"]).lstrip("/"))
        self._service = service
        self._config: Mapping[str, Any] = state.inspected["Config"]
        self._memory = int(state.inspected["HostConfig"].get("Memory") or 0)
        self._runner = CommandRunner(engine, self._name, "sh")

    @property
    def default_user(self) -> str:
        """The container's own."""
        return self._config.get("User") or "root"

    @property
    def workdir(self) -> str:
        """The container's own."""
        return self._config.get("WorkingDir") or "/"

    @property
    def _memory_is_limited(self) -> bool:
        return self._memory > 0

    def start(self, *, timeout_sec: float | None = None) -> None:
        """Refused: it starts with ``main``."""
        raise EnvironmentFault(f"service {self._service!r} starts with its project")

    def stop(self) -> None:
        """Refused: it stops with ``main``."""
        raise EnvironmentFault(f"service {self._service!r} stops with its project")

    def exec(
        self,
        command: str | Sequence[str],
        *,
        user: str | int | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_sec: float | None = None,
        output: BinaryIO | None = None,
        merge_streams: bool = False,
    ) -> ExecResult:
        """Run one command and wait for it; text is for ``sh``."""
        return super().exec(
            ["sh", "-c", command] if isinstance(command, str) else command,
            user=user,
            cwd=cwd,
            env=env,
            timeout_sec=timeout_sec,
            output=output,
            merge_streams=merge_streams,
        )
