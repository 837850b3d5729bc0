"""Commands and files of one running container, whoever made it."""

from __future__ import annotations

import posixpath
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from docker.errors import APIError

from pytest_harbor.environment.base import (
    DEFAULT_LIMITS,
    Change,
    DownloadLimits,
    DownloadReport,
    Environment,
    EnvironmentRequest,
    ExecResult,
    RunningProcess,
)
from pytest_harbor.environment.docker import capabilities
from pytest_harbor.environment.docker.archive import UploadArchive
from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.compose_cli import require_compose
from pytest_harbor.environment.docker.execution import CommandRunner, why
from pytest_harbor.environment.docker.transfer import Transfer
from pytest_harbor.environment.process import Process
from pytest_harbor.errors import (
    EnvironmentFault,
    EnvironmentLostError,
    EnvironmentStartError,
)
from pytest_harbor.task.layout import find_compose_file

if TYPE_CHECKING:
    from pytest_harbor.environment.docker.original import ImageFiles
    from pytest_harbor.environment.docker.processes import ProcessWatch

LOG_LINES = 15
"""Lines of a container's log that a message ends with."""

_KILLED = 137

# What the kernel counted, in both versions of its memory controller.
OOM_COUNT = """\
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  while read -r key value; do
    [ "$key" = oom_kill ] && echo "$value"
  done <"$file"
done 2>/dev/null
"""


