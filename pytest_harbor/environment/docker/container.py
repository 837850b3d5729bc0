"""One container per trial: start, exec, files, stop."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from docker.errors import APIError

from pytest_harbor.environment.docker import capabilities
from pytest_harbor.environment.docker.archive import UploadArchive
from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import (
    Engine,
    explanation,
)
from pytest_harbor.environment.docker.execution import CommandRunner
from pytest_harbor.environment.docker.image import Image, ensure_image
from pytest_harbor.environment.docker.installed import with_layers
from pytest_harbor.environment.docker.kept import renamed_to_stay
from pytest_harbor.environment.docker.naming import container_name, kept_name
from pytest_harbor.environment.docker.networked import NetworkedBox
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.environment.kept import KeptBox
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
_SERVICE_LOG = {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "1"}}


class NetworkGoneError(EnvironmentStartError):
    """The run's network was removed between two containers."""


class DockerEnvironment(NetworkedBox):
    """A box that is one container of a Docker engine.

    :meth:`start` makes the container and nothing more: the log folders and the spec's
    ``upload_dir`` travel with the first upload, or just before the first command.
    """

    def __init__(self, spec: ContainerSpec, engine: Engine) -> None:
        name = container_name(spec.name_hint)
        super().__init__(engine, name, spec, name)
        self._created = False
        self._kept = False
        self._image: Image | None = None
        self._notes: list[str] = []

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

    @property
    def path_folders(self) -> Sequence[str]:
        """The image's."""
        return self._image.path_folders if self._image else ()

    @property
    def _memory_is_limited(self) -> bool:
        return bool(self._spec.memory_mb)

    @property
    def _starts_alone(self) -> bool:
        return bool(self._image and not self._image.has_entrypoint)

    def start(self, *, timeout_sec: float | None = None) -> None:
        """Build or find the image, create the container and start it."""
        deadline = Deadline(timeout_sec)
        capabilities.check(self._engine, self._spec)
        self._network.begin(deadline)
        image = self._image = self._ensure_image(deadline)
        self._spec.image_work.used.append(f"{image.reference}@{image.id}")
        self._network.join(image.id, deadline)
        try:
            shell = self._start_with_a_shell(image)
        except NetworkGoneError:
            self._remove()
            self._network.rejoin(image.id, deadline)
            shell = self._start_with_a_shell(image)
        if deadline.passed:
            raise EnvironmentStartTimeoutError(
                f"{self._name}: did not start within {timeout_sec:g} s; raise "
                "[environment].build_timeout_sec or --harbor-build-timeout-multiplier"
            )
        self._network.settle()
        self._runner = CommandRunner(self._engine, self._name, shell)
        self._lacks_first_files = True

    def _ensure_image(self, deadline: Deadline) -> Image:
        image = self._base = ensure_image(self._engine, self._spec, deadline)
        return with_layers(self._engine, image, self._spec) if self._spec.layers else image

    def _start_with_a_shell(self, image: Image) -> str:
        """Start the container with ``sh``, or ``bash`` where the image has no ``sh``."""
        known = self._engine.cache.shells.get(image.id)
        refusal = ""
        for shell in (known,) if known else ("sh", "bash"):
            self._create(image, shell)
            self._network.admit([self._name], attached=True)
            if image.has_entrypoint:
                self._network.settle()  # a program of the image's may use the network at once
            refusal = self._try_start(shell)
            if not refusal:
                self._engine.cache.shells[image.id] = shell
                return shell
            self._remove()
        raise EnvironmentStartError(
            f"image {image.reference} has neither sh nor bash, one of which is needed "
            f"({refusal}); install one in the Dockerfile"
        )

    def _create(self, image: Image, shell: str) -> None:
        self._created = True  # before the request: an interrupt must not lose the container
        config = self._config(image, shell)
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

    def _config(self, image: Image, shell: str) -> dict[str, Any]:
        limits, notes = capabilities.host_resources(self._engine, self._spec)
        self._notes = notes
        config: dict[str, Any] = {
            "Image": image.id,
            "Cmd": [shell, "-c", _KEEPALIVE],
            "OpenStdin": True,
            "Env": [f"{key}={value}" for key, value in self._spec.env.items()],
            "Labels": self._engine.labels(self._spec.labels),
            "HostConfig": {
                "NetworkMode": self._network.name,
                "LogConfig": _SERVICE_LOG,
                **limits,
                **capabilities.confinement(self._spec),
            },
        }
        if extra_hosts := capabilities.extra_hosts(self._spec):
            config["HostConfig"]["ExtraHosts"] = extra_hosts
        if self._network.dns:
            config["HostConfig"]["Dns"] = list(self._network.dns)
        if self._network.dns_options:
            config["HostConfig"]["DnsOptions"] = list(self._network.dns_options)
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
        """Remove the container, its volumes and its way out, unless it is kept."""
        self._runner = None
        self._close_image()
        if self._kept:
            self._network.let_go()
            return
        if self._created:
            self._remove()
        self._network.leave()

    def _remove(self) -> None:
        with self._engine.errors(f"removing {self._name}", EnvironmentFault):
            remove_container(self._engine, self._name)
        self._created = False

    def keep(self) -> KeptBox:
        """Leave the container running, under a name that no sweep takes."""
        self._runner_or_raise()
        with suppress(EnvironmentLostError):  # one that has ended is for looking at its files
            self._flush()
        if not self._kept:
            with renamed_to_stay(self._engine, [self._name]):
                self._network.keep()
            self._name = kept_name(self._name)
            self._runner = CommandRunner(self._engine, self._name, self._runner_or_raise().shell)
            self._kept = True
        return self._kept_box(self._network.keep())


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
