"""One container per trial: start, exec, files, stop."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from docker.errors import APIError

from pytest_harbor.environment.base import (
    DEFAULT_LIMITS,
    DownloadLimits,
    DownloadReport,
    Environment,
    ExecResult,
)
from pytest_harbor.environment.docker import capabilities
from pytest_harbor.environment.docker.archive import UploadArchive
from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import (
    RUN_LABEL,
    Engine,
    explanation,
)
from pytest_harbor.environment.docker.execution import CommandRunner, why
from pytest_harbor.environment.docker.image import Image, ensure_image
from pytest_harbor.environment.docker.naming import container_name, kept_name
from pytest_harbor.environment.docker.network import ensure_run_network, forget_run_network
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.environment.docker.transfer import Transfer
from pytest_harbor.errors import (
    EngineUnavailableError,
    EnvironmentFault,
    EnvironmentLostError,
    EnvironmentStartError,
    EnvironmentStartTimeoutError,
    ImageNotFoundError,
)

LOG_FOLDERS = ("/logs/agent", "/logs/verifier", "/logs/artifacts")

# An image without `sleep` lives on as well: its standard input is open and stays silent.
_KEEPALIVE = "sleep infinity || read -r _"
_NOT_THERE = re.compile(r"executable file not found|no such file or directory", re.IGNORECASE)
_NETWORK_GONE = re.compile(r"network \S+ not found", re.IGNORECASE)
_KILLED = 137
_LOG_LINES = 15
_SERVICE_LOG = {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "1"}}

# What the kernel counted, in both versions of its memory controller.
_OOM_COUNT = """\
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  while read -r key value; do
    [ "$key" = oom_kill ] && echo "$value"
  done <"$file"
done 2>/dev/null
"""


class NetworkGoneError(EnvironmentStartError):
    """The run's network was removed between two containers."""


