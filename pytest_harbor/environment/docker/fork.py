"""A second box made from the files of one that has been worked in."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from tempfile import SpooledTemporaryFile
from typing import IO, Any, cast

from docker.errors import APIError

from pytest_harbor.environment.base import DownloadLimits, Environment
from pytest_harbor.environment.docker.archive import UploadArchive
from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.box_network import BoxNetwork
from pytest_harbor.environment.docker.capabilities import require_seen_from_outside
from pytest_harbor.environment.docker.client import FORK_LABEL, Engine
from pytest_harbor.environment.docker.container import LOG_FOLDERS, DockerEnvironment
from pytest_harbor.environment.docker.image import Image
from pytest_harbor.environment.docker.operations import ContainerOperations
from pytest_harbor.environment.docker.restore import Restoration
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.environment.docker.transfer import Transfer
from pytest_harbor.errors import (
    BoxTooLargeError,
    EnvironmentFault,
    EnvironmentStartError,
    UnsupportedError,
)
from pytest_harbor.result.network import RefusedConnection
from pytest_harbor.task.layout import LOGS_DIR, TESTS_DIR, VERIFIER_LOGS
from pytest_harbor.task.network import NetworkPolicy

MAX_COPY_BYTES = 32 * 1024**3
"""What a box may hold beside its image to be copied; a task that asks for more storage has more."""

_ANONYMOUS = re.compile(r"[0-9a-f]{64}")
_REMOVED_AT_A_TIME = 500
_VOLUME_LIMITS = DownloadLimits(total_bytes=8 * 1024**3, files=500_000)

# What a container is given beside its image, network, files and labels.
_SETTINGS = (
    "CapAdd", "CapDrop", "CpuPeriod", "CpuQuota", "CpuShares", "DeviceCgroupRules",
    "DeviceRequests", "Devices",
    "ExtraHosts", "GroupAdd", "Init", "Memory", "MemorySwap", "NanoCpus", "OomScoreAdj",
    "PidsLimit", "Runtime", "SecurityOpt", "ShmSize", "StorageOpt", "Sysctls", "Tmpfs",
    "Ulimits",
)  # fmt: skip


def fork_box(
    engine: Engine,
    box: ContainerOperations,
    spec: ContainerSpec,
    network: tuple[NetworkPolicy, ...],
    restore: Collection[str],
    remove: Collection[str],
) -> ForkedEnvironment:
    """A box with the files that ``box`` has now, not yet started.

    Raises:
        UnsupportedError: Its network cannot be had.
        BoxTooLargeError: It holds more than is copied.
        EnvironmentFault: The engine cannot copy the box.
    """
    spec = replace(spec, network=network, upload_dir=None, rebuild=False)
    with engine.errors(f"copying the files of {box.name}", EnvironmentFault):
        answer = engine.api.request_container("GET", box.name, "json", params={"size": "1"})
        inspected = answer.json()
        _require_size(box.name, inspected, spec)
        require_seen_from_outside(engine, inspected["HostConfig"].get("Runtime"), box.name)
        identity = engine.api.commit(box.name, changes=f"LABEL {FORK_LABEL}=1")["Id"]
    forked = ForkedEnvironment(spec, engine, box, inspected, identity)
    forked.restored, forked.removed = tuple(restore), tuple(remove)
    return forked


def most_copied(spec: ContainerSpec) -> int:
    """Bytes beside its image that a box may hold to be copied."""
    return max(MAX_COPY_BYTES, (spec.storage_mb or 0) * 1024**2)


def _require_size(name: str, inspected: Mapping[str, Any], spec: ContainerSpec) -> None:
    # The engine writes out the holes of a file, so one command could fill the machine's disk.
    size, most = inspected.get("SizeRw") or 0, most_copied(spec)
    if size > most:
        raise BoxTooLargeError(
            f"the files of {name} come to {size} bytes, holes counted; at most {most} are copied"
        )


class JoinedNetwork(BoxNetwork):
    """The place of a project's ``main`` on its networks."""

    def __init__(self, engine: Engine, box: ContainerOperations, spec: ContainerSpec) -> None:
        super().__init__(engine, box.name, spec)
        self._main = box
        self.joined: Mapping[str, Any] = {}

    def join(self, image: str, deadline: Deadline) -> None:
        """Have the project under the first policy, and its ``main`` out of the way."""
        self._main.set_network_policy(self._current)
        with self._engine.errors(f"looking at {self._main.name}", EnvironmentStartError):
            networks = self._engine.api.inspect_container(self._main.name)["NetworkSettings"]
        self.joined = {name: at for name, at in networks["Networks"].items() if name != "none"}
        self.name = next(iter(self.joined), "none")
        self._main.stop_main()

    def _change(self, policy: NetworkPolicy) -> None:
        raise UnsupportedError("the network of a copy of a project's main cannot change")

    def refused(self) -> Sequence[RefusedConnection]:
        """What the project's gateway refused."""
        return self._main.refused_connections()

    def endpoint(self, network: str, container: str) -> dict[str, Any]:
        """The names that ``main`` has on one network."""
        # The engine adds the short id of a container to its names: that one is not inherited.
        names = self.joined[network].get("Aliases") or ()
        return {"Aliases": [name for name in names if not container.startswith(name)]}


