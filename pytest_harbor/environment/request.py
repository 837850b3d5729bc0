"""What a trial wants of a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from pytest_harbor.environment.image_work import ImageWork
from pytest_harbor.task.network import NetworkPolicy

if TYPE_CHECKING:
    from pytest_harbor.task.config import EnvironmentConfig
    from pytest_harbor.task.reader import Task


@dataclass(frozen=True, slots=True)
class ImageLayer:
    """A tool that is installed on top of a box's image, once for all its boxes.

    Attributes:
        name: The tool's, for people and names on the engine.
        script: Text for ``sh``, run by root with a network.
        key: What else decides what the script makes, as the tool's version.
        folder: Where the tool lies: nothing else of what the script does gets into the
            image; empty: everything does.
        timeout_sec: Limit of the script; None: no limit.
    """

    name: str
    script: str
    key: str = ""
    folder: str = ""
    timeout_sec: float | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentRequest:
    """What a trial wants of a backend; a backend is a callable from this to an environment.

    Attributes:
        task: The task as read.
        config: The table that describes the box: ``[environment]``, or a verifier's own.
        build_folder: Folder of the box's ``Dockerfile`` or compose file; may not exist.
        trial_name: Name of the trial, for labels and names on the engine.
        run_id: The run that everything made belongs to.
        env: Variables of every command, resolved; values may be secret.
        role: ``"agent"``: the box that the agent works in; ``"verifier"``: a box of the
            verifier's own, which has no part in the agent's network or files.
        network: Every policy that the box will have, in order, without repetitions; the
            first holds from its start, the others from :meth:`Environment.set_network_policy`.
        uplink: Name of a network on the engine through which the box reaches the outside;
            None: one of the run's own.
        gateway_image: A ready image with the tools that hold a policy, for engines that
            cannot build one; None: the backend makes its own where it needs one.
        runtime: The engine's runtime for the box's containers, as ``runsc``; None: its default.
        hardened: Programs may not gain rights by set-id bits (``no-new-privileges``).
        cpus: Number of cores; None: no limit.
        memory_mb: MiB; None: no limit.
        storage_mb: MiB; None: no limit; backends that cannot limit it say so in a note.
        rebuild: Build the image even if it is there.
        layers: What the box has on top of its image; a backend that cannot do that leaves
            them out, and whoever asked looks and installs by itself.
        allow_privileged: The task's compose file may ask for rights over the host.
        build_log: File on this machine for the log of a build.
        image_work: Is told of work on images that takes long.
        services_dir: Folder on this machine for the logs of further services.
        filter_data: Wraps a log on its way there, to take secrets out.
        labels: For everything made, beside the backend's own.
    """

    task: Task
    config: EnvironmentConfig
    build_folder: Path
    trial_name: str
    run_id: str
    env: Mapping[str, str]
    role: Literal["agent", "verifier"] = "agent"
    network: tuple[NetworkPolicy, ...] = (NetworkPolicy(),)
    uplink: str | None = None
    gateway_image: str | None = None
    runtime: str | None = None
    hardened: bool = False
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    rebuild: bool = False
    layers: tuple[ImageLayer, ...] = ()
    allow_privileged: bool = False
    build_log: Path | None = None
    image_work: ImageWork = field(default_factory=ImageWork, compare=False)
    services_dir: Path | None = None
    filter_data: Callable[[BinaryIO], BinaryIO] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
