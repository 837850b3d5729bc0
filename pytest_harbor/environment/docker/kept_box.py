"""Boxes that were kept: worked in and removed by another process than the one that made them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from docker.errors import APIError

from pytest_harbor.environment.docker.client import RUN_LABEL, Engine
from pytest_harbor.environment.docker.compose_project import Project
from pytest_harbor.environment.docker.container import remove_container
from pytest_harbor.environment.docker.execution import CommandRunner
from pytest_harbor.environment.docker.image import path_folders
from pytest_harbor.environment.docker.naming import is_guard, is_kept
from pytest_harbor.environment.docker.operations import ContainerOperations
from pytest_harbor.environment.docker.reaper import remove_run
from pytest_harbor.environment.kept import KeptBox
from pytest_harbor.errors import EnvironmentFault, EnvironmentLostError


class KeptEnvironment(ContainerOperations):
    """A kept box, to run commands in and copy files to and from."""

    def __init__(self, engine: Engine, box: KeptBox, inspected: Mapping[str, Any]) -> None:
        super().__init__(engine, box.name)
        self._box = box
        self._config: Mapping[str, Any] = inspected["Config"]
        self._memory = int(inspected["HostConfig"].get("Memory") or 0)
        self._runner = CommandRunner(engine, box.name, "bash" if box.shell == "bash" else "sh")

    @property
    def default_user(self) -> str:
        """The container's own."""
        return self._config.get("User") or "root"

    @property
    def workdir(self) -> str:
        """Where the box's commands began."""
        return self._box.workdir

    @property
    def path_folders(self) -> tuple[str, ...]:
        """The container's own."""
        return path_folders(self._config)

    @property
    def _memory_is_limited(self) -> bool:
        return self._memory > 0

    def start(self, *, timeout_sec: float | None = None) -> None:
        """Refused: it runs, or is a person's to start."""
        raise EnvironmentFault(f"{self.name} was started by its run")

    def stop(self) -> None:
        """Leave it as it is."""
        self._close_image()


@contextmanager
def opened(box: KeptBox) -> Iterator[KeptEnvironment]:
    """A kept box, for a while.

    Raises:
        EnvironmentLostError: It is gone, or has ended.
        EngineUnavailableError: No engine answers.
    """
    engine = Engine.connect(box.run_id)
    try:
        with engine.errors(f"looking at {box.name}", EnvironmentFault):
            inspected = engine.api.inspect_container(box.name)
        if not inspected["State"]["Running"]:
            raise EnvironmentLostError(f"{box.name} has ended; `docker start {box.name}` starts it")
        environment = KeptEnvironment(engine, box, inspected)
        try:
            yield environment
        finally:
            environment.stop()
    finally:
        engine.close()


def remove_kept(box: KeptBox) -> None:
    """Remove a kept box and all that stayed for it; what other boxes of its run need stays.

    Raises:
        EnvironmentFault: Something is left.
        EngineUnavailableError: No engine answers.
    """
    engine = Engine.connect(box.run_id)
    try:
        if box.project:
            Project(engine, box.project).remove()
        with engine.errors(f"removing {box.name}", EnvironmentFault):
            for name in box.containers:
                if not is_guard(name):
                    remove_container(engine, name)
            for network in box.networks:
                _remove_unless_used(engine, network)
            if not _others(engine):  # the guard, the run's network
                remove_run(engine, box.run_id, kept=True)
    finally:
        engine.close()


def _remove_unless_used(engine: Engine, network: str) -> None:
    with suppress(APIError):  # gone already, or of use to another box
        engine.api.remove_network(network)


def _others(engine: Engine) -> list[str]:
    """Boxes that the run still has, kept or at work; kept guards alone are nobody's."""
    label = f"{RUN_LABEL}={engine.run_id}"
    found = engine.api.containers(all=True, filters={"label": label})
    names = [str(name).lstrip("/") for each in found for name in each["Names"] or ()]
    return [name for name in names if not (is_kept(name) and is_guard(name))]
