"""One gateway: a box's network, and the container that is its only way out."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from docker.errors import APIError

from pytest_harbor.environment.docker.client import Engine, explanation
from pytest_harbor.environment.docker.gateway.channel import Channel
from pytest_harbor.environment.docker.gateway.dnsmasq import dnsmasq_config
from pytest_harbor.environment.docker.gateway.firewall import CLOSED, TABLE, firewall
from pytest_harbor.environment.docker.gateway.guard import Guard
from pytest_harbor.environment.docker.gateway.haproxy import haproxy_config
from pytest_harbor.environment.docker.gateway.recipe import Place, Recipe, recipe_for
from pytest_harbor.environment.docker.gateway.refusals import Told, parse_refusals
from pytest_harbor.environment.docker.gateway.uplink import Uplink
from pytest_harbor.environment.docker.kept import Kept
from pytest_harbor.environment.docker.network import run_network_name
from pytest_harbor.errors import EnvironmentFault, EnvironmentStartError, HarborError
from pytest_harbor.result.network import RefusedConnection
from pytest_harbor.task.network import Endpoint, NetworkPolicy

_FIRST_DNS_PORT = 10000
_FIRST_PROXY_PORT = 20000
_PORTS = 9000

_NETWORK_OPTIONS = {
    "com.docker.network.bridge.enable_ip_masquerade": "false",
    "com.docker.network.bridge.inhibit_ipv4": "true",
}


@dataclass(frozen=True, slots=True)
class _Prepared:
    policy: NetworkPolicy
    recipe: Recipe
    number: int


class Gateway:
    """Lets nothing through until the first :meth:`enforce`.

    Attributes:
        network: The task network's name on the engine.
        dns: The router's address, name server of every container on it.
    """

    def __init__(self, engine: Engine, uplink: Uplink, guard: Guard, image: str) -> None:
        """Make the network; the container comes up, closed, in the background.

        What needs the container waits for it, and raises what kept it from standing.
        """
        self._engine = engine
        self._uplink = uplink
        self._guard = guard
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._prepared: _Prepared | None = None
        self._wanted: object = None
        self._guarded = False
        self._told: Told = {}
        bridge = guard.next_bridge_name()
        self.network = f"{run_network_name(engine.run_id)}-{bridge}"
        self._channel: Channel | None = None
        self.uplink_address = ""
        subnet, self.dns = _create_network(engine, self.network, bridge)
        worker = ThreadPoolExecutor(1, "pytest-harbor-gateway")
        self._standing = worker.submit(self._stand, subnet, image)
        worker.shutdown(wait=False)

    @property
    def name(self) -> str:
        """The container's name."""
        return self._talk.name

    @property
    def _talk(self) -> Channel:
        self.wait()
        if self._channel is None:
            raise EnvironmentFault(f"the gateway of {self.network} was removed")
        return self._channel

    def wait(self) -> None:
        """Return once it stands.

        Raises:
            EnvironmentFault: It does not, and will not.
        """
        self._standing.result()

    def _stand(self, subnet: str, image: str) -> None:
        engine = self._engine
        host = {
            "NetworkMode": self._uplink.name,
            # For its own namespace; and for the servers, which give up root.
            "CapAdd": ["NET_ADMIN", "SETUID", "SETGID", "KILL", "SETPCAP"],
            "Sysctls": {"net.ipv4.ip_forward": "1", "net.ipv6.conf.all.disable_ipv6": "1"},
        }
        container = f"{self.network}-gateway"
        self._channel = Channel(engine, container, image, host, self.dns)
        with engine.errors(f"starting {container}", EnvironmentStartError):
            engine.api.connect_container_to_network(container, self.network)
        self._channel.start()
        with engine.errors(f"starting {container}", EnvironmentStartError):
            networks = engine.api.inspect_container(container)["NetworkSettings"]["Networks"]
        self.uplink_address = str(networks[self._uplink.name]["IPAddress"])
        length = subnet.partition("/")[2]
        words = (self.dns, length, self._uplink.gateway, self.uplink_address)
        task, out, user = self._channel.ask("boot", *words, texts=(CLOSED,)).split()
        self._place = Place(
            router=self.dns,
            subnet=subnet,
            task_interface=task,
            uplink_interface=out,
            uplink_gateway=self._uplink.gateway,
            uplink_subnet=self._uplink.subnet,
            proxy_uid=int(user),
        )

    def prepare(self, policy: NetworkPolicy) -> None:
        """Start the servers that ``policy`` needs, in the background; errors wait for enforce."""
        wanted = self._wanted = object()

        def work() -> None:
            with self._lock, suppress(HarborError):
                # When it comes to its turn, another may be wanted, or none: the policy holds
                # already, or the gateway serves another trial.
                if self._wanted is wanted:
                    self._prepare(policy)

        thread = threading.Thread(target=work, name="harbor gateway", daemon=True)
        thread.start()

    def _prepare(self, policy: NetworkPolicy) -> _Prepared:
        with self._lock:
            if self._prepared is not None:
                if self._prepared.policy == policy:
                    return self._prepared
                self._talk.ask("drop", self._prepared.number)
                self._prepared = None
            self.wait()
            recipe = recipe_for(policy)
            number = next(self._numbers) % _PORTS
            dns_port, proxy_port = _FIRST_DNS_PORT + number, _FIRST_PROXY_PORT + number
            dns = dnsmasq_config(recipe, self._place, dns_port)
            needs_proxy = recipe.needs_proxy
            proxy = haproxy_config(recipe, self._place, proxy_port) if needs_proxy else ""
            try:
                self._talk.ask("prepare", number, dns_port, proxy_port, texts=(dns, proxy))
            except EnvironmentFault:
                with suppress(EnvironmentFault):
                    self._talk.ask("drop", number)
                raise
            self._prepared = _Prepared(policy, recipe, number)
            return self._prepared

    def enforce(self, policy: NetworkPolicy) -> None:
        """Make ``policy`` hold; what it does not allow is dead on return.

        Raises:
            EnvironmentFault: It cannot; nothing more is let through than before.
        """
        with self._lock:
            self._wanted = None
            prepared = self._prepare(policy)
            recipe = self._resolved(prepared.recipe)
            self._require_guard(policy, recipe)
            rules = firewall(
                recipe,
                self._place,
                dns_port=_FIRST_DNS_PORT + prepared.number,
                proxy_port=_FIRST_PROXY_PORT + prepared.number,
                host_addresses=self._guard.addresses,
                neighbours=_subnets(self._engine) if prepared.recipe.needs_proxy else (),
            )
            self._prepared = None
            try:
                self._talk.ask("commit", prepared.number, texts=(rules, CLOSED))
            except EnvironmentFault:
                with suppress(EnvironmentFault):
                    self._talk.ask("drop", prepared.number)
                raise
            self._told = {}

    def _resolved(self, recipe: Recipe) -> Recipe:
        """With the addresses of the endpoints that have names, as far as these lead anywhere."""
        if not recipe.name_endpoints:
            return recipe
        names = dict.fromkeys(end.host for end in recipe.name_endpoints)
        lines = self._talk.ask("addresses", *names).splitlines()
        found = [line.split() for line in lines]
        return replace(
            recipe,
            resolved=tuple(
                Endpoint(address, end.port)
                for end in recipe.name_endpoints
                for name, address in found
                # The gateway's own loopback is nobody's server.
                if name == end.host and not address.startswith(("127.", "0."))
            ),
        )

    def _require_guard(self, policy: NetworkPolicy, recipe: Recipe) -> None:
        self._guarded = not (policy.is_open and not policy.endpoints)
        if not self._guarded:
            return
        self._guard.require()
        of_machine = {self._uplink.gateway, *self._guard.addresses}
        ends = (*recipe.address_endpoints, *recipe.resolved)
        ports = {end.port for end in ends if end.host in of_machine}
        if ports or recipe.host_ports:
            self._guard.open_host((*recipe.host_ports, *ports))
        if not self._uplink.own:
            self._guard.close_to(self.uplink_address, self._uplink.bridge)

    def refused(self) -> list[RefusedConnection]:
        """What was refused since the last call or the last :meth:`enforce`.

        Raises:
            EnvironmentFault: It cannot be told, or the host guard's rules did not last.
        """
        with self._lock:
            if self._guarded:
                self._guard.require()
            return parse_refusals(self._talk.ask("refused", "inet", TABLE), self._told)

    def reset(self) -> None:
        """Let nothing through and forget the last trial."""
        with self._lock:
            self._prepared = self._wanted = None
            self._talk.ask("close", texts=(CLOSED,))
            self._told = {}

    def neighbours(self) -> list[str]:
        """Names of the containers on the network, the gateway not among them."""
        with self._engine.errors(f"looking at {self.network}", EnvironmentFault):
            found = self._engine.api.inspect_network(self.network).get("Containers") or {}
        return [one["Name"] for one in found.values() if one["Name"] != self.name]

    def keep(self) -> Kept:
        """Leave it standing for a person; what to remove when done with it."""
        self._talk.keep()
        networks = (self.network, *((self._uplink.name,) if self._uplink.own else ()))
        return Kept((self.name, self._guard.keep()), networks)

    def let_go(self) -> None:
        """Close the connection to one that is kept."""
        self._talk.let_go()

    def remove(self) -> None:
        """Remove the container, then the network; containers on it are cut off."""
        with self._lock:
            with suppress(Exception):  # however it came to nothing, what there is goes
                self.wait()
            if self._channel is not None:
                self._channel.remove()
                self._channel = None
                if self.uplink_address and not self._uplink.own:
                    with suppress(HarborError):  # rules that are gone keep nobody from anything
                        self._guard.forget(self.uplink_address, self._uplink.bridge)
        with self._engine.errors(f"removing {self.network}", EnvironmentFault):
            try:
                self._engine.api.remove_network(self.network)
            except APIError as error:
                # What is still attached keeps it; the end of the run takes it.
                if error.status_code not in (403, 404):
                    raise


