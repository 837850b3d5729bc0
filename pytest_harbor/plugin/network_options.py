"""The options of the network: their values, and what they come to together."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from pytest_harbor.task.network import NetworkPolicy

Mode = Literal["public", "no-network", "allowlist"]
MODES = ("public", "no-network", "allowlist")

# What docker takes for the names of networks and runtimes.
_ENGINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """What the run lets trials reach; plain values, which cost no import.

    Attributes:
        mode: As in ``task.toml``.
        allowed: Hosts of the mode ``allowlist``.
        denied: Hosts that no trial reaches.
        endpoints: ``HOST:PORT`` that every trial reaches.
    """

    mode: Mode = "public"
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()

    @property
    def policy(self) -> NetworkPolicy:
        """The same as the engine's layer takes it."""
        from pytest_harbor.task.endpoint import parse_endpoint
        from pytest_harbor.task.network import NetworkPolicy

        endpoints = tuple(map(parse_endpoint, self.endpoints))
        return NetworkPolicy(self.mode, self.allowed, self.denied, endpoints)


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


def network_settings(value: Mapping[str, Any], given: Mapping[str, bool]) -> NetworkSettings:
    """What the options come to together.

    Args:
        value: Option to its value, the command line's where there is one.
        given: Option to whether the command line has it: it outranks what the ini file
            says of the other one of ``network`` and ``allow_host``.

    Raises:
        ValueError: They contradict each other; the message says how.
    """
    mode, allowed = value["network"], tuple(dict.fromkeys(value["allow_host"] or ()))
    if allowed and mode not in (None, "allowlist"):
        if given["network"] == given["allow_host"]:
            raise ValueError(
                f"harbor_allow_host names hosts ({', '.join(allowed[:3])}), and harbor_network is"
                f" {mode}; hosts count for allowlist only: leave one of the two out"
            )
        mode, allowed = ("allowlist", allowed) if given["allow_host"] else (mode, ())
    if mode == "allowlist" and not allowed:
        raise ValueError(
            "harbor_network is allowlist, and no host is named: add --harbor-allow-host=HOST, or"
            " say no-network"
        )
    return NetworkSettings(
        cast("Mode", "allowlist" if allowed else mode or "public"),
        allowed,
        _unique(value["deny_host"]),
        _unique(value["endpoint"]),
    )


def _unique(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values or ()))
