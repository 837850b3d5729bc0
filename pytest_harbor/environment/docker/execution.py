"""Running commands in a container: start, read, end at the limit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from docker.errors import APIError

from pytest_harbor.environment.base import ExecResult
from pytest_harbor.environment.docker import kill
from pytest_harbor.environment.docker.attach import (
    DRAIN_SEC,
    SILENCE_SEC,
    STDERR,
    AttachedStream,
    Deadline,
    FrameReader,
    Output,
)
from pytest_harbor.environment.docker.client import Engine, explanation
from pytest_harbor.environment.docker.command import (
    MarkFilter,
    StartedProcess,
    new_mark,
    wrapped,
)
from pytest_harbor.environment.docker.process import DockerProcess
from pytest_harbor.errors import (
    EnvironmentFault,
    EnvironmentLostError,
    EnvironmentStartError,
    UnsupportedError,
)

ENGINE_CHECK_SEC = 20.0
"""After so long without output, ask whether the command and the engine are still there."""

DEATH_SEC = 0.5
"""How long a container may take to be seen dead after its processes are."""

ENGINE_LATE_SEC = 5.0
"""How late the engine may be with the status of a command whose wrapper was killed."""

MARK_GRACE_SEC = 10.0
"""How long past its limit a command may take to begin: before that it cannot be killed."""

KILL_LIMIT_SEC = 10.0
"""How long killing from inside may take before the container is restarted."""

_TELLS_SOON_SEC = 0.02


@dataclass(frozen=True, slots=True)
class Command:
    """One command as the engine gets it."""

    argv: Sequence[str]
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    takes_input: bool = False

    def create(self, engine: Engine, container: str) -> str:
        """Prepare it; its id on the engine."""
        # The folder is entered by the wrapper: the engine's own words for a missing one differ
        # between versions, and land among the command's output.
        answer = engine.api.exec_create(
            container,
            list(self.argv),
            stdin=self.takes_input,
            user=self.user,
            environment=dict(self.env),
        )
        return str(answer["Id"])


def attach(engine: Engine, exec_id: str, user: str) -> AttachedStream:
    """Start a prepared command; raises EnvironmentStartError where there is no such user."""
    try:
        return AttachedStream(engine.api.attach_exec(exec_id))
    except APIError as error:
        # Podman refuses here; Docker says so in the command's output.
        if "unable to find" not in explanation(error):
            raise
        raise no_such_user(user, explanation(error)) from error


def no_such_user(user: str, words: str) -> EnvironmentStartError:
    """The error for a command whose user the container does not know."""
    return EnvironmentStartError(
        f"the environment has no user or group {user!r} ({words}); "
        "create it in the Dockerfile, or name another in task.toml"
    )


class Execution:
    """One command on its way."""

    def __init__(
        self, engine: Engine, container: str, command: Command, mark: bytes, output: Output
    ) -> None:
        self._engine = engine
        self._frames = FrameReader()
        self._marks = MarkFilter(mark)
        self._output = output
        self.id = command.create(engine, container)
        self._stream = attach(engine, self.id, command.user)

    @property
    def process(self) -> StartedProcess | None:
        """The wrapper's process; None before it has told."""
        return self._marks.process

    def read(self, deadline: Deadline) -> bool:
        """Read output until the command ends.

        Returns:
            False if the deadline passed first.
        """
        while self._marks.exit_code is None:
            data = self._stream.receive(deadline.within(ENGINE_CHECK_SEC))
            if data:
                self._take(data)
            elif data == b"" or not self._inspect()["Running"]:
                return True
            if deadline.passed and self._marks.exit_code is None:
                return False
        self.drain()
        return True

    def drain(self) -> None:
        """Take what is still on its way, without waiting for a child that holds the output."""
        limit = Deadline(DRAIN_SEC)
        while not limit.passed and (data := self._stream.receive(SILENCE_SEC)):
            self._take(data)
        self._output.add(STDERR, self._marks.finish())

    def _take(self, data: bytes) -> None:
        for stream, piece in self._frames.feed(data):
            self._output.add(stream, self._marks.feed(piece) if stream == STDERR else piece)

    def _inspect(self) -> Mapping[str, Any]:
        """The engine's view of the command."""
        answer: Mapping[str, Any] = self._engine.api.exec_inspect(self.id)
        return answer

    def exit_code(self) -> int | None:
        """The command's status: as the wrapper told, else as the engine has it."""
        if self._marks.exit_code is not None:
            return self._marks.exit_code
        limit = Deadline(ENGINE_LATE_SEC)
        while not limit.passed:
            state = self._inspect()
            if not state["Running"]:
                return None if state["ExitCode"] is None else int(state["ExitCode"])
            time.sleep(0.05)
        return None

    @property
    def complete(self) -> bool:
        """The wrapper told how the command ended: the container was alive until then."""
        return self._marks.exit_code is not None

    def close(self) -> None:
        """Let go of the output."""
        self._stream.close()