def _create_network(engine: Engine, name: str, bridge: str) -> tuple[str, str]:
    """Make a task network; its subnet and router address."""
    options = {**_NETWORK_OPTIONS, "com.docker.network.bridge.name": bridge}
    made = create_network(engine, name, options)
    ((subnet, router),) = [
        (part["Subnet"], part["Gateway"].partition("/")[0])
        for part in made["IPAM"]["Config"]
        if ":" not in part["Subnet"]
    ]
    return str(subnet), str(router)


def _subnets(engine: Engine) -> tuple[str, ...]:
    """Where the engine's containers are; what is made later the guard keeps apart."""
    with engine.errors("listing the engine's networks", EnvironmentFault):
        networks = engine.api.networks()
    parts = [part for each in networks for part in (each.get("IPAM") or {}).get("Config") or ()]
    return tuple(part["Subnet"] for part in parts if ":" not in part.get("Subnet", ":"))


def create_network(engine: Engine, name: str, options: Mapping[str, str]) -> Mapping[str, Any]:
    """Make a bridge network of this run; the engine's description of it."""
    with engine.errors(f"making the network {name}", EnvironmentStartError):
        try:
            engine.api.create_network(
                name, driver="bridge", options=dict(options), labels=engine.labels()
            )
        except APIError as error:
            if "address pool" not in explanation(error):
                raise
            raise EnvironmentStartError(
                "the engine has no address range left for a restricted network "
                f"({explanation(error)}); run fewer trials at once, remove networks that nobody "
                "uses with `docker network prune`, or give the engine more default-address-pools"
            ) from error
        made: Mapping[str, Any] = engine.api.inspect_network(name)
        return made
