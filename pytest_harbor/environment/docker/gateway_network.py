"""A network whose only way out is a gateway that holds the box to its policies."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.box_network import BoxNetwork, connect, require_uplink
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.gateway.pool import gateways
from pytest_harbor.environment.docker.kept import Kept
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.errors import EnvironmentFault, HarborError
from pytest_harbor.result.network import RefusedConnection
from pytest_harbor.task.network import NetworkPolicy, distinct

if TYPE_CHECKING:
    from pytest_harbor.environment.docker.gateway.gateway import Gateway


class GatewayNetwork(BoxNetwork):
    """A gateway of the box's own, from before its start until after its end."""

    def __init__(self, engine: Engine, box: str, spec: ContainerSpec) -> None:
        super().__init__(engine, box, spec)
        self._image = spec.gateway_image
        self._acquired: Future[Gateway] | None = None
        self._enforced: Future[None] | None = None
        self._is_sound = False
        self._kept: Kept | None = None

    def begin(self, deadline: Deadline) -> None:
        """Get a gateway and set the first policy while the image is seen to."""
        if self._acquired is not None:
            return
        if self._uplink is not None:
            require_uplink(self._engine, self._uplink)
        # Whence it comes it goes back: after the end of the run there would be another pool,
        # which nobody closes.
        self._pool = gateways(self._engine, self._uplink, self._image)
        worker = ThreadPoolExecutor(1, "pytest-harbor-gateway")
        self._acquired = worker.submit(self._pool.acquire, deadline)
        self._enforced = worker.submit(self._enforce_first)
        worker.shutdown(wait=False)

    def _enforce_first(self) -> None:
        first, *later = distinct(self._policies)
        self._gateway.enforce(first)
        for policy in later[:1]:
            self._gateway.prepare(policy)

    def join(self, image: str, deadline: Deadline) -> None:
        """Have the gateway's network; its policy may not hold yet."""
        self.begin(deadline)
        gateway = self._gateway
        self.name, self.dns = gateway.network, (gateway.dns,)

    @property
    def _gateway(self) -> Gateway:
        if self._acquired is None:
            raise EnvironmentFault(f"{self._box} has no gateway: it is not started")
        return self._acquired.result()

    def admit(self, containers: Sequence[str], *, attached: bool) -> None:
        """Wait until the first policy holds, if it forbids anything: a gateway comes up closed."""
        if not self._current.is_open:
            self.settle()
        if not attached:
            for container in containers:
                connect(self._engine, container, self.name)

    def settle(self) -> None:
        """Wait until the first policy holds."""
        if self._enforced is not None:
            self._enforced.result()
        self._is_sound = True

    def _change(self, policy: NetworkPolicy) -> None:
        self._is_sound = False
        self._gateway.enforce(policy)
        self._is_sound = True

    def expect(self, policy: NetworkPolicy) -> None:
        """Let the gateway make ready what ``policy`` takes."""
        if not policy.same_as(self._current):
            self._gateway.prepare(policy)

    def refused(self) -> Sequence[RefusedConnection]:
        """What the gateway refused."""
        return self._gateway.refused()

    def keep(self) -> Kept:
        """Leave the gateway with its box, under a name that no sweep takes."""
        if self._kept is None:
            sound, self._is_sound = self._is_sound, False  # one that is half kept is thrown away
            self._kept = self._gateway.keep()
            self._is_sound = sound
        return self._kept

    def let_go(self) -> None:
        """Close the connection to the gateway, which is kept."""
        acquired, self._acquired = self._acquired, None
        if acquired is not None:
            acquired.result().let_go()

    def leave(self) -> None:
        """Give the gateway back; one that may be in an unknown state is thrown away."""
        acquired, self._acquired = self._acquired, None
        if acquired is None or self._kept is not None:
            return
        with suppress(HarborError):  # of one that could not be had, the start has told already
            gateway = acquired.result()
            if self._is_sound:
                self._pool.release(gateway)
            else:
                self._pool.discard(gateway)
