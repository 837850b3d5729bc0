"""What a policy asks of the gateway: names for the proxy, addresses for the firewall."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_harbor.errors import EnvironmentFault
from pytest_harbor.task.network import HOST_MACHINE, Endpoint, NetworkPolicy

STAND_IN = "198.18.0.1"
"""What every allowed name resolves to: the way to the proxy. From a range for benchmarks."""

HOST_STAND_IN = "198.18.0.2"
"""The same for the engine's machine."""

_NAME = re.compile(
    r"(?:\*\.)?[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one gateway stands.

    Attributes:
        router: Its address in the task network, which the boxes ask for names.
        subnet: The task network.
        task_interface: The gateway's interface there.
        uplink_interface: The one to the outside.
        uplink_gateway: The engine's machine as seen from the uplink.
        uplink_subnet: The uplink's network.
        proxy_uid: Who HAProxy runs as.
    """

    router: str
    subnet: str
    task_interface: str
    uplink_interface: str
    uplink_gateway: str
    uplink_subnet: str
    proxy_uid: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """One policy, sorted by who enforces it.

    Attributes:
        public: Everything passes that is not denied.
        names: Allowed names and ``*.suffix``.
        networks: Allowed IPv4 addresses and networks.
        denied_names: Refused names and ``*.suffix``.
        denied_networks: Refused IPv4 addresses and networks.
        name_endpoints: Servers let through by name and port.
        address_endpoints: Servers let through by IPv4 address and port.
        host_ports: Ports of the engine's machine that are let through.
        resolved: Where the names of ``name_endpoints`` led last, with their ports.
        unreachable: Entries of the policy that nothing can reach, as IPv6 addresses.
    """

    public: bool
    names: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    denied_names: tuple[str, ...] = ()
    denied_networks: tuple[str, ...] = ()
    name_endpoints: tuple[Endpoint, ...] = ()
    address_endpoints: tuple[Endpoint, ...] = ()
    host_ports: tuple[int, ...] = ()
    resolved: tuple[Endpoint, ...] = ()
    unreachable: tuple[str, ...] = ()

    @property
    def direct_endpoints(self) -> tuple[Endpoint, ...]:
        """Servers that a box reaches by address: where all is open, those with names, too."""
        return (*self.address_endpoints, *(self.resolved if self.public else ()))

    @property
    def needs_proxy(self) -> bool:
        """Whether any name is to be judged."""
        if self.public:
            return bool(self.denied_names)
        return bool(self.names or self.name_endpoints)


def recipe_for(policy: NetworkPolicy | None) -> Recipe:
    """Sort a policy; None: nothing passes.

    Raises:
        EnvironmentFault: An entry is none that a policy may have.
    """
    if policy is None:
        return Recipe(public=False)
    hosts = policy.hosts if policy.mode == "allowlist" else ()
    names, networks, sixes = _sorted(hosts)
    denied_names, denied_networks, _ = _sorted(policy.denied)
    by_name, by_address, host_ports, six_ends = _endpoints(policy.endpoints)
    return Recipe(
        public=policy.mode == "public",
        names=names,
        networks=networks,
        denied_names=denied_names,
        denied_networks=denied_networks,
        name_endpoints=by_name,
        address_endpoints=by_address,
        host_ports=host_ports,
        unreachable=(*sixes, *six_ends),
    )


def _sorted(entries: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Names, IPv4 networks and IPv6 networks."""
    names: dict[str, None] = {}
    fours: dict[str, None] = {}
    sixes: dict[str, None] = {}
    for entry in entries:
        network = _network(entry)
        if network is None:
            names[_checked(entry)] = None
        elif network.version == 4:
            fours[str(network)] = None
        else:
            sixes[entry] = None
    return tuple(names), tuple(fours), tuple(sixes)


def _endpoints(
    endpoints: Iterable[Endpoint],
) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...], tuple[int, ...], tuple[str, ...]]:
    by_name, by_address, host_ports, sixes = [], [], [], []
    for end in dict.fromkeys(endpoints):
        if not (isinstance(end.port, int) and 0 < end.port < 65536):
            raise EnvironmentFault(f"endpoint {end}: a port is a number from 1 to 65535")
        network = _network(end.host)
        if end.host == HOST_MACHINE:
            host_ports.append(end.port)
        elif network is None and not end.host.startswith("*"):
            by_name.append(Endpoint(_checked(end.host), end.port))
        elif network is not None and network.version == 4 and network.num_addresses == 1:
            by_address.append(Endpoint(str(network.network_address), end.port))
        elif network is not None and network.version == 6:
            sixes.append(str(end))
        else:
            raise EnvironmentFault(f"endpoint {end}: accepted is one host name or address")
    return tuple(by_name), tuple(by_address), tuple(host_ports), tuple(sixes)


def _network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(entry)
    except ValueError:
        return None


def _checked(name: str) -> str:
    """The name, if it can stand in a configuration without becoming more than a name."""
    if len(name) > 253 or _NAME.fullmatch(name) is None:
        raise EnvironmentFault(
            f"network entry {name[:80]!r} is no host name, *.suffix, address or CIDR network "
            "in its normal form; nothing was let through"
        )
    return name


def matches(pattern: str, name: str) -> bool:
    """Whether a name is the pattern's, ``*.suffix`` not matching the suffix itself."""
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern
