"""What a container is made of, in plain values; knows nothing of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_harbor.environment.base import ImageLayer
from pytest_harbor.environment.image_work import ImageWork
from pytest_harbor.task.network import NetworkPolicy

DEFAULT_PIDS_LIMIT = 16_384
"""Room for any honest build, and an end to a fork bomb before the machine's own."""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """Everything that :class:`DockerEnvironment` needs to know.

    Attributes:
        name_hint: Any text, as a task's short name; names on the engine are made from it.
        context_dir: Folder with a ``Dockerfile``; None where there is none.
        definition: An ``Apptainer.def`` in that folder, which takes the Dockerfile's place.
        docker_image: Prebuilt image; wins over the Dockerfile unless ``rebuild``.
        env: Variables of the container and so of every command.
        workdir: Absolute; None: the image's.
        cpus: Number of cores; None: no limit. More than the engine has means all of them.
        memory_mb: MiB of memory, swap included; None: no limit.
        storage_mb: MiB of the root file system, where the engine can limit it.
        gpus: Number of GPUs.
        gpu_types: Which would do; the engine cannot choose, so a note says that it did not.
        network: Every policy that the container will have; the first holds from its start.
        uplink: Network of the engine's through which it reaches the outside; None: the run's.
        gateway_image: Ready image for the gateway, where one is needed; None: made here.
        runtime: The engine's runtime; None: its default.
        hardened: No program gains rights by its set-id bits.
        upload_dir: Folder whose content lands in the working folder before anything runs.
        rebuild: Build again, without the builder's cache, once per run.
        layers: What is installed on top of the image.
        labels: On the container, beside this package's own.
        log_path: File for the image build's whole log; None: kept in memory only.
        image_work: Is told of builds, pulls and installs.
        pids_limit: Number of processes and threads.
    """

    name_hint: str
    context_dir: Path | None = None
    definition: Path | None = None
    docker_image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int = 0
    gpu_types: tuple[str, ...] = ()
    network: tuple[NetworkPolicy, ...] = (NetworkPolicy(),)
    uplink: str | None = None
    gateway_image: str | None = None
    runtime: str | None = None
    hardened: bool = False
    upload_dir: Path | None = None
    rebuild: bool = False
    layers: tuple[ImageLayer, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    log_path: Path | None = None
    image_work: ImageWork = field(default_factory=ImageWork, compare=False)
    pids_limit: int = DEFAULT_PIDS_LIMIT

    @property
    def builds(self) -> bool:
        """The Dockerfile is used, not the prebuilt image."""
        if self.context_dir is None:
            return False
        return self.docker_image is None or self.rebuild

    @property
    def is_restricted(self) -> bool:
        """Some policy does not let everything through."""
        return not all(policy.is_open for policy in self.network)
