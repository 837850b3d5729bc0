"""The network of a run: its containers reach the outside, and not each other.

Podman's bridges let their containers talk to each other, and part one bridge from the
next: there each container has a network of its own.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from docker.errors import APIError

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import Engine, explanation
from pytest_harbor.environment.docker.locks import locked
from pytest_harbor.errors import EnvironmentStartError, HarborError

_NO_TALK_AMONG_CONTAINERS = {"com.docker.network.bridge.enable_icc": "false"}
_NO_TALK_AMONG_NETWORKS = {"isolate": "true"}
_PODMAN_TRIES = 5


def run_network_name(run_id: str) -> str:
    """Name of the run's network, the same in each of its processes."""
    return f"pytest-harbor-{run_id}"


def own_network_name(engine: Engine, box: str) -> str | None:
    """Name of a container's own network; None where it shares the run's."""
    return f"{run_network_name(engine.run_id)}-{box}" if engine.is_podman else None


def begin_run_network(engine: Engine) -> None:
    """Begin to make the run's network while others work; what fails is told who asks for it."""
    if engine.cache.network_maker is not None:
        return

    def make() -> None:
        with suppress(HarborError):
            if not engine.is_podman:
                _ensure(engine, run_network_name(engine.run_id), Deadline(None))

    engine.cache.network_maker = threading.Thread(target=make, name="harbor network", daemon=True)
    engine.cache.network_maker.start()


def await_run_network(engine: Engine, deadline: Deadline | None = None) -> None:
    """Return once nothing is made in the background, or the deadline has passed."""
    if engine.cache.network_maker is not None:
        engine.cache.network_maker.join(deadline.remaining if deadline else None)


def ensure_network(engine: Engine, box: str, deadline: Deadline) -> str:
    """Make the network of a container unless it is there; gives its name."""
    await_run_network(engine, deadline)
    name = own_network_name(engine, box) or run_network_name(engine.run_id)
    _ensure(engine, name, deadline)
    return name


def _ensure(engine: Engine, name: str, deadline: Deadline) -> None:
    if name in engine.cache.networks:
        return
    with (
        locked(f"network-{engine.run_id}", deadline),
        engine.errors("making the run's network", EnvironmentStartError),
    ):
        if not engine.api.networks(names=[f"^{name}$"]):
            _create(engine, name)
    engine.cache.networks.add(name)


def forget_run_network(engine: Engine) -> None:
    """The network is gone, as after a sweep while nothing was on it; make it again next time."""
    name = run_network_name(engine.run_id)
    gone = {known for known in engine.cache.networks if known.startswith(name)}
    engine.cache.networks -= gone


def remove_network(engine: Engine, name: str) -> None:
    """Remove a container's own network, once the container is gone."""
    engine.cache.networks.discard(name)
    # Whoever was faster has done what is to be done; the end of the run takes what stays.
    with suppress(APIError):
        engine.api.remove_network(name)


def _create(engine: Engine, name: str) -> None:
    if not engine.is_podman:
        _request(engine, name, _NO_TALK_AMONG_CONTAINERS)
        return
    for tries_left in reversed(range(_PODMAN_TRIES)):
        try:
            _request(engine, name, _NO_TALK_AMONG_NETWORKS)
            return
        except APIError as error:
            # It lists the machine's interfaces, and fails when one of them goes meanwhile.
            if "no such network interface" not in explanation(error) or not tries_left:
                raise
            time.sleep(0.1)


def _request(engine: Engine, name: str, options: dict[str, str]) -> None:
    try:
        engine.api.create_network(
            name,
            driver="bridge",
            options=options,
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