class ContainerOperations(Environment):
    """What can be done with a container that runs; how it came to run is a subclass's."""

    network_control = "changing"

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name
        self._runner: CommandRunner | None = None
        self._lacks_first_files = False
        self._proved_alive = False
        self._oom_kills = 0
        self._watch: ProcessWatch | None = None
        self._image_files: ImageFiles | None = None

    @property
    def name(self) -> str:
        """Name of the container."""
        return self._name

    @property
    @abstractmethod
    def _memory_is_limited(self) -> bool:
        """Whether a killed command may have been killed for its memory."""

    def check(self, request: EnvironmentRequest) -> None:
        """See whether the engine can give a box like ``request``."""
        where = "[environment]" if request.role == "agent" else "[verifier.environment]"
        capabilities.require(self._engine, request.config.gpus or 0, where)
        if find_compose_file(request.build_folder):
            require_compose()

    def _add_first_files(self, archive: UploadArchive) -> None:
        """What has to be in the container before anything runs in it."""

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
        """Run one command and wait for it."""
        runner = self._runner_or_raise()
        self._flush()
        with self._lost_explained(), self._engine.errors("running a command", EnvironmentLostError):
            result = runner.run(
                command,
                directory=posixpath.join(self.workdir, cwd or ""),
                user="" if user is None else str(user),
                env=env,
                deadline=Deadline(timeout_sec),
                sink=output,
                merge=merge_streams,
            )
        self._proved_alive = True
        if self._may_be_out_of_memory(result) and self._count_oom_kills():
            return replace(result, out_of_memory=True)
        return result

    def interrupt(self) -> None:
        """Kill the command that runs now, and all that it started."""
        runner = self._runner
        if runner is not None:
            with self._engine.errors("ending a command", EnvironmentLostError):
                runner.interrupt()

    def open_process(
        self,
        command: str | Sequence[str],
        *,
        user: str | int | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stderr: BinaryIO | None = None,
    ) -> Process:
        """Start one command and talk to it."""
        runner = self._runner_or_raise()
        self._flush()
        with self._lost_explained(), self._engine.errors("running a command", EnvironmentLostError):
            return runner.open(
                command,
                directory=posixpath.join(self.workdir, cwd or ""),
                user="" if user is None else str(user),
                env=env,
                stderr=stderr,
            )

    def _may_be_out_of_memory(self, result: ExecResult) -> bool:
        if not self._memory_is_limited or result.exit_code in (0, None):
            return False
        return result.exit_code == _KILLED or "Killed" in result.output

    def _count_oom_kills(self) -> bool:
        """Whether the kernel has killed for memory since the last look."""
        words = self._oom_counts().split()
        counted = sum(int(word) for word in words if word.isdigit())
        grown, self._oom_kills = counted > self._oom_kills, counted
        return grown

    def _oom_counts(self) -> str:
        """What the kernel counted, as it writes it."""
        command = ["sh", "-c", OOM_COUNT]
        deadline = Deadline(10.0)
        return (
            self._runner_or_raise().run(command, directory="/", user="0", deadline=deadline).stdout
        )

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
        """Copy a file, or a folder's content, into the container; owned by root."""
        with self._put(f"uploading {source} to {target}") as archive:
            for folder in clear:
                archive.add_cleared_folder(folder, 0o777)
            archive.add_tree(
                source, target, executable=executable, include=include, replace=replace
            )

    def write(self, path: str, data: bytes | str, *, mode: int = 0o644) -> None:
        """Write one file, owned by root."""
        with self._put(f"writing {path}") as archive:
            archive.add_bytes(path, data.encode() if isinstance(data, str) else data, mode)

    def download(
        self,
        source: str,
        target: Path,
        *,
        limits: DownloadLimits = DEFAULT_LIMITS,
        filter_data: Callable[[BinaryIO], BinaryIO] | None = None,
    ) -> DownloadReport:
        """Copy a file, or a folder's content, out of the container."""
        self._flush()
        return self._transfer().download(source, target, limits, filter_data)

    def archive(
        self,
        source: str,
        sink: BinaryIO,
        *,
        limits: DownloadLimits = DEFAULT_LIMITS,
        exclude: Sequence[str] = (),
    ) -> DownloadReport:
        """Pack a file or folder of the container."""
        self._flush()
        return self._transfer().archive(source, sink, limits, exclude)

    def unpack(self, archive: BinaryIO) -> None:
        """Put what was packed elsewhere where it was."""
        self._flush()
        with self._lost_explained():
            self._transfer().put_file(archive, "restoring files")

    def clear(self, folders: Collection[str]) -> None:
        """Make folders anew, empty."""
        with self._put(f"clearing {', '.join(folders)}") as archive:
            for folder in folders:
                archive.add_cleared_folder(folder, 0o777)

    def read(self, path: str, *, max_bytes: int = 1024 * 1024) -> bytes:
        """Content of one regular file."""
        self._flush()
        return self._transfer().read(path, max_bytes)

    # -- seen from outside; what this takes is imported where it is used: most trials end
    # without a need for it ------------------------------------------------------------

    @property
    def _starts_alone(self) -> bool:
        """Nothing runs in it at first but what this package starts a container with."""
        return False

    def begin_watch(self) -> None:
        """Note which processes live now."""
        from pytest_harbor.environment.docker.processes import ProcessWatch

        self._runner_or_raise()
        self._watch = ProcessWatch(self._engine, self._name)
        with self._lost_explained():
            self._watch.begin(beside_keepalive=self._starts_alone)

    def left_running(self) -> Sequence[RunningProcess] | None:
        """Processes that were started since; None where the engine's machine has no ``ps``."""
        from pytest_harbor.environment.docker.processes import ProcessWatch

        self._runner_or_raise()
        watch = self._watch or ProcessWatch(self._engine, self._name)
        with self._lost_explained():
            return watch.started_since()

    def changes(self) -> Sequence[Change] | None:
        """Files that differ from the image's; what lies on volumes and mounts is not among them."""
        from pytest_harbor.environment.docker.changes import find_changes

        self._runner_or_raise()
        with self._lost_explained():
            return find_changes(self._engine, self._name)

    def original(self, path: str, *, max_bytes: int = 64 * 1024**2) -> bytes:
        """A file as the image has it."""
        return self.image_files().read(path, max_bytes)

    def digest_original(self, path: str) -> str | None:
        """SHA-256 of a file as the image has it; None where it has no regular file there."""
        from pytest_harbor.environment.docker.original import digest

        return digest(self.image_files().read, path)

    def digest(self, path: str) -> str | None:
        """SHA-256 of a file as it is; None where no regular file is there."""
        from pytest_harbor.environment.docker.original import digest

        self._flush()
        return digest(self._transfer().read, path)

    @contextmanager
    def private_view(self, folders: Collection[str]) -> Iterator[Environment]:
        """This box, with folders that nothing which runs in it already can reach."""
        from pytest_harbor.environment.docker.private import open_private_view

        self._runner_or_raise()
        self._flush()
        with ExitStack() as stack:
            with self._lost_explained():
                opened = open_private_view(self._engine, self, folders, self._gateway_image)
                view = stack.enter_context(opened)
            yield view

    @property
    def _gateway_image(self) -> str | None:
        """A ready image with the tools of gateways and views; None: made where needed."""
        return None

    def image_files(self) -> ImageFiles:
        """The files of the image, through a container that goes when this box stops."""
        from pytest_harbor.environment.docker.original import ImageFiles

        if self._image_files is None:
            self._image_files = ImageFiles(self._engine, self._name)
        return self._image_files

    def _close_image(self) -> None:
        """Let go of what :meth:`original` made."""
        if self._image_files is not None:
            self._image_files.remove()

    def _transfer(self) -> Transfer:
        self._runner_or_raise()
        return Transfer(self._engine, self._name)

    @contextmanager
    def _put(self, doing: str) -> Iterator[UploadArchive]:
        """An archive that is sent at the end, behind the first files if they are missing."""
        transfer = self._transfer()
        with closing(UploadArchive()) as archive:
            if self._lacks_first_files:
                self._add_first_files(archive)
            yield archive
            with self._lost_explained():
                transfer.put(archive, doing)
        self._lacks_first_files = False

    def _flush(self) -> None:
        if self._lacks_first_files:
            with self._put("making the log folders"):
                pass

    def _runner_or_raise(self) -> CommandRunner:
        if self._runner is None:
            raise EnvironmentLostError(f"{self._name} is not started, or is stopped already")
        return self._runner

    @contextmanager
    def _lost_explained(self) -> Iterator[None]:
        """Say how the container ended; if before its first command, that it never worked."""
        try:
            yield
        except EnvironmentLostError as error:
            kind, reason = self.end_of_container()
            if reason:
                raise kind(reason) from error
            raise

    def end_of_container(self) -> tuple[type[EnvironmentFault], str]:
        """How the container ended, and the last lines of its log; no text while it runs."""
        try:
            inspected = self._engine.api.inspect_container(self._name)
            state = inspected["State"]
            log = self._engine.api.logs(self._name, tail=LOG_LINES).decode(errors="replace")
        except (APIError, OSError):
            return EnvironmentLostError, ""
        if state["Running"]:
            return EnvironmentLostError, ""
        ending = f"{why(state)}{indented(log)}"
        if self._proved_alive:
            return EnvironmentLostError, f"{self._name} stopped: {ending}"
        entrypoint = (inspected.get("Config") or {}).get("Entrypoint")
        cause = (
            f"its ENTRYPOINT {entrypoint} has to run the command that it is given, "
            'as with `exec "$@"`'
            if entrypoint
            else "its first process ended"
        )
        return EnvironmentStartError, f"{self._name} stopped at once, {cause}: {ending}"


def indented(log: str) -> str:
    """Lines of a log, ready to be appended to a sentence."""
    return "".join(f"\n  | {line}" for line in log.splitlines())
