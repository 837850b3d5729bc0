"""The options of the network: their values, and what they come to together."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from pytest_harbor.task.network import NetworkPolicy

Mode = Literal["public", "no-network", "allowlist"]
MODES = ("public", "no-network", "allowlist")

# What docker takes for the names of networks and runtimes.
_ENGINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


NETWORK_OPTIONS = ("network", "allow_host", "deny_host", "endpoint")
"""The options that :func:`network_settings` takes together."""

INI_FILE = "in the ini file"
LINE = "on the command line"


class Asked(NamedTuple):
    """What one place asks for.

    Attributes:
        place: :data:`INI_FILE` or :data:`LINE`.
        mode: As in ``task.toml``; None: it says nothing.
        hosts: Of the mode ``allowlist``; none: the other place's.
    """

    place: str
    mode: Mode | None
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((str(self.mode), *self.hosts))


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """What the run lets trials reach; plain values, which cost no import.

    Attributes:
        mode: As in ``task.toml``.
        allowed: Hosts of the mode ``allowlist``.
        denied: Hosts that no trial reaches.
        endpoints: ``HOST:PORT`` that every trial reaches.
        asked: What mode and hosts come from, where more than one place asks for some.
    """

    mode: Mode = "public"
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()

    @property
    def curtailed(self) -> str:
        """What the ini file takes from the command line's wish, in words; empty: nothing."""
        line = next((one for one in self.asked if one.place == LINE), None)
        got = " ".join((self.mode, *self.allowed))
        if line is None or got == str(line) or (line.mode == "allowlist" and not line.hosts):
            return ""
        asked = ", ".join(f"{one.place} {one}" for one in self.asked)
        return (
            f"trials reach only what the ini file and the command line both allow: {asked};"
            f" together {got if self.allowed or self.mode != 'allowlist' else 'nothing'}."
            " To replace what the ini file says, use -o harbor_network=MODE and"
            " -o harbor_allow_host=HOSTS"
        )

    @property
    def policy(self) -> NetworkPolicy:
        """The same as the engine's layer takes it."""
        from pytest_harbor.task.endpoint import parse_endpoint
        from pytest_harbor.task.network import NetworkPolicy

        endpoints = tuple(map(parse_endpoint, self.endpoints))
        parts = tuple((one.place, str(one)) for one in self.asked)
        return NetworkPolicy(self.mode, self.allowed, self.denied, endpoints, parts)


def network_mode(text: str) -> str:
    """Check for one of :data:`MODES`."""
    if text.strip() not in MODES:
        raise argparse.ArgumentTypeError(f"expected {', '.join(MODES)}, got {text!r}")
    return text.strip()


def host_entry(text: str) -> str:
    """Check for an entry as in ``allowed_hosts``; gives its normal form."""
    from pytest_harbor.task.network import is_impossible_ipv4, normal_host

    if not text.strip(" ."):
        raise argparse.ArgumentTypeError(f"expected a host, got {text!r}")
    try:
        host = normal_host(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if is_impossible_ipv4(host):
        raise argparse.ArgumentTypeError(f"{text!r} looks like an IPv4 address and is none")
    return host


def endpoint(text: str) -> str:
    """Check for a URL or ``HOST:PORT``; gives the latter."""
    from pytest_harbor.task.endpoint import parse_endpoint

    try:
        return str(parse_endpoint(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def engine_name(text: str) -> str:
    """Check the name of a network or a runtime of the engine."""
    if not _ENGINE_NAME.fullmatch(text.strip()):
        raise argparse.ArgumentTypeError(
            f"expected a name of letters, digits, '_', '.' and '-', got {text!r}"
        )
    return text.strip()


def image_name(text: str) -> str:
    """Check the name of an image."""
    if not text.strip() or re.search(r"\s", text.strip()):
        raise argparse.ArgumentTypeError(f"expected the name of an image, got {text!r}")
    return text.strip()


def network_settings(line: Mapping[str, Any], ini: Mapping[str, Any]) -> NetworkSettings:
    """What the command line and the ini file come to together: only what both allow.

    Args:
        line: Option to the command line's value; None where it has none.
        ini: The same of the ini file.

    Raises:
        ValueError: One of the two contradicts itself; the message says how.
    """
    asked = tuple(_asked(place, value) for place, value in ((INI_FILE, ini), (LINE, line)))
    said = tuple(one for one in asked if one.mode is not None)
    mode, allowed = _mode_and_hosts(said)
    return NetworkSettings(
        mode,
        allowed,
        _unique((*(ini["deny_host"] or ()), *(line["deny_host"] or ()))),
        _unique(ini["endpoint"] if line["endpoint"] is None else line["endpoint"]),
        said if len(said) > 1 else (),
    )


def _asked(place: str, value: Mapping[str, Any]) -> Asked:
    mode, hosts = value["network"], _unique(value["allow_host"])
    if hosts and mode not in (None, "allowlist"):
        raise ValueError(
            f"harbor_allow_host names hosts ({', '.join(hosts[:3])}), and harbor_network is"
            f" {mode}, both {place}; hosts count for allowlist only: leave one of the two out"
        )
    return Asked(place, "allowlist" if hosts else mode, hosts)


def _mode_and_hosts(said: Sequence[Asked]) -> tuple[Mode, tuple[str, ...]]:
    if any(one.mode == "no-network" for one in said):
        return "no-network", ()
    lists = [one.hosts for one in said if one.hosts]
    if lists:
        return "allowlist", lists[0] if len(lists) == 1 else _of_both(*lists)
    if any(one.mode == "allowlist" for one in said):
        raise ValueError(
            "harbor_network is allowlist, and no host is named: add --harbor-allow-host=HOST, or"
            " say no-network"
        )
    return "public", ()


def _of_both(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    from pytest_harbor.task.network import NetworkPolicy
    from pytest_harbor.task.network_combination import combined

    return combined(NetworkPolicy("allowlist", first), NetworkPolicy("allowlist", second)).hosts


def _unique(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values or ()))
