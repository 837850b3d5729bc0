# ruff: noqa: E501 - a case is a line
"""The policies under which the escapes are tried, and what must work under each."""

from dataclasses import dataclass
from typing import Any

from pytest_harbor.task.network import HOST_MACHINE, Endpoint, NetworkPolicy

from .lab import ENDPOINT, IN_RANGE, RANGE
from .table import ESCAPES, REBOUND, Escape


@dataclass(frozen=True)
class Allowance:
    """Something that a policy lets through.

    Attributes:
        name: Of the row.
        way: Function of ``inside/probe.py``.
        args: Its arguments.
        hears: Part of what the box must hear.
    """

    name: str
    way: str
    args: dict[str, Any]
    hears: str


@dataclass(frozen=True)
class Case:
    """One policy, or a change of policies, and a box to try it from.

    Attributes:
        name: Of the case.
        policies: In order; the escapes are tried under the last.
        allowances: What must work under the last.
        front: A name that is allowed, as far as one is.
        front_address: Where it really leads.
        alike: A name that ends like an allowed one and is not allowed.
        compose: The box has a service ``side`` beside it.
        box: From which of them.
        own_rows: Only the rows that name the case are tried.
    """

    name: str
    policies: tuple[NetworkPolicy, ...]
    allowances: tuple[Allowance, ...] = ()
    front: str = "allowed.test"
    front_address: str = "198.51.100.10"
    alike: str = "otherallowed.test"
    compose: bool = False
    box: str = "main"
    own_rows: bool = False

    @property
    def rows(self) -> list[Escape]:
        """The escapes that are tried: held connections need an open phase before."""
        was_open = len(self.policies) > 1 and self.policies[0].mode == "public"
        return [
            row
            for row in ESCAPES
            if (self.name in row.only if row.only or self.own_rows else True)
            and (was_open or not row.held)
        ]


PUBLIC, NONE = NetworkPolicy(), NetworkPolicy("no-network")
REBOUND_NAMES = tuple(f"to-{kind}.test" for kind in REBOUND)
EXACT = NetworkPolicy("allowlist", ("allowed.test", *REBOUND_NAMES))
WILDCARD = NetworkPolicy("allowlist", ("*.wild.test",))
ADDRESSES = NetworkPolicy("allowlist", (RANGE,))
ENDPOINTS = (Endpoint("api.test", 8443), Endpoint(ENDPOINT, 9999), Endpoint(HOST_MACHINE, 9999))
DENYING = NetworkPolicy("public", denied=("denied.test", "*.below.test", RANGE))
OPEN_ENDPOINTS = NetworkPolicy("public", endpoints=ENDPOINTS)
ONLY_ENDPOINTS = NetworkPolicy("no-network", endpoints=ENDPOINTS)

LOOPBACK = Allowance("its own loopback", "loopback", {}, "esc")


def _get(to: str, port: int, *, secure: bool = False, host: str = "") -> Allowance:
    kind = "https" if secure else "http"
    args = {"to": to, "port": port, "secure": secure, "host": host}
    return Allowance(f"{kind}://{to}:{port}", "get", args, f":{port} to {host or to}")


def _services(other: str) -> tuple[Allowance, ...]:
    # The neighbour program runs in both services; what it says ends with the name it was asked for.
    return (
        Allowance("the other service by http", "get", {"to": other, "port": 9999}, f"to {other}"),
        Allowance("the other service by udp", "udp", {"to": other, "port": 9999}, "heard esc"),
        Allowance("the other service by ping", "ping", {"to": other}, "esc"),
    )


BY_NAME = (
    LOOPBACK,
    _get("allowed.test", 80),
    _get("allowed.test", 8080),
    _get("allowed.test", 443, secure=True),
    _get("allowed.test", 8443, secure=True),
    Allowance("curl", "curl", {"url": "http://allowed.test/"}, "0 hello from 198.51.100.10:80"),
    Allowance(
        "curl by TLS", "curl", {"url": "https://allowed.test/"}, "0 hello from 198.51.100.10:443"
    ),
    Allowance("an allowed name resolves", "resolve", {"name": "allowed.test"}, "resolved "),
)
BY_WILDCARD = (
    LOOPBACK,
    _get("one.wild.test", 80),
    _get("two.deeper.wild.test", 8080),
    _get("one.wild.test", 443, secure=True),
    _get("two.deeper.wild.test", 8443, secure=True),
)
BY_ADDRESS = (
    LOOPBACK,
    Allowance("tcp", "get", {"to": "@in_range", "port": 9999, "host": "any"}, f"{IN_RANGE}:9999"),
    Allowance("tls", "get", {"to": "@in_range", "port": 443, "host": "any.test", "secure": True},
              f"{IN_RANGE}:443"),
    Allowance("udp", "udp", {"to": "@in_range", "port": 9999}, "heard esc"),
    Allowance("ping", "ping", {"to": "@in_range"}, "esc"),
)  # fmt: skip
BY_ENDPOINT = (
    LOOPBACK,
    _get("api.test", 8443, secure=True),
    Allowance("an endpoint's address", "get", {"to": "@endpoint", "port": 9999, "host": "any"},
              f"{ENDPOINT}:9999"),
    _get(HOST_MACHINE, 9999),
)  # fmt: skip
BUT_DENIED = (
    LOOPBACK,
    _get("allowed.test", 80),
    _get("other.test", 443, secure=True),
    Allowance(
        "tcp without a name", "get", {"to": "@other", "port": 9999, "host": "any"}, ":9999 to any"
    ),
    Allowance("udp", "udp", {"to": "@other", "port": 9999}, "heard esc"),
    *(
        Allowance(
            name,
            "talk",
            {"to": "@other", "port": port, "pause": 2.5, "parts": parts},
            f":{port} to ",
        )
        for name, port, parts in (
            ("a beginning of SSH", 22, ["SSH-2.0-OpenSSH_9.2 Debian\n", "\n"]),
            ("a client that waits for a greeting", 25, ["", "EHLO it\n\n"]),
            ("what is no text", 9999, ["\x05\x01", "\n\n"]),
            ("what becomes no text", 9999, ["0\x0c\x02\x01", "\n\n"]),
        )
    ),
)

CASES = (
    Case("no-network", (NONE,), (LOOPBACK,)),
    Case("tightened", (PUBLIC, NONE), (LOOPBACK,)),
    Case("exact", (PUBLIC, EXACT), BY_NAME),
    Case("wildcard", (PUBLIC, WILDCARD), BY_WILDCARD, "one.wild.test", "198.51.100.12", "evilwild.test"),
    Case("addresses", (ADDRESSES,), BY_ADDRESS),
    Case("endpoints", (OPEN_ENDPOINTS, ONLY_ENDPOINTS), BY_ENDPOINT),
    Case("denied", (PUBLIC, DENYING), BUT_DENIED, own_rows=True),
    Case("compose-no-network", (NONE,), (LOOPBACK, *_services("side")), compose=True),
    Case("compose-tightened", (PUBLIC, NONE), (LOOPBACK, *_services("side")), compose=True),
    Case("sidecar-tightened", (PUBLIC, NONE), (LOOPBACK, *_services("main")), compose=True, box="side"),
    Case("compose-exact", (PUBLIC, EXACT), (*BY_NAME, *_services("side")), compose=True),
    Case("sidecar-exact", (PUBLIC, EXACT), (*BY_NAME, *_services("main")), compose=True, box="side"),
)  # fmt: skip
CASE = {case.name: case for case in CASES}
