"""Rules on the engine's machine that keep a restricted box's frames from the machine itself.

A bridge takes broadcasts and whatever is addressed to it even where it has no address.
One container per process, in the machine's network namespace, holds a table that drops
what comes from the process's bridges; the table ends with the process that made it, so
that nothing stays behind.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.gateway.channel import Channel
from pytest_harbor.environment.docker.gateway.image import ensure_gateway_image
from pytest_harbor.environment.docker.naming import guard_name
from pytest_harbor.environment.docker.network import run_network_name
from pytest_harbor.errors import EnvironmentFault, EnvironmentStartError, HarborError

SETTLE_SEC = 5.0
"""How long rules that were handed over may take to be there."""


def guard_rules(table: str, token: str, *, owned: bool) -> str:
    """Commands for ``nft -i``, one a line.

    Args:
        table: Name of the tables.
        token: What the guarded bridges have in their names.
        owned: The tables belong to the process that makes them, and end with it.
    """
    flags = "{ flags owner; }" if owned else ""
    boxes, uplink = f'iifname "phg{token}-*"', f'iifname "phu{token}"'
    incoming = [f"{boxes} drop"]
    for gateways in (uplink, "ip saddr @members"):
        # The engine's name server may be one of the machine's.
        incoming += [f"{gateways} {protocol} dport 53 accept" for protocol in ("udp", "tcp")]
        incoming += [f"{gateways} tcp dport @host_ports accept", f"{gateways} drop"]
    # The first rule is about frames between ports of one bridge, where the machine filters them.
    forwarded = ["iifname . oifname @bridges accept", f"{boxes} drop"]
    forwarded += [f'oifname "phg{token}-*" drop']
    forwarded.append("ip saddr . oifname @ways accept")
    for gateways in (uplink, "ip saddr @members"):
        forwarded += [f'{gateways} oifname "{other}" drop' for other in _OTHER_BRIDGES]
    lines = [
        f"add table inet {table} {flags}",
        f"add set inet {table} host_ports {{ type inet_service; }}",
        f"add set inet {table} members {{ type ipv4_addr; }}",
        # Typed by example: nft 1.0.6 knows no other way to join interface names.
        f"add set inet {table} ways {{ typeof ip saddr . oifname; }}",
        f"add set inet {table} bridges {{ typeof iifname . oifname; }}",
        f"add chain inet {table} incoming {{ type filter hook input priority -10; }}",
        f"add chain inet {table} forwarded {{ type filter hook forward priority -10; }}",
        *(f"add rule inet {table} incoming {rule}" for rule in incoming),
        *(f"add rule inet {table} forwarded {rule}" for rule in forwarded),
        f"add table arp {table} {flags}",
        f"add chain arp {table} incoming {{ type filter hook input priority 0; }}",
        f"add rule arp {table} incoming {boxes} drop",
        f"add chain arp {table} complete",
    ]
    return "".join(f"{line}\n" for line in lines)


_OTHER_BRIDGES = ("docker0", "br-*", "phg*", "phu*")


class Guard:
    """The rules of one process on one engine; made in the background.

    Attributes:
        token: What the names of the guarded bridges have in common.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.token = secrets.token_hex(3)
        self._table = f"pytest_harbor_{self.token}"
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._attempt: Future[Channel] | None = None
        self._channel: Channel | None = None
        self._kept = False
        self._adding = threading.RLock()
        self._bridges: list[str] = []
        self._elements: set[tuple[str, str]] = set()
        self._addresses: tuple[str, ...] = ()

    @property
    def uplink_bridge(self) -> str:
        """Name of the bridge of this process's own uplink."""
        return f"phu{self.token}"

    def next_bridge_name(self) -> str:
        """A name for a bridge whose boxes are to be kept from the machine."""
        name = f"phg{self.token}-{next(self._numbers)}"
        self._bridges.append(name)
        self._admit_bridges()
        return name

    def _admit_bridges(self) -> None:
        """Let each bridge's boxes talk among themselves; before the rules stand they may."""
        with self._adding:
            channel = self._channel
            if channel is None or channel.is_gone:
                return  # whoever makes the rules admits them
            for bridge in self._bridges:
                self._add(channel, "bridges", f'"{bridge}" . "{bridge}"')

    def begin(self, image: str | None = None) -> None:
        """Start to make the rules, anew where they were lost; returns at once."""
        with self._lock:
            lost = self._channel is not None and self._channel.is_gone
            if lost and self._attempt is not None and self._attempt.done():
                self._attempt = None
        self._begun(image)

    def _begun(self, image: str | None) -> Future[Channel]:
        """The attempt that is under way or has made them; a new one after one that failed."""
        with self._lock:
            known = self._attempt
            if known is None or (known.done() and known.exception() is not None):
                worker = ThreadPoolExecutor(1, "pytest-harbor-guard")
                known = self._attempt = worker.submit(self._make, image)
                worker.shutdown(wait=False)
            return known

    def require(self, deadline: Deadline | None = None, image: str | None = None) -> None:
        """Return once the rules stand.

        Raises:
            EnvironmentFault: They do not; nothing restricted may run.
        """
        self._standing(deadline, image)

    def _standing(self, deadline: Deadline | None = None, image: str | None = None) -> Channel:
        reason: object = "not ready before the deadline"
        try:
            channel = self._begun(image).result(deadline.remaining if deadline else None)
        except TimeoutError:
            pass
        except Exception as error:  # noqa: BLE001 - every waiter is told the same
            reason = error if isinstance(error, HarborError) else repr(error)
        else:
            channel.ask("standing")
            return channel
        raise EnvironmentStartError(
            "the rules that keep a restricted box from the engine's machine could not be set "
            f"(a container with --network host and NET_ADMIN sets them): {reason}"
        )

    @property
    def addresses(self) -> tuple[str, ...]:
        """The engine's machine's own addresses, once the rules stand."""
        return self._addresses

    def open_host(self, ports: tuple[int, ...]) -> None:
        """Let gateways reach the machine on these TCP ports."""
        channel = self._standing()
        for port in ports:
            self._add(channel, "host_ports", str(port))

    def close_to(self, address: str, bridge: str) -> None:
        """Keep a gateway on a network of the user's from the machine and its other bridges."""
        channel = self._standing()
        self._add(channel, "ways", f'{address} . "{bridge}"')
        self._add(channel, "members", address)

    def forget(self, address: str, bridge: str) -> None:
        """A gateway is gone: who gets its address on the user's network is not to be cut off."""
        with self._adding:
            channel = self._channel
            if channel is not None:
                self._delete(channel, "members", address)
                self._delete(channel, "ways", f'{address} . "{bridge}"')

    def keep(self) -> str:
        """Let the rules stay when this process ends; the container to remove for their end."""
        channel = self._standing()
        if not self._kept:
            channel.keep()
            self._kept = True
        return channel.name

    def close(self) -> None:
        """Remove the rules, unless they are kept."""
        with self._lock:
            attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.exception()
        with self._adding:
            channel, self._channel = self._channel, None
            self._elements.clear()
        if channel is not None and self._kept:
            channel.let_go()
        elif channel is not None:
            self._end(channel)

    def _add(self, channel: Channel, name: str, element: str) -> None:
        with self._adding:
            if (name, element) in self._elements:
                return
            words = f"element inet {self._table} {name} {{ {element} }}"
            channel.ask("add", texts=(f"add {words}\n",))
            self._settle(channel, f"nft get {words}".replace('"', ""))
            self._elements.add((name, element))

    def _delete(self, channel: Channel, name: str, element: str) -> None:
        if (name, element) in self._elements:
            words = f"element inet {self._table} {name} {{ {element} }}"
            channel.ask("add", texts=(f"delete {words}\n",))
            self._elements.discard((name, element))

    def _make(self, image: str | None) -> Channel:
        channel = self._channel = self._made(image)
        held = self._elements
        try:
            self._add_again(channel)
            self._admit_bridges()
        except BaseException:
            self._channel, self._elements = None, held
            self._end(channel)
            raise
        return channel

    def _add_again(self, channel: Channel) -> None:
        """What rules that were lost knew of the gateways that live on."""
        with self._adding:
            held, self._elements = self._elements, set()
            for name, element in sorted(held):
                self._add(channel, name, element)

    @staticmethod
    def _end(channel: Channel) -> None:
        with suppress(HarborError):
            channel.ask("linger")
        channel.end()  # not removed at once: it may have rules to remove

    def _made(self, image: str | None) -> Channel:
        engine = self._engine
        found = ensure_gateway_image(engine, Deadline(None), image)
        name = guard_name(run_network_name(engine.run_id), self.token)
        host = {"NetworkMode": "host", "CapAdd": ["NET_ADMIN"]}
        channel = Channel(engine, name, found, host, "127.0.0.1")
        try:
            channel.start()
            self._fill(channel)
            listing = channel.ask("run", texts=("ip -o -4 addr",))
            # A process that is killed leaves boxes; they are kept from the machine until swept.
            channel.ask("linger", f"phg{self.token}-")
        except BaseException:
            channel.end()
            raise
        self._addresses = tuple(line.split()[3].partition("/")[0] for line in listing.splitlines())
        return channel

    def _fill(self, channel: Channel) -> None:
        present = f"nft list chain arp {self._table} complete"
        channel.ask("guard", texts=(guard_rules(self._table, self.token, owned=True),))
        try:
            self._settle(channel, present)
        except EnvironmentFault:
            # The kernel knows no owners (before 5.12): the program removes the tables itself.
            for family in ("inet", "arp"):
                remove = f"nft delete table {family} {self._table}"
                channel.ask("finally_run", texts=(remove,))
            channel.ask("guard", texts=(guard_rules(self._table, self.token, owned=False),))
            self._settle(channel, present)

    @staticmethod
    def _settle(channel: Channel, command: str) -> None:
        limit = Deadline(SETTLE_SEC)
        while True:
            try:
                channel.ask("run", texts=(command,))
                return
            except EnvironmentFault:
                if limit.passed:
                    raise
                time.sleep(0.01)


def guard_bridges(engine: Engine) -> Guard:
    """The guard of this process on an engine; one."""
    guard: Guard = engine.__dict__.setdefault("_harbor_guard", Guard(engine))
    return guard
