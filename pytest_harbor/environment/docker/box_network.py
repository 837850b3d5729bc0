"""The way out of a box, and what becomes of it as the policies change.

A box joins before its containers are made, admits them before they start, and leaves once
they are gone. Nothing here knows whether the containers are one or a project's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from docker.errors import APIError

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import Engine, explanation
from pytest_harbor.environment.docker.kept import Kept
from pytest_harbor.environment.docker.network import (
    ensure_network,
    forget_run_network,
    own_network_name,
    remove_network,
)
from pytest_harbor.environment.docker.policies import is_among, means_for
from pytest_harbor.environment.docker.resolvers import engine_resolvers
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.errors import EnvironmentFault, EnvironmentStartError, UnsupportedError
from pytest_harbor.result.network import RefusedConnection
from pytest_harbor.task.network import NetworkPolicy

# While a network is closed nobody answers, and each name would be waited for: 20 s at worst.
QUICK_TO_GIVE_UP = ("timeout:1", "attempts:2")


class BoxNetwork:
    """A box's way out; this one never changes.

    Attributes:
        name: The engine's network, or ``none``; known once it is joined.
        dns: Name servers that the containers are made with; none: the engine's choice.
        dns_options: Their resolvers' options, likewise.
    """

    def __init__(self, engine: Engine, box: str, spec: ContainerSpec) -> None:
        self._engine = engine
        self._box = box
        self._uplink = spec.uplink
        self._policies = spec.network
        self._current = spec.network[0]
        self.name = "none"
        self.dns: tuple[str, ...] = ()
        self.dns_options: tuple[str, ...] = ()

    def begin(self, deadline: Deadline) -> None:
        """The image is being seen to: what takes time may start in the background."""

    def join(self, image: str, deadline: Deadline) -> None:
        """Have the network that containers of ``image`` will be on."""

    def rejoin(self, image: str, deadline: Deadline) -> None:
        """Have it again, after it was removed by somebody."""
        self.join(image, deadline)

    def admit(self, containers: Sequence[str], *, attached: bool) -> None:
        """Put containers that are made, and not started, under the first policy.

        Nothing that it forbids passes from here on. What it allows may take until
        :meth:`settle`.

        Args:
            containers: All of the box that have a network.
            attached: They were made on :attr:`name`.
        """

    def settle(self) -> None:
        """Return once all passes that the first policy lets through; no more did before."""

    def set(self, policy: NetworkPolicy) -> None:
        """Let through what ``policy`` says from now on.

        Raises:
            UnsupportedError: The box was not made for that policy; nothing has changed.
            EnvironmentFault: It could not be done.
        """
        if not is_among(policy, self._policies):
            asked = ", ".join(known.mode for known in self._policies)
            raise UnsupportedError(
                f"{self._box} was made for other network policies ({asked}) than one of mode "
                f"{policy.mode!r} with {len(policy.hosts)} hosts; name it when the box is made"
            )
        if not policy.same_as(self._current):
            self._change(policy)
            self._current = policy

    def _change(self, policy: NetworkPolicy) -> None:
        """Make a policy hold that differs from the one that holds now."""

    def expect(self, policy: NetworkPolicy) -> None:
        """``policy`` comes next."""

    def refused(self) -> Sequence[RefusedConnection]:
        """What was refused lately."""
        return ()

    def keep(self) -> Kept:
        """Stay for a person; gives what belongs to the box beside its containers."""
        return Kept()

    def let_go(self) -> None:
        """The box is kept, and this process is done with it."""

    def leave(self) -> None:
        """The containers are gone."""


class NoNetwork(BoxNetwork):
    """Loopback only."""


class OpenNetwork(BoxNetwork):
    """The run's network, or the one that the run was told to use."""

    def join(self, image: str, deadline: Deadline) -> None:
        """Have the network, made anew if it is the run's."""
        if self._uplink is None:
            self.name = ensure_network(self._engine, self._box, deadline)
            return
        require_uplink(self._engine, self._uplink)
        self.name = self._uplink

    def rejoin(self, image: str, deadline: Deadline) -> None:
        """Have it again, after it was removed by somebody."""
        forget_run_network(self._engine)
        self.join(image, deadline)

    def admit(self, containers: Sequence[str], *, attached: bool) -> None:
        """Nothing to do for a container that was made on the network."""
        if not attached:
            for container in containers:
                connect(self._engine, container, self.name)

    def leave(self) -> None:
        """Remove the network where each box has its own."""
        own = own_network_name(self._engine, self._box)
        if own is not None and own == self.name:
            remove_network(self._engine, own)
            self.name = "none"


