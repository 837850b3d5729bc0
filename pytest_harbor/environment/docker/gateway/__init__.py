"""A gateway per restricted box: the one way out of the box's network, and the judge on it.

The box's network has no address on the engine's machine and no masquerade; its router
address belongs to a gateway container, in whose network namespace nothing of the task
ever runs. There dnsmasq answers for allowed names with one stand-in address, HAProxy
judges what is said to that address by TLS server name and HTTP host, and nftables
decides on everything else. Rules on the engine's machine (:mod:`.guard`) keep frames of
the box's bridge from the machine itself.

What it cannot tell apart: another ``Host`` inside TLS than the server name says (domain
fronting), a second name on one HTTP/2 connection, an encrypted client hello. Under
``public`` with denied names, a protocol that carries no name reaches a denied server by
its address; QUIC to port 443 is refused there, so that browsers fall back to TLS.
"""

from pytest_harbor.environment.docker.gateway.gateway import Gateway
from pytest_harbor.environment.docker.gateway.guard import Guard, guard_bridges
from pytest_harbor.environment.docker.gateway.image import ensure_gateway_image
from pytest_harbor.environment.docker.gateway.pool import (
    GatewayPool,
    close_gateways,
    gateways,
    require_gateways,
)

__all__ = [
    "Gateway",
    "GatewayPool",
    "Guard",
    "close_gateways",
    "ensure_gateway_image",
    "gateways",
    "guard_bridges",
    "require_gateways",
]
