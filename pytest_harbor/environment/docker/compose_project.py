"""A project's containers on the engine: are they ready, what do they say, take them away."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from docker.errors import APIError

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import RUN_LABEL, Engine, explanation
from pytest_harbor.environment.docker.compose_model import MAIN
from pytest_harbor.environment.docker.container import remove_container
from pytest_harbor.environment.docker.execution import why
from pytest_harbor.environment.docker.operations import LOG_LINES, indented
from pytest_harbor.errors import (
    EngineUnavailableError,
    EnvironmentFault,
    EnvironmentStartError,
    EnvironmentStartTimeoutError,
)

PROJECT_LABEL = "com.docker.compose.project"
SERVICE_LABEL = "com.docker.compose.service"
NUMBER_LABEL = "com.docker.compose.container-number"

MAX_LOG_BYTES = 16 * 1024 * 1024
"""Per service; the engine keeps 10 MB of each container's."""

_POLL_SEC = 0.2
_MAX_RESTARTS = 5
_REMOVAL_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class ServiceState:
    """How one container of a service is doing."""

    service: str
    container: str
    inspected: Mapping[str, Any]

    @property
    def state(self) -> Mapping[str, Any]:
        """The engine's own view."""
        state: Mapping[str, Any] = self.inspected["State"]
        return state

    @property
    def health(self) -> str:
        """``starting``, ``healthy`` or ``unhealthy``; empty without a health check."""
        return str((self.state.get("Health") or {}).get("Status") or "").replace("none", "")

    @property
    def is_ready(self) -> bool:
        """Runs and is healthy if that is checked; or has done its work."""
        if self.state["Status"] == "running":
            return self.health in ("", "healthy")
        return self.service != MAIN and self._has_ended and self.state["ExitCode"] == 0

    @property
    def _has_ended(self) -> bool:
        return self.state["Status"] in ("exited", "dead")

    @property
    def failure(self) -> str:
        """What is wrong, if it will not become ready any more."""
        restarts = int(self.inspected.get("RestartCount") or 0)
        if self._has_ended and not self.is_ready:
            return f"ended: {why(self.state)}"
        if restarts >= _MAX_RESTARTS and not self.is_ready:
            return f"was restarted {restarts} times: {why(self.state)}"
        if self.state["Status"] == "running" and self.health == "unhealthy":
            return f"is unhealthy{self._last_check()}"
        return ""

    def _last_check(self) -> str:
        checks = (self.state.get("Health") or {}).get("Log") or []
        if not checks:
            return ""
        last = checks[-1]
        output = str(last.get("Output") or "").strip()
        return f"; its health check ended with {last.get('ExitCode')}{indented(output[-2000:])}"


