"""An environment as one phase sees it: its user, its variables, its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from pytest_harbor.environment.base import (
    DEFAULT_LIMITS,
    DownloadLimits,
    DownloadReport,
    Environment,
    ExecResult,
)
from pytest_harbor.environment.process import Process
from pytest_harbor.errors import AgentTimeoutError


class PhaseEnvironment(Environment):
    """Hands everything on to another environment, with a phase's defaults.

    After the deadline, or once :meth:`close` was called, nothing is handed on any
    more: code that runs on past its phase cannot reach the environment.
    """

    def __init__(
        self,
        inner: Environment,
        *,
        user: str | int | None,
        env: Mapping[str, str],
        timeout_sec: float | None,
    ) -> None:
        self._inner = inner
        self._user = user
        self._env = dict(env)
        self._timeout_sec = timeout_sec
        self._deadline = None if timeout_sec is None else time.monotonic() + timeout_sec
        self._closed = False
        self._processes: list[Process] = []

    def close(self) -> None:
        """The phase is over, and so are the processes that it talked to."""
        self._closed = True
        while self._processes:
            self._processes.pop().close(0)

    @property
    def name(self) -> str:
        """Name on the engine."""
        return self._inner.name

    @property
    def notes(self) -> Sequence[str]:
        """What the backend did otherwise than asked."""
        return self._inner.notes

    @property
    def default_user(self) -> str:
        """The phase's user."""
        return self._inner.default_user if self._user is None else str(self._user)

    @property
    def workdir(self) -> str:
        """The environment's working folder."""
        return self._inner.workdir

    @property
    def installed(self) -> Sequence[str]:
        """The layers that the environment was made with."""
        return self._inner.installed

    def start(self, *, timeout_sec: float | None = None) -> None:
        """Refused: a phase has a started environment."""
        raise RuntimeError("the environment of a phase is started already")

    def stop(self) -> None:
        """Refused: the trial stops its environment."""
        raise RuntimeError("the trial stops the environment, not one of its phases")

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
        """Run a command as the phase's user, at most until the phase's end.

        Raises:
            AgentTimeoutError: The phase's time is over.
            EnvironmentLostError: The box is gone.
        """
        left = self._left()
        cut_short = left is not None and (timeout_sec is None or left < timeout_sec)
        result = self._inner.exec(
            command,
            user=self._user if user is None else user,
            cwd=cwd,
            env={**self._env, **(env or {})},
            timeout_sec=left if cut_short else timeout_sec,
            output=output,
            merge_streams=merge_streams,
        )
        if result.timed_out and cut_short:
            raise self._out_of_time()
        return result

    def interrupt(self) -> None:
        """Kill the command that runs now; nothing once the phase is over."""
        if not self._closed:
            self._inner.interrupt()

    def open_process(
        self,
        command: str | Sequence[str],
        *,
        user: str | int | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stderr: BinaryIO | None = None,
    ) -> Process:
        """Start a command and talk to it, at most until the phase's end."""
        self._left()
        process = self._inner.open_process(
            command,
            user=self._user if user is None else user,
            cwd=cwd,
            env={**self._env, **(env or {})},
            stderr=stderr,
        )
        self._processes.append(process)
        if self._closed:  # meanwhile, by the thread that watches the time
            self.close()
            raise self._out_of_time()
        return process

    def upload(
        self,
        source: Path,
        target: str,
        *,
        executable: Collection[str] = (),
        include: Callable[[PurePosixPath], bool] | None = None,
        replace: bool = False,
        clear: Collection[str] = (),
    ) -> None:
        """Copy into the box."""
        self._left()
        self._inner.upload(
            source, target, executable=executable, include=include, replace=replace, clear=clear
        )

    def download(
        self,
        source: str,
        target: Path,
        *,
        limits: DownloadLimits = DEFAULT_LIMITS,
        filter_data: Callable[[BinaryIO], BinaryIO] | None = None,
    ) -> DownloadReport:
        """Copy out of the box."""
        self._left()
        return self._inner.download(source, target, limits=limits, filter_data=filter_data)

    def read(self, path: str, *, max_bytes: int = 1024 * 1024) -> bytes:
        """Content of one file."""
        self._left()
        return self._inner.read(path, max_bytes=max_bytes)

    def write(self, path: str, data: bytes | str, *, mode: int = 0o644) -> None:
        """Write one file."""
        self._left()
        self._inner.write(path, data, mode=mode)

    def _left(self) -> float | None:
        """Seconds that are left; None: no limit."""
        if self._closed:
            raise self._out_of_time()
        if self._deadline is None:
            return None
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._out_of_time()
        return left

    def _out_of_time(self) -> AgentTimeoutError:
        limit = "" if self._timeout_sec is None else f" after {self._timeout_sec:g} s"
        return AgentTimeoutError(f"agent timed out{limit}")
