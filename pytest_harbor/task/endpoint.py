"""Endpoints as people write them: a URL, or a host and a port."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

from pytest_harbor.task.network import HOST_MACHINE, Endpoint, is_impossible_ipv4, normal_host

_PORTS = {"https": 443, "http": 80}
_FORMS = "https://HOST, http://HOST or HOST:PORT"


def parse_endpoint(text: str) -> Endpoint:
    """The server that a URL or ``HOST:PORT`` names; a URL's path counts for nothing.

    Raises:
        ValueError: It names none, or one that no container can reach; the message says why
            and does not repeat the text, whose URL may hold a secret.
    """
    scheme, separator, _rest = text.strip().partition("://")
    if separator and scheme.lower() not in _PORTS:
        raise ValueError(f"{scheme[:20]!r} is no scheme of an endpoint; accepted is {_FORMS}")
    try:
        parts = urlsplit(text.strip() if separator else f"//{text.strip()}")
    except ValueError as error:
        raise ValueError(f"not an endpoint ({error}); accepted is {_FORMS}") from None
    if "@" in parts.netloc:
        raise ValueError(f"an endpoint without a user and a password is expected: {_FORMS}")
    return Endpoint(_host(parts), _port(parts))


def _host(parts: SplitResult) -> str:
    if not parts.hostname:
        raise ValueError(f"an endpoint without a host; accepted is {_FORMS}")
    try:
        host = normal_host(parts.hostname)
    except ValueError as error:
        raise ValueError(f"not the host of an endpoint ({error}); accepted is {_FORMS}") from None
    if is_impossible_ipv4(host):
        raise ValueError(f"{host!r} looks like an IPv4 address and is none")
    if "*" in host or "/" in host:
        raise ValueError(f"an endpoint is one host, not {host!r}; accepted is {_FORMS}")
    if _is_loopback(host):
        raise ValueError(
            f"{host!r} is the container itself when a container asks for it, and nothing in a"
            f" container reaches this machine's loopback; write {HOST_MACHINE} for the engine's"
            " machine, and let the server listen on an address that containers reach, as 0.0.0.0"
        )
    return host


def _port(parts: SplitResult) -> int:
    try:
        port = parts.port
    except ValueError:
        raise ValueError("an endpoint's port is a number from 1 to 65535") from None
    port = _PORTS.get(parts.scheme) if port is None else port
    if not port:
        raise ValueError(f"an endpoint needs a port from 1 to 65535; accepted is {_FORMS}")
    return port


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
