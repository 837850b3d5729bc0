"""A box whose network changes with the phases of its trial."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO

from docker.errors import APIError

from pytest_harbor.environment.base import (
    Change,
    Environment,
    EnvironmentRequest,
    RunningProcess,
)
from pytest_harbor.environment.docker import capabilities
from pytest_harbor.environment.docker.box_network import BoxNetwork, network_of, require_uplink
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.image import Image
from pytest_harbor.environment.docker.kept import Kept
from pytest_harbor.environment.docker.operations import ContainerOperations
from pytest_harbor.environment.docker.policies import means_for
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.environment.kept import KeptBox
from pytest_harbor.environment.saved import SavedFiles
from pytest_harbor.errors import EnvironmentFault
from pytest_harbor.result.network import RefusedConnection
from pytest_harbor.task.network import NetworkPolicy


class NetworkedBox(ContainerOperations):
    """A box with a way out of its own."""

    def __init__(self, engine: Engine, name: str, spec: ContainerSpec, box: str) -> None:
        super().__init__(engine, name)
        self._spec = spec
        self._network: BoxNetwork = network_of(engine, box, spec)
        self._base: Image | None = None

    @property
    def _gateway_image(self) -> str | None:
        return self._spec.gateway_image

    @property
    def installed(self) -> Sequence[str]:
        """All layers: a box whose image cannot be had with them does not start."""
        return tuple(layer.name for layer in self._spec.layers)

    def check(self, request: EnvironmentRequest) -> None:
        """See whether the engine can give a box like ``request``."""
        super().check(request)
        capabilities.require_runtime(self._engine, request.runtime)
        capabilities.require_policies(self._engine, request.network)
        if request.uplink is not None and means_for(request.network) != "none":
            require_uplink(self._engine, request.uplink)
        if means_for(request.network) == "gateway":
            from pytest_harbor.environment.docker.gateway.pool import gateways

            gateways(self._engine, request.uplink, request.gateway_image).warm()

    def set_network_policy(self, policy: NetworkPolicy) -> None:
        """From now on, let through what ``policy`` says and nothing else."""
        self._runner_or_raise()
        with self._lost_explained():
            self._network.set(policy)

    def expect_network_policy(self, policy: NetworkPolicy) -> None:
        """``policy`` will be set soon."""
        self._network.expect(policy)

    def refused_connections(self) -> Sequence[RefusedConnection]:
        """What was refused since the last call."""
        return self._network.refused()

    def _kept_box(self, beside: Kept, project: str = "") -> KeptBox:
        """What a person is told of this box, which has its last name by now."""
        running = False
        with suppress(APIError):
            running = bool(self._engine.api.inspect_container(self._name)["State"]["Running"])
        shell = self._runner_or_raise().shell
        if running:
            with suppress(EnvironmentFault):
                found = self.exec(["sh", "-c", "command -v bash"], user="0", cwd="/").exit_code
                shell = "bash" if found == 0 else shell
        return KeptBox(
            name=self._name,
            run_id=self._engine.run_id,
            shell=shell,
            workdir=self.workdir,
            is_running=running,
            containers=(self._name, *beside.containers),
            networks=beside.networks,
            project=project,
        )

    @property
    def _is_seen(self) -> bool:
        return capabilities.is_seen_from_outside(self._engine, self._spec.runtime)

    def left_running(self) -> Sequence[RunningProcess] | None:
        """Processes that were started since; None where the engine does not see them."""
        return super().left_running() if self._is_seen else None

    def changes(self) -> Sequence[Change] | None:
        """Files that differ from the image's; None where the engine does not see them."""
        return super().changes() if self._is_seen else None

    @property
    def can_fork(self) -> bool:
        """Whether the engine sees the files that are to be copied."""
        return self._is_seen

    def fork(
        self,
        network: tuple[NetworkPolicy, ...],
        *,
        restore: Collection[str],
        remove: Collection[str],
    ) -> Environment:
        """A second box with this one's files; this one has to last until it is started.

        Beside services, it takes this one's place, which is stopped as it starts.
        """
        from pytest_harbor.environment.docker.fork import fork_box

        self._runner_or_raise()
        self._flush()
        with self._lost_explained():
            return fork_box(self._engine, self, self._spec, network, restore, remove)

    def image_identity(self) -> tuple[str, str]:
        """How the image below the layers is called, and its id, after which layers are named."""
        if self._base is not None:
            return self._base.reference, self._base.id
        with self._engine.errors(f"looking at {self._name}", EnvironmentFault):
            inspected = self._engine.api.inspect_container(self._name)
        return str(inspected["Config"]["Image"]), str(inspected["Image"])

    def save_files(self, sink: BinaryIO, *, already: int = 0) -> SavedFiles:
        """Write what differs from the image into ``sink``."""
        from pytest_harbor.environment.docker.saved import save_files

        self._runner_or_raise()
        self._flush()
        with self._lost_explained():
            return save_files(self._engine, self, self._spec, sink, already)

    def start_for(self, saved: SavedFiles, *, timeout_sec: float | None = None) -> None:
        """Start to be given the files that another box had."""
        from pytest_harbor.environment.docker.saved import require_same_image

        # What lies in the task's folder for the first start is among the files already.
        self._spec = replace(self._spec, upload_dir=None, layers=saved.layers)
        self.start(timeout_sec=timeout_sec)
        require_same_image(saved, *self.image_identity())

    def fill(self, saved: SavedFiles, archive: BinaryIO) -> None:
        """Have the files that another box had."""
        from pytest_harbor.environment.docker.saved import fill

        with self._lost_explained():
            fill(self._engine, self, self._spec, saved, archive)