class ForkedEnvironment(DockerEnvironment):
    """A container of another one's files, with none of its processes.

    Attributes:
        restored: What it has as the first one's image has it.
        removed: What it lacks.
    """

    def __init__(
        self,
        spec: ContainerSpec,
        engine: Engine,
        box: ContainerOperations,
        inspected: Mapping[str, Any],
        image: str,
    ) -> None:
        super().__init__(spec, engine)
        self._box = box
        self._inspected = inspected
        if box.services:
            self._network = JoinedNetwork(engine, box, spec)
        self._copy: str | None = image
        self.restored: Sequence[str] = ()
        self.removed: Sequence[str] = ()
        self._emptied: Sequence[str] = ()

    @property
    def services(self) -> Sequence[str]:
        """Those of the first box: they live on."""
        return self._box.services

    def service(self, name: str) -> Environment:
        """One of the first box's services."""
        return self._box.service(name)

    def start(self, *, timeout_sec: float | None = None) -> None:
        """Create the container, put its files right, and only then start it."""
        super().start(timeout_sec=timeout_sec)
        self._lacks_first_files = False
        for begin in range(0, len(self._emptied), _REMOVED_AT_A_TIME):
            paths = self._emptied[begin : begin + _REMOVED_AT_A_TIME]
            result = self.exec(["rm", "-f", "--", *paths], user="0", cwd="/", timeout_sec=60)
            if result.exit_code != 0:
                raise EnvironmentStartError(
                    f"{self._name}: files that it must not have cannot be removed: {result.output}"
                )

    def _ensure_image(self, deadline: Deadline) -> Image:
        if self._copy is None:
            raise EnvironmentFault(f"{self._name} is stopped already")
        with self._engine.errors("looking at a box's copy", EnvironmentStartError):
            return Image.parse(self._box.name, self._engine.api.image(self._copy))

    # -- the container --------------------------------------------------------------

    def _config(self, image: Image, shell: str) -> dict[str, Any]:
        config = super()._config(image, shell)
        host = self._inspected["HostConfig"]
        own = config["HostConfig"]
        kept = (*_SETTINGS, *(("Dns",) if self._joins else ()))
        dropped = {*(own.get("CapDrop") or ()), *(host.get("CapDrop") or ())}
        config["HostConfig"] = {
            **own,
            **{key: host[key] for key in kept if host.get(key)},
            "CapDrop": sorted(dropped),
            "Mounts": [_mount(each) for each in self._shared_mounts()],
        }
        if self._network.name in self._joins:
            endpoints = {self._network.name: self._endpoint(self._network.name)}
            config["NetworkingConfig"] = {"EndpointsConfig": endpoints}
        return config

    @property
    def _joins(self) -> Collection[str]:
        return self._network.joined if isinstance(self._network, JoinedNetwork) else ()

    def _endpoint(self, network: str) -> dict[str, Any]:
        assert isinstance(self._network, JoinedNetwork)
        return self._network.endpoint(network, self._inspected["Id"])

    def _mounts(self) -> list[Mapping[str, Any]]:
        return [each for each in self._inspected.get("Mounts") or () if each["Type"] != "tmpfs"]

    def _shared_mounts(self) -> list[Mapping[str, Any]]:
        """What services may use, too; a volume without a name is this box's alone."""
        return [m for m in self._mounts() if not _ANONYMOUS.fullmatch(m.get("Name") or "")]

    def _create(self, image: Image, shell: str) -> None:
        super()._create(image, shell)
        for other in self._joins:
            if other != self._network.name:
                with self._engine.errors(f"joining {other}", EnvironmentStartError):
                    names = self._endpoint(other)["Aliases"]
                    self._engine.api.connect_container_to_network(self._name, other, aliases=names)
        self._copy_volumes()
        self._put_right()

    def _copy_volumes(self) -> None:
        shared = self._shared_mounts()
        for mount in self._mounts():
            if mount in shared:
                continue
            with SpooledTemporaryFile(max_size=4 * 1024**2) as packed:
                file = cast("IO[bytes]", packed)
                source = Transfer(self._engine, self._box.name)
                source.archive(mount["Destination"], cast("Any", file), _VOLUME_LIMITS, ())
                own = Transfer(self._engine, self._name)
                own.put_file(file, f"copying {mount['Destination']}")

    def _put_right(self) -> None:
        """Restore, remove and make anew while nothing runs."""
        own = Transfer(self._engine, self._name)
        with closing(UploadArchive()) as archive:
            restoration = Restoration(self._box.image_files().transfer, own, archive)
            restoration.restore(_outside(self.restored))
            restoration.remove(_outside(self.removed))
            for folder in (LOGS_DIR, *LOG_FOLDERS):
                if not own.is_folder(folder):
                    archive.add_cleared_folder(folder, 0o777)
            for folder in LOG_FOLDERS:
                archive.add_folder(folder, 0o777)
            for folder in (TESTS_DIR, VERIFIER_LOGS):
                archive.add_cleared_folder(folder, 0o777)
            own.put(archive, f"restoring files of {self._name}")
        self._emptied = restoration.emptied

    def stop(self) -> None:
        """Remove the container and the copy that it was made from."""
        super().stop()
        if self._copy is not None and not self._kept:
            image, self._copy = self._copy, None
            with (
                self._engine.errors("removing a box's copy", EnvironmentFault),
                suppress(_GoneError),
            ):
                self._remove_image(image)

    def _remove_image(self, image: str) -> None:
        try:
            self._engine.api.remove_image(image, noprune=True)
        except APIError as error:
            if error.status_code == 404 or "unrecognized image ID" in str(error):
                raise _GoneError from error
            raise


class _GoneError(Exception):
    pass


def _outside(paths: Collection[str]) -> list[str]:
    """Those that do not lie where everything is made anew in any case."""
    anew = (TESTS_DIR, LOGS_DIR, VERIFIER_LOGS)
    below = (f"{TESTS_DIR}/", f"{VERIFIER_LOGS}/")
    return [path for path in paths if path not in anew and not path.startswith(below)]


def _mount(found: Mapping[str, Any]) -> dict[str, Any]:
    source = found.get("Name") if found["Type"] == "volume" else found["Source"]
    return {
        "Type": found["Type"],
        "Source": source,
        "Target": found["Destination"],
        "ReadOnly": not found.get("RW", True),
    }
