"""Two network policies made one: only what both allow."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from pytest_harbor.task.network import NetworkMode, NetworkPolicy

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def combined(first: NetworkPolicy, second: NetworkPolicy) -> NetworkPolicy:
    """What both policies let through; what either denies is denied.

    Endpoints are let through whatever else is said, so those of both stay.
    """
    endpoints = (*first.endpoints, *second.endpoints)
    if "no-network" in (first.mode, second.mode):
        return NetworkPolicy("no-network").with_endpoints(endpoints)
    denied = widest((*first.denied, *second.denied))
    mode: NetworkMode = "public" if first.mode == second.mode == "public" else "allowlist"
    hosts = tuple(host for host in _hosts_of_both(first, second) if not _any_covers(denied, host))
    return NetworkPolicy(mode, hosts, denied).with_endpoints(endpoints)


def covers(wide: str, narrow: str) -> bool:
    """Whether an entry of a list of hosts stands for all that another one stands for."""
    if wide == narrow:
        return True
    if wide.startswith("*."):
        # The suffix itself is not below itself; addresses have no suffix.
        return narrow.removeprefix("*").endswith(wide[1:]) and _network(narrow) is None
    outer, inner = _network(wide), _network(narrow)
    if outer is None or inner is None or outer.version != inner.version:
        return False
    return inner.subnet_of(outer)  # type: ignore[arg-type]


def widest(hosts: Iterable[str]) -> tuple[str, ...]:
    """Hosts without those that another of them covers; the first of equals stays."""
    kept: list[str] = []
    for host in dict.fromkeys(hosts):
        if not _any_covers(kept, host):
            kept = [known for known in kept if not covers(host, known)]
            kept.append(host)
    return tuple(kept)


def _hosts_of_both(first: NetworkPolicy, second: NetworkPolicy) -> tuple[str, ...]:
    """The widest hosts of an allowlist, or the narrower entry of each pair of two lists."""
    if first.mode == "public":
        return widest(second.hosts)
    if second.mode == "public":
        return widest(first.hosts)
    return widest(_overlaps(first.hosts, second.hosts))


def _overlaps(first: Iterable[str], second: Iterable[str]) -> Iterator[str]:
    others = tuple(second)
    for host in first:
        for other in others:
            if covers(other, host):
                yield host
            elif covers(host, other):
                yield other


def _any_covers(wide: Iterable[str], narrow: str) -> bool:
    return any(covers(host, narrow) for host in wide)


def _network(host: str) -> _Network | None:
    """The addresses that an entry stands for; None for a name."""
    try:
        return ipaddress.ip_network(host)
    except ValueError:
        return None