class SwitchedNetwork(OpenNetwork):
    """A network that the containers are on while the policy is open, and only then."""

    def __init__(self, engine: Engine, box: str, spec: ContainerSpec) -> None:
        super().__init__(engine, box, spec)
        self._containers: tuple[str, ...] = ()

    def join(self, image: str, deadline: Deadline) -> None:
        """Have the network, and name servers that are asked from within the container.

        The engine's own may be asked from its machine, whatever the container can reach.
        """
        super().join(image, deadline)
        self.dns = engine_resolvers(self._engine, image)
        self.dns_options = QUICK_TO_GIVE_UP

    def admit(self, containers: Sequence[str], *, attached: bool) -> None:
        """Take them off the network, or put them on it, as the first policy says."""
        self._containers = tuple(containers)
        if attached != self._current.is_open:
            self._change(self._current)

    def _change(self, policy: NetworkPolicy) -> None:
        if policy.is_open:
            self._open()
        else:
            self._close()

    def _open(self) -> None:
        try:
            for container in self._containers:
                connect(self._engine, container, self.name)
        except EnvironmentFault:
            with suppress(EnvironmentFault):
                self._close()
            raise

    def _close(self) -> None:
        """Every container is tried, so that one that fails leaves no other open."""
        failed: EnvironmentFault | None = None
        for container in self._containers:
            try:
                disconnect(self._engine, container, self.name)
            except EnvironmentFault as error:
                failed = error
        if failed is not None:
            raise failed


def network_of(engine: Engine, box: str, spec: ContainerSpec) -> BoxNetwork:
    """The network that holds a box to the policies of ``spec``; nothing is made yet."""
    means = means_for(spec.network)
    if means == "gateway":
        # Here, since most boxes need none.
        from pytest_harbor.environment.docker.gateway_network import GatewayNetwork

        return GatewayNetwork(engine, box, spec)
    kinds = {"public": OpenNetwork, "none": NoNetwork, "switched": SwitchedNetwork}
    return kinds[means](engine, box, spec)


def require_uplink(engine: Engine, name: str) -> None:
    """Raise EnvironmentStartError where the engine has no such network, or no more."""
    if name in engine.cache.networks:
        return
    with engine.errors(f"looking at the network {name!r}", EnvironmentStartError):
        try:
            engine.api.inspect_network(name)
        except APIError as error:
            if error.status_code != 404:
                raise
            raise EnvironmentStartError(
                f"the engine has no network {name!r} to reach the outside through; "
                "`docker network ls` shows those that it has"
            ) from error
    engine.cache.networks.add(name)


def connect(engine: Engine, container: str, network: str) -> None:
    """Put a container on a network; there already is as good."""
    with engine.errors(f"connecting {container} to {network}", EnvironmentFault):
        try:
            engine.api.connect_container_to_network(container, network)
        except APIError as error:
            if "already exists in network" not in explanation(error):
                raise


def disconnect(engine: Engine, container: str, network: str) -> None:
    """Take a container off a network; off already is as good."""
    with engine.errors(f"disconnecting {container} from {network}", EnvironmentFault):
        try:
            engine.api.disconnect_container_from_network(container, network)
        except APIError as error:
            if "is not connected to" not in explanation(error):
                raise
