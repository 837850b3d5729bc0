"""What a project's closed networks carry is kept from the engine's machine.

A bridge takes broadcasts even where it has no address, so a network that leads nowhere
still leads to the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.policies import means_for
from pytest_harbor.environment.docker.spec import ContainerSpec

if TYPE_CHECKING:
    from pytest_harbor.environment.docker.gateway.guard import Guard


def guarded(engine: Engine, spec: ContainerSpec, model: dict[str, Any]) -> Guard | None:
    """Give an adjusted configuration's networks bridges that a guard knows, and begin the guard.

    Returns:
        The guard, to be required before anything runs; None where none is needed.
    """
    networks = (model.get("networks") or {}).values()
    if not networks or engine.is_podman or means_for(spec.network) == "public":
        return None
    # Here, since most projects need none.
    from pytest_harbor.environment.docker.gateway.guard import guard_bridges

    guard = guard_bridges(engine)
    guard.begin(spec.gateway_image)
    for network in networks:
        name = guard.next_bridge_name()
        network["driver_opts"]["com.docker.network.bridge.name"] = name
    return guard
