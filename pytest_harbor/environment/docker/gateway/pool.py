"""The gateways of a process: made ahead, given to trials, reset and given again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.gateway.gateway import Gateway, create_network
from pytest_harbor.environment.docker.gateway.guard import Guard, guard_bridges
from pytest_harbor.environment.docker.gateway.image import ensure_gateway_image
from pytest_harbor.environment.docker.gateway.uplink import Uplink, find_uplink
from pytest_harbor.environment.docker.network import remove_network, run_network_name
from pytest_harbor.errors import (
    EnvironmentFault,
    EnvironmentStartTimeoutError,
    HarborError,
    UnsupportedError,
)

_making_pools = threading.Lock()


def require_gateways(engine: Engine) -> None:
    """See whether this engine can have gateways.

    Raises:
        UnsupportedError: It cannot; says why.
    """
    if engine.is_podman:
        raise UnsupportedError(
            "a network policy that changes or names hosts needs a Docker engine; Podman gives "
            "no network whose router is a container. Accepted there are public and no-network "
            "for all phases alike"
        )
    if engine.info.get("OSType") != "linux":
        raise UnsupportedError(
            "a network policy that changes or names hosts needs an engine that runs Linux "
            f"containers; this one runs {engine.info.get('OSType')!r}"
        )


def gateways(engine: Engine, uplink: str | None, image: str | None = None) -> GatewayPool:
    """The process's pool for an engine and an uplink.

    Args:
        engine: Where gateways run.
        uplink: The user's network to reach the outside through; None: one of the process's own.
        image: A ready image with the gateway's tools; None: one is built.

    Raises:
        UnsupportedError: The engine cannot have gateways.
    """
    require_gateways(engine)
    with _making_pools:
        pools: dict[object, GatewayPool] = engine.__dict__.setdefault("_harbor_gateways", {})
        key = (uplink, image)
        if key not in pools:
            pools[key] = GatewayPool(engine, uplink, image)
        return pools[key]


def close_gateways(engine: Engine) -> None:
    """Remove all waiting gateways of this process, its uplink and its guard."""
    with _making_pools:
        pools: dict[object, GatewayPool] = engine.__dict__.pop("_harbor_gateways", {})
        guard: Guard | None = engine.__dict__.pop("_harbor_guard", None)
    # The trials' boxes are gone: what has no box behind it may outlive the guard's rules.
    with ThreadPoolExecutor(2, "pytest-harbor-gateway") as together:
        closing = [together.submit(guard.close)] if guard is not None else []
        closing.append(together.submit(_close_all, engine, list(pools.values())))
    for one in closing:
        one.result()


def _close_all(engine: Engine, pools: Iterable[GatewayPool]) -> None:
    """The gateways, then what they stand on."""
    for pool in pools:
        pool.close()
    own = engine.__dict__.pop("_harbor_uplink", None)
    if own is not None:
        remove_network(engine, own.name)


class GatewayPool:
    """Gateways to one uplink; any number of threads may use it."""

    def __init__(self, engine: Engine, uplink: str | None, image: str | None) -> None:
        self._engine = engine
        self._uplink_name = uplink
        self._image = image
        self._guard = guard_bridges(engine)
        self._lock = threading.Lock()
        self._setting_up = threading.Lock()
        self._found: tuple[Uplink, str] | None = None
        self._coming: list[_Making] = []
        self._closed = False

    def warm(self) -> None:
        """Begin to make a waiting gateway, unless one waits; errors surface in acquire."""
        with self._lock:
            if not self._coming and not self._closed:
                self._coming.append(_Making(self._make))

    def acquire(self, deadline: Deadline) -> Gateway:
        """A gateway that lets nothing through: one that waits, else a fresh one.

        Raises:
            EnvironmentFault: None is to be had.
        """
        with self._lock:
            # An old failure is nothing of this trial's: it is tried anew.
            self._coming = [one for one in self._coming if not one.has_failed]
            self._coming.sort(key=lambda one: one.is_done)
            making = self._coming.pop() if self._coming else _Making(self._make)
        made = making.result(deadline)
        if made is None:
            # What is on its way serves the next trial.
            self._later(making)
            raise EnvironmentStartTimeoutError(
                f"no network gateway stood within {deadline.timeout_sec:g} s; raise "
                "[environment].build_timeout_sec or --harbor-build-timeout-multiplier"
            )
        return made

    def release(self, gateway: Gateway) -> None:
        """Give back a gateway whose trial's containers are gone, for the next trial.

        Returns at once; it is closed in the background, or replaced where it cannot be used.
        """
        self._later(_Making(lambda: self._again(gateway)))

    def _later(self, making: _Making) -> None:
        """Have it wait for the next trial; after the end of all trials, remove what it makes."""
        with self._lock:
            if not self._closed:
                self._coming.append(making)
                return
        self._remove(making)

    @staticmethod
    def _remove(making: _Making) -> None:
        with suppress(HarborError):
            made = making.result(Deadline(None))
            if made is not None:
                made.remove()

    def _again(self, gateway: Gateway) -> Gateway:
        try:
            gateway.reset()
            if not gateway.neighbours():
                return gateway
        except Exception:  # noqa: BLE001 - whatever it is, this one serves no more
            pass
        with suppress(HarborError):  # the end of the run takes what stays
            self.discard(gateway)
        return self._make()

    def discard(self, gateway: Gateway) -> None:
        """Remove a gateway and its network."""
        gateway.remove()

    def close(self) -> None:
        """Remove what waits or is being made."""
        with self._lock:
            self._closed = True
            coming, self._coming = self._coming, []
        for making in coming:
            self._remove(making)

    def _make(self) -> Gateway:
        if self._closed:
            raise EnvironmentFault("the run's gateways are closed")
        uplink, image = self._set_up()
        return Gateway(self._engine, uplink, self._guard, image)

    def _set_up(self) -> tuple[Uplink, str]:
        with self._setting_up:
            if self._found is None:
                image = ensure_gateway_image(self._engine, Deadline(None), self._image)
                self._guard.begin(self._image)
                self._found = (self._uplink(), image)
            return self._found

    def _uplink(self) -> Uplink:
        if self._uplink_name is not None:
            return find_uplink(self._engine, self._uplink_name)
        with _making_pools:
            known: Uplink | None = self._engine.__dict__.get("_harbor_uplink")
            if known is None:
                known = _own_uplink(self._engine, self._guard)
                self._engine.__dict__["_harbor_uplink"] = known
            return known


def _own_uplink(engine: Engine, guard: Guard) -> Uplink:
    options = {
        "com.docker.network.bridge.enable_icc": "false",
        "com.docker.network.bridge.name": guard.uplink_bridge,
    }
    name = f"{run_network_name(engine.run_id)}-{guard.uplink_bridge}"
    return Uplink.parse(create_network(engine, name, options), own=True)


class _Making:
    """A gateway on its way."""

    def __init__(self, make: Callable[[], Gateway]) -> None:
        self._make = make
        self._gateway: Gateway | None = None
        self._error: HarborError | None = None
        self._thread = threading.Thread(target=self._run, name="harbor gateway", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._gateway = self._make()
        except HarborError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - whoever waits for it is told
            self._error = EnvironmentFault(f"making a network gateway: {error!r}")
            self._error.__cause__ = error

    @property
    def has_failed(self) -> bool:
        """Whether nothing comes of it."""
        return self.is_done and self._error is not None

    @property
    def is_done(self) -> bool:
        """Whether it waits no more."""
        return not self._thread.is_alive()

    def result(self, deadline: Deadline) -> Gateway | None:
        """The gateway; None if the deadline passed first."""
        self._thread.join(deadline.remaining)
        if self._error is not None:
            raise self._error
        return self._gateway
