"""Commands in a box whose own processes cannot reach what they read and write.

What runs in the box is the agent's, root too, and lives on. So the command is started
from a second container, which shares the box's process ids and network: see
``view/enter.py``. The private folders are folders of that container, and are filled
and read there by the engine's archive requests.

A process of the view that gives up its user by itself, as by ``su``, loses the mark that
keeps others out: a root process of the box that becomes that user, too, can reach the
folders through it. Entries that a command makes at the top of the root folder stay in the view.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from pytest_harbor.environment.base import (
    DEFAULT_LIMITS,
    DownloadLimits,
    DownloadReport,
    Environment,
)
from pytest_harbor.environment.docker.archive import UploadArchive
from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.capabilities import require_seen_from_outside
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.container import remove_container
from pytest_harbor.environment.docker.gateway.image import ensure_gateway_image
from pytest_harbor.environment.docker.operations import OOM_COUNT, ContainerOperations
from pytest_harbor.environment.docker.transfer import Transfer
from pytest_harbor.environment.docker.view_runner import ENTER, ViewRunner
from pytest_harbor.errors import (
    EnvironmentFault,
    EnvironmentStartError,
    ImageError,
    UnsupportedError,
)

_PROGRAM_FILE = Path(__file__).parent / "view" / "enter.py"
_IMAGE_LIMIT_SEC = 300.0
_ROOT = "/harbor/root"
_FOLDERS = "/harbor/folders"

_NEEDED = ("SYS_ADMIN", "SYS_PTRACE", "WAKE_ALARM")
# With one of these a process of the box reaches whatever it likes.
_TOO_MIGHTY = {
    "ALL", "BPF", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH", "PERFMON", "SYS_ADMIN", "SYS_MODULE",
    "SYS_PTRACE", "SYS_RAWIO", "WAKE_ALARM",
}  # fmt: skip
# What a container may use; its groups go to each command.
_SETTINGS = (
    "CpuPeriod", "CpuQuota", "CpuShares", "DeviceCgroupRules", "DeviceRequests", "Devices",
    "Memory", "MemorySwap", "NanoCpus", "PidsLimit", "Ulimits",
)  # fmt: skip


@contextmanager
def open_private_view(
    engine: Engine, box: ContainerOperations, folders: Collection[str], ready_image: str | None
) -> Iterator[Environment]:
    """The view; its container is gone at the end.

    Args:
        engine: Where the box is.
        box: What is looked at.
        folders: What nothing that runs in the box already can reach.
        ready_image: Image with the gateway's tools; None: made here.

    Raises:
        UnsupportedError: The box's processes have rights that no view keeps out, or the
            image that a view runs in cannot be had.
    """
    with engine.errors(f"looking at {box.name}", EnvironmentFault):
        inspected = engine.api.inspect_container(box.name)
    require_seen_from_outside(engine, inspected["HostConfig"].get("Runtime"), box.name)
    _require_no_rights(box.name, inspected["HostConfig"])
    image = _view_image(engine, box.name, ready_image)
    view = PrivateView(engine, box, [posixpath.normpath(folder) for folder in folders], inspected)
    try:
        view.start_from(image)
        yield view
    finally:
        view.stop()


def _view_image(engine: Engine, box: str, ready: str | None) -> str:
    try:
        return ensure_gateway_image(engine, Deadline(_IMAGE_LIMIT_SEC), ready)
    except ImageError as error:
        raise UnsupportedError(
            f"{box} cannot be graded out of reach of its own processes: {error}"
        ) from error


def _require_no_rights(name: str, host: Mapping[str, Any]) -> None:
    added = {str(each).upper().removeprefix("CAP_") for each in host.get("CapAdd") or ()}
    mighty = sorted(added & _TOO_MIGHTY)
    if host.get("Privileged") or mighty or host.get("PidMode") == "host":
        rights = "privileged" if host.get("Privileged") else ", ".join(mighty) or "the host's pids"
        raise UnsupportedError(
            f"{name} cannot be graded out of reach of its own processes: its compose file gives "
            f"them {rights}; take that out, or give the task a verifier environment of its own"
        )


class PrivateView(ContainerOperations):
    """A box as its verifier sees it: files, network and processes, and folders of its own."""

    def __init__(
        self,
        engine: Engine,
        box: ContainerOperations,
        folders: Sequence[str],
        inspected: Mapping[str, Any],
    ) -> None:
        super().__init__(engine, f"{box.name}-view")
        self._box = box
        self._folders = folders
        self._inspected = inspected
        self._created = False

    @property
    def default_user(self) -> str:
        """The box's."""
        return self._box.default_user

    @property
    def workdir(self) -> str:
        """The box's."""
        return self._box.workdir

    @property
    def services(self) -> Sequence[str]:
        """The box's."""
        return self._box.services

    def service(self, name: str) -> Environment:
        """The box's."""
        return self._box.service(name)

    @property
    def _memory_is_limited(self) -> bool:
        return bool(self._inspected["HostConfig"].get("Memory"))

    def start(self, *, timeout_sec: float | None = None) -> None:
        """Refused: it lives as long as its context."""
        raise EnvironmentFault(f"{self._name} is started by its box")

    def start_from(self, image: str) -> None:
        """Make and start the view's container."""
        self._created = True  # before the request: an interrupt must not lose the container
        doing = f"opening a private view of {self._box.name}"
        with self._engine.errors(doing, EnvironmentStartError):
            self._engine.api.create_from(self._config(image), self._name)
            self._add_program()
            self._engine.api.start(self._name)
        self._runner = ViewRunner(self._engine, self._name, self._folders, self._inspected)
        self.clear(self._folders)

    def _add_program(self) -> None:
        with closing(UploadArchive()) as archive:
            archive.add_folder(_ROOT, 0o755)
            archive.add_folder(_FOLDERS, 0o755)
            archive.add_bytes(ENTER, _PROGRAM_FILE.read_bytes(), 0o644)
            Transfer(self._engine, self._name).put(archive, f"making {self._name}")

    def _config(self, image: str) -> dict[str, Any]:
        host = self._inspected["HostConfig"]
        shared = f"container:{self._inspected['Id']}"
        settings = {key: host[key] for key in _SETTINGS if host.get(key)}
        added = {*_NEEDED, *(host.get("CapAdd") or ())}
        return {
            "Image": image,
            "Entrypoint": ["sleep", "infinity"],
            "User": "0",
            "Labels": self._engine.labels(),
            "HostConfig": {
                **settings,
                "PidMode": shared,
                "NetworkMode": shared,
                "CapAdd": sorted(added),
                "SecurityOpt": ["apparmor=unconfined"],
                "OomScoreAdj": host.get("OomScoreAdj") or 0,
            },
        }

    def stop(self) -> None:
        """Remove the view's container, and end what runs in it."""
        self._runner = None
        if self._created:
            self._created = False
            with self._engine.errors(f"removing {self._name}", EnvironmentFault):
                remove_container(self._engine, self._name)

    def end_of_container(self) -> tuple[type[EnvironmentFault], str]:
        """How the box ended, which takes its view along; else how the view did."""
        kind, reason = self._box.end_of_container()
        return (kind, reason) if reason else super().end_of_container()

    def _oom_counts(self) -> str:
        runner = self._runner_or_raise()
        assert isinstance(runner, ViewRunner)
        return runner.run_outside(["sh", "-c", OOM_COUNT]).stdout

    # -- files: the view's own below the private folders, else the box's ----------------

    def _own(self, path: str) -> str | None:
        """Where a path of a private folder is in the view's container."""
        clean = posixpath.normpath(path)
        for number, folder in enumerate(self._folders):
            if clean == folder or clean.startswith(f"{folder}/"):
                return f"{_FOLDERS}/{number}{clean[len(folder) :]}"
        return None

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
        """Copy a file, or a folder's content."""
        self.clear(clear)
        own = self._own(target)
        into: ContainerOperations = self if own else self._box
        ContainerOperations.upload(
            into, source, own or target, executable=executable, include=include, replace=replace
        )

    def write(self, path: str, data: bytes | str, *, mode: int = 0o644) -> None:
        """Write one file, owned by root."""
        own = self._own(path)
        if own:
            super().write(own, data, mode=mode)
        else:
            self._box.write(path, data, mode=mode)

    def clear(self, folders: Collection[str]) -> None:
        """Make folders anew, empty."""
        owned = [own for folder in folders if (own := self._own(folder))]
        foreign = [folder for folder in folders if not self._own(folder)]
        if owned:
            super().clear(owned)
        if foreign:
            self._box.clear(foreign)

    def read(self, path: str, *, max_bytes: int = 1024 * 1024) -> bytes:
        """Content of one regular file."""
        own = self._own(path)
        if own:
            return super().read(own, max_bytes=max_bytes)
        return self._box.read(path, max_bytes=max_bytes)

    def download(
        self,
        source: str,
        target: Path,
        *,
        limits: DownloadLimits = DEFAULT_LIMITS,
        filter_data: Callable[[BinaryIO], BinaryIO] | None = None,
    ) -> DownloadReport:
        """Copy a file, or a folder's content, out of the view."""
        own = self._own(source)
        if own:
            return super().download(own, target, limits=limits, filter_data=filter_data)
        return self._box.download(source, target, limits=limits, filter_data=filter_data)

    def archive(
        self,
        source: str,
        sink: BinaryIO,
        *,
        limits: DownloadLimits = DEFAULT_LIMITS,
        exclude: Sequence[str] = (),
    ) -> DownloadReport:
        """Pack a file or folder of the box."""
        if self._own(source):
            raise UnsupportedError("a private folder cannot be packed for another environment")
        return self._box.archive(source, sink, limits=limits, exclude=exclude)

    def unpack(self, archive: BinaryIO) -> None:
        """Put what was packed elsewhere where it was, in the box."""
        self._box.unpack(archive)

    def _add_first_files(self, archive: UploadArchive) -> None:
        """The box has them already."""
