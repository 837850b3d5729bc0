"""Where this machine is on the side of containers."""

from ipaddress import ip_network
from typing import Any


def on_default_bridge(api: Any) -> str:
    """The machine's address on the engine's default network.

    An engine that has just made that network for the first time names no gateway of it; it takes
    the first address then.
    """
    (config, *_) = api.inspect_network("bridge")["IPAM"]["Config"]
    return str(config.get("Gateway") or next(ip_network(config["Subnet"]).hosts()))