class DockerEnvironment(Environment):
    """A box that is one container of a Docker engine.

    :meth:`start` makes the container and nothing more: the log folders and the spec's
    ``upload_dir`` travel with the first upload, or just before the first command.
    """

    def __init__(self, spec: ContainerSpec, engine: Engine) -> None:
        self._spec = spec
        self._engine = engine
        self._name = container_name(spec.name_hint)
        self._created = False
        self._kept = False
        self._image: Image | None = None
        self._runner: CommandRunner | None = None
        self._lacks_first_files = False
        self._proved_alive = False
        self._oom_kills = 0
        self._notes: list[str] = []

    @property
    def name(self) -> str:
        """Name of the container."""
        return self._name

    @property
    def image(self) -> str:
        """Reference of the image that the container was made from; empty before start."""
        return self._image.reference if self._image else ""

    @property
    def notes(self) -> Sequence[str]:
        """What was done otherwise than asked, one sentence each."""
        return (*self._notes, *(self._runner.notes if self._runner else ()))

    @property
    def default_user(self) -> str:
        """The image's user."""
        return self._image.user if self._image else "root"

    @property
    def workdir(self) -> str:
        """The spec's folder, else the image's."""
        return self._spec.workdir or (self._image.workdir if self._image else "/")

    def start(self, *, timeout_sec: float | None = None) -> None:
        """Build or find the image, create the container and start it."""
        deadline = Deadline(timeout_sec)
        capabilities.check(self._engine, self._spec)
        self._image = ensure_image(self._engine, self._spec, deadline)
        try:
            shell = self._start_with_a_shell(self._image, self._network(deadline))
        except NetworkGoneError:
            self._remove()
            forget_run_network(self._engine)
            shell = self._start_with_a_shell(self._image, self._network(deadline))
        if deadline.passed:
            raise EnvironmentStartTimeoutError(
                f"{self._name}: did not start within {timeout_sec:g} s; raise "
                "[environment].build_timeout_sec or --harbor-build-timeout-multiplier"
            )
        self._runner = CommandRunner(self._engine, self._name, shell)
        self._lacks_first_files = True

    def _network(self, deadline: Deadline) -> str:
        if self._spec.network == "none":
            return "none"
        return ensure_run_network(self._engine, deadline)

    def _start_with_a_shell(self, image: Image, network: str) -> str:
        """Start the container with ``sh``, or ``bash`` where the image has no ``sh``."""
        known = self._engine.cache.shells.get(image.id)
        refusal = ""
        for shell in (known,) if known else ("sh", "bash"):
            self._create(image, network, shell)
            refusal = self._try_start(shell)
            if not refusal:
                self._engine.cache.shells[image.id] = shell
                return shell
            self._remove()
        raise EnvironmentStartError(
            f"image {image.reference} has neither sh nor bash, one of which is needed "
            f"({refusal}); install one in the Dockerfile"
        )

    def _create(self, image: Image, network: str, shell: str) -> None:
        self._created = True  # before the request: an interrupt must not lose the container
        config = self._config(image, network, shell)
        doing = f"creating {self._name}"
        with self._engine.errors(doing, EnvironmentStartError, EngineUnavailableError):
            try:
                self._engine.api.create_from(config, self._name)
            except APIError as error:
                if "no such image" in explanation(error).lower():
                    raise ImageNotFoundError(
                        f"image {image.reference} was removed while the run goes on"
                    ) from error
                raise

    def _config(self, image: Image, network: str, shell: str) -> dict[str, Any]:
        limits, notes = capabilities.host_resources(self._engine, self._spec)
        self._notes = notes
        config: dict[str, Any] = {
            "Image": image.id,
            "Cmd": [shell, "-c", _KEEPALIVE],
            "OpenStdin": True,
            "Env": [f"{key}={value}" for key, value in self._spec.env.items()],
            "Labels": self._engine.labels(self._spec.labels),
            "HostConfig": {"NetworkMode": network, "LogConfig": _SERVICE_LOG, **limits},
        }
        if self._spec.workdir:
            config["WorkingDir"] = self._spec.workdir
        return config

    def _try_start(self, shell: str) -> str:
        """Start the container; gives the engine's words if the image lacks the shell."""
        doing = f"starting {self._name}"
        with self._engine.errors(doing, EnvironmentStartError, EngineUnavailableError):
            try:
                self._engine.api.start(self._name)
            except APIError as error:
                words = explanation(error)
                if _NETWORK_GONE.search(words):
                    raise NetworkGoneError(f"{doing}: {words}") from error
                if f'"{shell}"' in words and _NOT_THERE.search(words):
                    return words
                raise
        return ""

    def _add_first_files(self, archive: UploadArchive) -> None:
        """What has to be in the container before anything runs in it."""
        for folder in LOG_FOLDERS:
            archive.add_folder(folder, 0o777)
        if self._spec.upload_dir is not None and not self._spec.builds:
            archive.add_tree(self._spec.upload_dir, self.workdir)

    def stop(self) -> None:
        """Remove the container and its volumes, unless it is kept."""
        self._runner = None
        if self._created and not self._kept:
            self._remove()

    def _remove(self) -> None:
        with self._engine.errors(f"removing {self._name}", EnvironmentFault):
            remove_container(self._engine, self._name)
        self._created = False

    def keep(self) -> str:
        """Leave the container running, under a name that no sweep takes.

        Returns:
            The commands that enter it and remove it.
        """
        self._flush()
        if not self._kept:
            with self._engine.errors(f"keeping {self._name}", EnvironmentFault):
                self._engine.api.rename(self._name, kept_name(self._name))
            self._name = kept_name(self._name)
            self._kept = True
        shell = self._runner_or_raise().shell
        run = self._engine.run_id
        return (
            f"enter:  docker exec -it {self._name} {shell}\n"
            f"remove: docker rm -f -v {self._name}\n"
            f"remove all of this run: docker rm -f -v "
            f"$(docker ps -aq --filter label={RUN_LABEL}={run})"
        )

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

    def _may_be_out_of_memory(self, result: ExecResult) -> bool:
        if not self._spec.memory_mb or result.exit_code in (0, None):
            return False
        return result.exit_code == _KILLED or "Killed" in result.output

    def _count_oom_kills(self) -> bool:
        """Whether the kernel has killed for memory since the last look."""
        result = self._runner_or_raise().run(
            ["sh", "-c", _OOM_COUNT], directory="/", user="0", deadline=Deadline(10.0)
        )
        counted = sum(int(word) for word in result.stdout.split() if word.isdigit())
        grown, self._oom_kills = counted > self._oom_kills, counted
        return grown

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
            kind, reason = self._end_of_container()
            if reason:
                raise kind(reason) from error
            raise

    def _end_of_container(self) -> tuple[type[EnvironmentFault], str]:
        try:
            inspected = self._engine.api.inspect_container(self._name)
            state = inspected["State"]
            log = self._engine.api.logs(self._name, tail=_LOG_LINES).decode(errors="replace")
        except (APIError, OSError):
            return EnvironmentLostError, ""
        if state["Running"]:
            return EnvironmentLostError, ""
        ending = f"{why(state)}{_indented(log)}"
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


def _indented(log: str) -> str:
    return "".join(f"\n  | {line}" for line in log.splitlines())


def remove_container(engine: Engine, name: str) -> None:
    """Kill and remove one container with its volumes; gone already is as good."""
    for _ in range(50):
        try:
            engine.api.remove_container(name, force=True, v=True)
            return
        except APIError as error:
            if error.status_code == 404:
                return
            # Somebody else's removal is under way: wait until it is done.
            if error.status_code != 409 or "already in progress" not in explanation(error):
                raise
            time.sleep(0.1)
