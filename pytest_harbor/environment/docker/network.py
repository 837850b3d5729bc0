"""The network of a run: its containers reach the outside, and not each other."""

from __future__ import annotations

from docker.errors import APIError

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import Engine, explanation
from pytest_harbor.environment.docker.locks import locked
from pytest_harbor.errors import EnvironmentStartError

_NO_TALK_AMONG_CONTAINERS = {"com.docker.network.bridge.enable_icc": "false"}


def run_network_name(run_id: str) -> str:
    """Name of the run's network, the same in each of its processes."""
    return f"pytest-harbor-{run_id}"


def ensure_run_network(engine: Engine, deadline: Deadline) -> str:
    """Make the run's network unless it is there; gives its name."""
    name = run_network_name(engine.run_id)
    if name in engine.cache.networks:
        return name
    with (
        locked(f"network-{engine.run_id}", deadline),
        engine.errors("making the run's network", EnvironmentStartError),
    ):
        if not engine.api.networks(names=[f"^{name}$"]):
            _create(engine, name)
    engine.cache.networks.add(name)
    return name


def forget_run_network(engine: Engine) -> None:
    """The network is gone, as after a sweep while nothing was on it; make it again next time."""
    engine.cache.networks.discard(run_network_name(engine.run_id))


def _create(engine: Engine, name: str) -> None:
    try:
        engine.api.create_network(
            name,
            driver="bridge",
            options=_NO_TALK_AMONG_CONTAINERS,
            labels=engine.labels(),
            check_duplicate=True,
        )
    except APIError as error:
        if "address pool" not in explanation(error):
            raise
        raise EnvironmentStartError(
            "the engine has no address range left for the run's network "
            f"({explanation(error)}); remove networks that nobody uses with "
            "`docker network prune`, or give the engine more default-address-pools"
        ) from error