class CommandRunner:
    """Runs commands in one started container.

    Attributes:
        shell: The container's shell.
        notes: What was done otherwise than asked.
    """

    def __init__(self, engine: Engine, container: str, shell: str) -> None:
        self._engine = engine
        self._container = container
        self.shell = shell
        self.notes: list[str] = []
        self._current: Execution | None = None
        self._is_busy = False

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
        began = time.monotonic()
        mark = new_mark()
        argv = wrapped(self.shell, mark, directory, command, merge=merge)
        output = Output(sink)
        self._is_busy = True
        try:
            execution = self._current = self._start(Command(argv, user, env or {}), mark, output)
        except BaseException:
            self._is_busy = False
            raise
        try:
            timed_out = not execution.read(deadline)
            if timed_out:
                self._end(execution)
            exit_code = None if timed_out else self._exit_code(execution, user, output)
        finally:
            self._current, self._is_busy = None, False
            execution.close()
        return ExecResult(
            exit_code=exit_code,
            stdout=output.stdout.text,
            stderr=output.stderr.text,
            duration_sec=time.monotonic() - began,
            timed_out=timed_out,
            output_bytes=output.stdout.total + output.stderr.total,
        )

    def interrupt(self) -> None:
        """Kill the command that runs now, and all that it started; from any thread but its own."""
        limit = Deadline(KILL_LIMIT_SEC)
        while self._is_busy and not limit.passed:
            current = self._current
            if current is not None and current.process is not None:
                self._kill(current.process)
                return
            time.sleep(_TELLS_SOON_SEC)  # it has begun, and not told its process yet

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
        mark = new_mark()
        argv = wrapped(self.shell, mark, directory, command, merge=False)
        prepared = Command(argv, user, env or {}, takes_input=True)
        exec_id = prepared.create(self._engine, self._container)
        stream = attach(self._engine, exec_id, user)
        if not stream.takes_input:
            stream.close()
            raise UnsupportedError(
                f"the engine at {self._engine.endpoint.address} is reached in a way that gives "
                "a command no input; reach it over its socket or TCP"
            )
        process = DockerProcess(stream, mark, self._kill_descendants, stderr)
        words = process.begin(MARK_GRACE_SEC)
        if words is not None:
            process.close(0)
            self._explain_no_start(user, words)
        return process

    def _start(self, command: Command, mark: bytes, output: Output) -> Execution:
        return Execution(self._engine, self._container, command, mark, output)

    def _exit_code(self, execution: Execution, user: str, output: Output) -> int | None:
        exit_code = execution.exit_code()
        if execution.process is None and not execution.complete:
            self._explain_no_start(user, output.stdout.text.strip())
        if exit_code is None or not execution.complete:
            self._require_running()
        return exit_code

    def _require_running(self) -> None:
        """Tell a command that was killed from a container that died under it."""
        limit = Deadline(DEATH_SEC)
        while not limit.passed:
            state = self._engine.api.inspect_container(self._container)["State"]
            if not state["Running"]:
                raise EnvironmentLostError(
                    f"the container stopped while a command ran: {why(state)}"
                )
            time.sleep(0.05)

    def _explain_no_start(self, user: str, said: str) -> None:
        self._require_running()
        words = said or "the engine says nothing"
        if "unable to find" in words:
            raise no_such_user(user, words)
        raise EnvironmentStartError(f"the environment cannot run commands: {words}")

    def _end(self, execution: Execution) -> None:
        """Kill the command and its descendants; whatever it takes."""
        grace = Deadline(MARK_GRACE_SEC)
        while execution.process is None and not grace.passed:
            if execution.read(Deadline(0.05)):
                return
        if execution.process is None or not self._kill(execution.process):
            self._restart()
        execution.drain()

    def _kill_descendants(self, process: StartedProcess) -> None:
        """Kill one command and no other: the trial goes on, with services that it may need."""
        if not self._kill(process, reach=kill.DESCENDANTS):
            raise EnvironmentFault(
                f"a command in {self._container} could not be killed from inside the container"
            )

    def _kill(self, process: StartedProcess, reach: str = kill.DAEMONS_TOO) -> bool:
        limit = Deadline(KILL_LIMIT_SEC)
        while not limit.passed:
            status = self._kill_once(process, limit, reach)
            if status == kill.EVERYTHING_KILLED:
                self.notes.append(
                    "a command forked faster than it could be killed at its time limit: every "
                    "process of the container but the first was killed"
                )
            if status in (kill.ALL_DEAD, kill.EVERYTHING_KILLED):
                return True
            time.sleep(0.1)
        return False

    def _kill_once(self, process: StartedProcess, limit: Deadline, reach: str) -> int | None:
        mark = new_mark()
        argv = [self.shell, "-c", kill.SCRIPT, self.shell, mark.decode()]
        argv += [str(process.pid), str(process.start_time), reach]
        execution = self._start(Command(argv, user="0"), mark, Output(None))
        try:
            return execution.exit_code() if execution.read(limit) else None
        finally:
            execution.close()

    def _restart(self) -> None:
        """Nothing inside can reach the processes any more, as when a fork bomb took all ids."""
        self._engine.api.restart(self._container, timeout=0)
        self.notes.append(
            "a command could not be killed from inside the container at its time limit: "
            "the container was restarted"
        )


def why(state: Mapping[str, Any]) -> str:
    """What the engine knows of a stopped container's end."""
    if state.get("OOMKilled"):
        return "its memory limit was hit"
    text = f"exit code {state.get('ExitCode')}"
    return f"{text}, {state['Error']}" if state.get("Error") else text