class Project:
    """All that belongs to one project on the engine."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name

    def states(self) -> list[ServiceState]:
        """Every container's state, by service and number."""
        found = []
        for each in self._containers():
            labels = each["Labels"]
            order = (labels.get(SERVICE_LABEL, ""), int(labels.get(NUMBER_LABEL) or 0))
            with suppress(_GoneError):
                found.append((order, ServiceState(order[0], each["Id"], self._inspect(each["Id"]))))
        return [state for _, state in sorted(found, key=lambda pair: pair[0])]

    def networked(self) -> list[str]:
        """Every container that has networks of its own."""
        modes = {s.container: str(s.inspected["HostConfig"]["NetworkMode"]) for s in self.states()}
        return [
            container
            for container, mode in modes.items()
            if mode != "none" and not mode.startswith("container:")
        ]

    def _containers(self) -> list[dict[str, Any]]:
        doing = "listing the project's containers"
        with self._engine.errors(doing, EnvironmentFault, EngineUnavailableError):
            return list(self._engine.api.containers(all=True, filters=self._filters()))

    def _inspect(self, container: str) -> Mapping[str, Any]:
        try:
            inspected: Mapping[str, Any] = self._engine.api.inspect_container(container)
        except APIError as error:
            if error.status_code == 404:
                raise _GoneError from error
            raise
        return inspected

    def _filters(self) -> dict[str, Any]:
        run = f"{RUN_LABEL}={self._engine.run_id}"
        return {"label": [f"{PROJECT_LABEL}={self._name}", run]}

    def wait_until_ready(self, deadline: Deadline) -> None:
        """Wait for every container.

        Raises:
            EnvironmentStartError: One will not become ready; says which and why.
            EnvironmentStartTimeoutError: Not before the deadline.
        """
        while True:
            states = self.states()
            if any(state.failure for state in states):
                raise EnvironmentStartError(self.failures(states))
            if all(state.is_ready for state in states):
                return
            if deadline.passed:
                raise self.out_of_time(deadline)
            time.sleep(_POLL_SEC)

    def failures(self, states: Sequence[ServiceState] | None = None) -> str:
        """What every failed service has to say; empty where none failed."""
        current = self.states() if states is None else states
        return "\n".join(self._described(state) for state in current if state.failure)

    def _described(self, state: ServiceState) -> str:
        log = self.log_tail(state.container)
        return f"service {state.service!r} {state.failure}{log}"

    def log_tail(self, container: str) -> str:
        """The last lines of a container's log, ready to be appended."""
        try:
            log = self._engine.api.logs(container, tail=LOG_LINES).decode(errors="replace")
        except (APIError, OSError):
            return ""
        return f"\nits log ends with:{indented(log)}" if log.strip() else "\nits log is empty"

    def out_of_time(self, deadline: Deadline) -> EnvironmentStartTimeoutError:
        """The error of a start that took too long; names what it waited for."""
        waiting = [state for state in self.states() if not state.is_ready]
        names = ", ".join(f"{state.service} ({_doing(state)})" for state in waiting) or "compose"
        logs = "".join(f"\n{state.service}:{self.log_tail(state.container)}" for state in waiting)
        return EnvironmentStartTimeoutError(
            f"{self._name}: did not start within {deadline.timeout_sec:g} s, waiting for {names}; "
            "raise [environment].build_timeout_sec or --harbor-build-timeout-multiplier"
            f"{logs}"
        )

    def save_logs(
        self, folder: Path, filter_data: Callable[[BinaryIO], BinaryIO] | None = None
    ) -> None:
        """Write the log of each service but ``main``, one file each."""
        for state in self.states():
            if state.service == MAIN or state.state["Status"] == "created":
                continue
            number = int(state.inspected["Config"]["Labels"].get(NUMBER_LABEL) or 1)
            name = f"{state.service}.log" if number == 1 else f"{state.service}-{number}.log"
            folder.mkdir(parents=True, exist_ok=True)
            self._save_log(state.container, folder / name, filter_data)

    def _save_log(
        self,
        container: str,
        path: Path,
        filter_data: Callable[[BinaryIO], BinaryIO] | None,
    ) -> None:
        with self._engine.errors(f"saving {path.name}", EnvironmentFault):
            chunks = self._engine.api.logs(container, stream=True, follow=False, timestamps=True)
            written = 0
            with path.open("w+b") as file:
                for chunk in chunks:
                    file.write(chunk[: MAX_LOG_BYTES - written])
                    written += len(chunk)
                    if written >= MAX_LOG_BYTES:
                        break
                if filter_data is not None:
                    file.seek(0)
                    clean = filter_data(file).read()
                    file.seek(0)
                    file.truncate()
                    file.write(clean)

    def remove(self) -> None:
        """Take away containers, networks and volumes; gone already is as good.

        Raises:
            EnvironmentFault: Something may be left behind.
        """
        doing = f"removing {self._name}"
        with self._engine.errors(doing, EnvironmentFault, EngineUnavailableError):
            # A start that was cut off may have left a request behind: look again.
            for _ in range(_REMOVAL_ROUNDS):
                containers = self._containers()
                if not containers:
                    break
                for each in containers:
                    remove_container(self._engine, each["Id"])
            api = self._engine.api
            for network in api.networks(filters=self._filters()):
                _remove_thing(partial(api.remove_network, network["Id"]))
            for volume in api.volumes(filters=self._filters())["Volumes"] or []:
                _remove_thing(partial(api.remove_volume, volume["Name"], force=True))


class _GoneError(Exception):
    pass


def _doing(state: ServiceState) -> str:
    return state.health or str(state.state["Status"])


def _remove_thing(remove: Callable[[], object]) -> None:
    """Remove a network or volume; the engine may need a moment to see that it is free."""
    for attempt in range(10):
        try:
            remove()
            return
        except APIError as error:
            if error.status_code == 404:
                return
            words = explanation(error)
            if attempt == 9 or ("active endpoints" not in words and "in use" not in words):
                raise
            time.sleep(0.1)
