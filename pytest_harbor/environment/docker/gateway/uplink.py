"""The network through which gateways reach the outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docker.errors import APIError

from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.errors import EnvironmentStartError


@dataclass(frozen=True, slots=True)
class Uplink:
    """An uplink that is there.

    Attributes:
        name: On the engine.
        gateway: The engine's machine on it.
        subnet: Its addresses.
        bridge: Its interface on the machine.
        own: The run made it; it is none of the user's.
    """

    name: str
    gateway: str
    subnet: str
    bridge: str
    own: bool

    @classmethod
    def parse(cls, network: Mapping[str, Any], *, own: bool) -> Uplink:
        """Read the engine's description."""
        for part in network["IPAM"]["Config"] or ():
            if ":" not in part["Subnet"] and part.get("Gateway"):
                gateway = part["Gateway"].partition("/")[0]
                return cls(network["Name"], gateway, part["Subnet"], _bridge(network), own)
        raise EnvironmentStartError(
            f"the network {network['Name']!r} has no IPv4 gateway and cannot be an uplink; "
            "name a bridge network with one"
        )


def _bridge(network: Mapping[str, Any]) -> str:
    options = network.get("Options") or {}
    return str(options.get("com.docker.network.bridge.name") or f"br-{network['Id'][:12]}")


def find_uplink(engine: Engine, name: str) -> Uplink:
    """A network of the user's.

    Raises:
        EnvironmentStartError: There is none of that name, or gateways cannot stand on it.
    """
    doing = f"looking at the uplink network {name!r}"
    with engine.errors(doing, EnvironmentStartError):
        try:
            network = engine.api.inspect_network(name)
        except APIError as error:
            if error.status_code != 404:
                raise
            raise EnvironmentStartError(
                f"the engine has no network {name!r} to use as the uplink; "
                f"make it with `docker network create {name}`"
            ) from error
    if network["Driver"] != "bridge" or network["Name"] == "bridge" or network["Internal"]:
        raise EnvironmentStartError(
            f"--harbor-uplink (ini: harbor_uplink) is {name!r}, and a restricted trial reaches "
            "the outside only through a bridge network made with `docker network create` that is "
            "not internal: name one"
        )
    return Uplink.parse(network, own=False)
