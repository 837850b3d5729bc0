"""Network modes, the entries of an allowlist, and policies as values."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import AfterValidator

NetworkMode = Literal["no-network", "public", "allowlist"]

HOST_ENTRY_FORMS = "a host name, *.suffix, an IP address or a CIDR network"
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LIKE_IPV4 = re.compile(r"\d+(?:\.\d+){3}")
_WITH_PORT = re.compile(r"(\[[0-9a-f:.]*\]|[^:\[\]]+):\d*")


HOST_MACHINE = "host.docker.internal"
"""Name of the engine's machine, for endpoints that live there."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server of the run's own, as a model's API, that stays reachable under every policy.

    Attributes:
        host: A host name, an IP address, or ``HOST_MACHINE``.
        port: The one TCP port that is let through.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """What a phase of a trial may reach.

    Attributes:
        mode: ``public`` (everything), ``no-network`` (nothing) or ``allowlist``.
        hosts: Normal form of the hosts that an allowlist lets through; none: nothing.
        denied: Normal form of the hosts that are refused whatever else is said.
        endpoints: What is let through whatever else is said.
        parts: Where it was combined from several: place to policy in words. For people;
            it lets nothing through and makes no two policies differ.
    """

    mode: NetworkMode = "public"
    hosts: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    parts: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def is_open(self) -> bool:
        """Whether everything may be reached."""
        return self.mode == "public" and not self.denied

    @property
    def is_closed(self) -> bool:
        """Whether nothing may be reached: no network, or a list without hosts."""
        lets_hosts_through = self.mode == "public" or (self.mode == "allowlist" and self.hosts)
        return not lets_hosts_through and not self.endpoints

    def same_as(self, other: NetworkPolicy) -> bool:
        """Whether both let the same through, so that nothing is to be done between them."""
        both_open, both_closed = self.is_open and other.is_open, self.is_closed and other.is_closed
        return self == other or both_open or both_closed

    def with_endpoints(self, endpoints: Iterable[Endpoint]) -> NetworkPolicy:
        """This policy, and what else stays reachable."""
        return replace(self, endpoints=tuple(dict.fromkeys((*self.endpoints, *endpoints))))


def network_policy(mode: NetworkMode, hosts: Iterable[str] | None = None) -> NetworkPolicy:
    """The policy for ``mode``; hosts count in an allowlist only."""
    allowed = tuple(dict.fromkeys(hosts or ())) if mode == "allowlist" else ()
    return NetworkPolicy(mode, allowed)


def distinct(policies: Iterable[NetworkPolicy]) -> tuple[NetworkPolicy, ...]:
    """Policies in their order, each that lets the same through as an earlier one left out."""
    found: list[NetworkPolicy] = []
    for policy in policies:
        if not any(policy.same_as(known) for known in found):
            found.append(policy)
    return tuple(found)


def normal_host(entry: str) -> str:
    """The normal form of one entry of ``allowed_hosts``.

    Raises:
        ValueError: It is not an entry; the message says why.
    """
    text = entry.strip().lower().rstrip(".")
    if not text:
        raise ValueError(f"an empty entry in allowed_hosts; accepted is {HOST_ENTRY_FORMS}")
    if "/" in text:
        return _normal_network(entry, text)
    if ported := _WITH_PORT.fullmatch(text):
        host = ported[1].strip("[]")
        raise _refused(entry, f"a host with a port; write {host!r}: ports are no part of it")
    if ":" in text:
        return _normal_ipv6(entry, text)
    if text.startswith("*."):
        return "*." + _normal_suffix(entry, text[2:])
    return _normal_name(entry, text)


def is_impossible_ipv4(host: str) -> bool:
    """Whether a host name is meant as an IPv4 address but is none, as ``999.1.1.1``."""
    return _LIKE_IPV4.fullmatch(host) is not None and not _is_ip(host)


HostEntry = Annotated[str, AfterValidator(normal_host)]


def _normal_network(entry: str, text: str) -> str:
    if "//" in text:
        raise _refused(entry, "a URL; write only its host name")
    try:
        return str(ipaddress.ip_network(text, strict=True))
    except ValueError as error:
        raise _refused(entry, f"not a network ({error})") from None


def _normal_ipv6(entry: str, text: str) -> str:
    if "%" in text:
        raise _refused(entry, "an address with a zone")
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise _refused(entry, "not an IPv6 address; brackets are not accepted") from None


def _normal_suffix(entry: str, suffix: str) -> str:
    if _is_ip(suffix):
        raise _refused(entry, "a wildcard before an IP address; write a CIDR network")
    return _normal_name(entry, suffix)


def _normal_name(entry: str, name: str) -> str:
    if "*" in name:
        raise _refused(entry, "a wildcard that is not the first label; only *.suffix is accepted")
    if not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise _refused(entry, "not a host name: labels have letters, digits and inner hyphens")
    return name


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _refused(entry: str, reason: str) -> ValueError:
    return ValueError(f"{entry[:80]!r} is {reason}; accepted is {HOST_ENTRY_FORMS}")
