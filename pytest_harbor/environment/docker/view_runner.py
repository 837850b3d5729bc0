"""Running the commands of a private view: each below the program that enters the box."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO

from pytest_harbor.environment.base import ExecResult
from pytest_harbor.environment.docker import kill
from pytest_harbor.environment.docker.accounts import Accounts
from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.command import StartedProcess
from pytest_harbor.environment.docker.execution import CommandRunner
from pytest_harbor.environment.docker.process import DockerProcess
from pytest_harbor.environment.docker.transfer import Transfer
from pytest_harbor.errors import EnvironmentStartError

ENTER = "/harbor/enter.py"
"""Where the program that enters the box is in the view's container."""

_PROGRAM = ("python3", "-I", ENTER)
_ENV_PREFIX = "_HARBOR_VIEW_"
_FAULT_STATUS = 125


class ViewRunner(CommandRunner):
    """Runs commands of a view: each below the program that enters the box."""

    def __init__(
        self,
        engine: Engine,
        container: str,
        folders: Sequence[str],
        inspected: Mapping[str, Any],
    ) -> None:
        super().__init__(engine, container, "/bin/sh")
        config = inspected["Config"]
        self._folders = list(folders)
        self._apparmor = str(inspected.get("AppArmorProfile") or "").replace("unconfined", "")
        self._user = str(config.get("User") or "")
        more_groups = inspected["HostConfig"].get("GroupAdd") or ()
        self._accounts = Accounts(Transfer(engine, str(inspected["Id"])), more_groups)
        pairs = (each.partition("=") for each in config.get("Env") or ())
        self._env = {"HOSTNAME": str(config.get("Hostname") or "")}
        self._env |= {name: value for name, _, value in pairs}

    def run(
        self,
        command: str | Sequence[str],
        *,
        directory: str,
        user: str = "",
        env: Mapping[str, str] | None = None,
        deadline: Deadline,
        sink: BinaryIO | None = None,
        merge: bool = False,
    ) -> ExecResult:
        """Run one command to its end or to its limit."""
        argv, fault = self._entering(command, directory, user)
        result = super().run(
            argv,
            directory="/",
            user="0",
            env=self._variables(env),
            deadline=deadline,
            sink=sink,
            merge=merge,
        )
        if result.exit_code == _FAULT_STATUS:
            self._raise_fault(fault)
        return result

    def open(
        self,
        command: str | Sequence[str],
        *,
        directory: str,
        user: str = "",
        env: Mapping[str, str] | None = None,
        stderr: BinaryIO | None = None,
    ) -> DockerProcess:
        """Start a command that is talked to."""
        argv, _ = self._entering(command, directory, user)
        return super().open(argv, directory="/", user="0", env=self._variables(env), stderr=stderr)

    def _kill(self, process: StartedProcess, reach: str = kill.DAEMONS_TOO) -> bool:
        """Kill what was started, or all that runs in the view, which the box's is no part of.

        From inside, all could be all of the box: its processes, which may keep forking, are
        seen there.
        """
        if reach == kill.DESCENDANTS:
            return super()._kill(process, reach)
        self._engine.api.restart(self._container, timeout=0)
        return True

    def run_outside(self, command: Sequence[str]) -> ExecResult:
        """Run a command of the view's own container."""
        return super().run(command, directory="/", user="0", deadline=Deadline(10.0))

    def _entering(
        self, command: str | Sequence[str], directory: str, user: str
    ) -> tuple[list[str], str]:
        kind, rest = ("text", [command]) if isinstance(command, str) else ("list", list(command))
        fault = f"/harbor/fault-{secrets.token_hex(8)}"
        spec = {
            "fault": fault,
            "apparmor": self._apparmor,
            "folders": self._folders,
            "account": asdict(self._accounts.find(user or self._user)),
            "cwd": directory,
        }
        return [*_PROGRAM, json.dumps(spec), kind, *rest], fault

    def _variables(self, env: Mapping[str, str] | None) -> dict[str, str]:
        # Under names that mean nothing to the program and its interpreter, and not among its
        # arguments, which every process of the box can read.
        return {f"{_ENV_PREFIX}{k}": v for k, v in {**self._env, **(env or {})}.items()}

    def _raise_fault(self, path: str) -> None:
        """Raise what kept the command from being run; a command may end with this status, too."""
        words = Transfer(self._engine, self._container).read(path, 64 * 1024).decode()
        if words:
            raise EnvironmentStartError(f"the environment cannot be entered from outside: {words}")
