"""The rules in the gateway's network namespace: one table, replaced as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_harbor.environment.docker.gateway.recipe import (
    HOST_STAND_IN,
    STAND_IN,
    Place,
    Recipe,
)
from pytest_harbor.task.network import Endpoint

TABLE = "harbor"

MAX_REFUSED = 1000
"""Distinct refused destinations that are kept for each protocol."""

# Never to be reached by a name, whatever it resolves to.
_SPECIAL = ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")

_REFUSALS = ("tcp", "udp")

CLOSED = f"""\
table inet {TABLE} {{}}
delete table inet {TABLE}
table inet {TABLE} {{
  chain closed_forward {{ type filter hook forward priority filter; policy drop; }}
  chain closed_input {{ type filter hook input priority filter; policy drop; iifname "lo" accept; }}
}}
"""
"""Lets nothing through; needs to know nothing."""


def firewall(
    recipe: Recipe,
    place: Place,
    *,
    dns_port: int,
    proxy_port: int,
    host_addresses: Sequence[str],
    neighbours: Sequence[str] = (),
) -> str:
    """A script for ``nft -f`` that makes the policy hold in one transaction.

    Args:
        recipe: The policy.
        place: Where the gateway stands.
        dns_port: Where its name server listens.
        proxy_port: Where its proxy listens.
        host_addresses: Addresses of the engine's machine, never to be reached by a name.
        neighbours: Networks of the engine, reached by a name only where the policy lets
            through their addresses, too.
    """
    special, kept_apart = _unnameable(recipe, place, host_addresses, neighbours)
    chains = [
        _set("allowed", "ipv4_addr", recipe.networks, interval=True),
        _set("denied", "ipv4_addr", recipe.denied_networks, interval=True),
        _set("special", "ipv4_addr", special, interval=True),
        _set("neighbours", "ipv4_addr", kept_apart, interval=True),
        _set("named", "ipv4_addr . inet_service", _pairs(recipe.resolved)),
        _set("endpoints", "ipv4_addr . inet_service", _endpoints(recipe, place)),
        *_refused_sets(),
        _raw(place),
        _dstnat(recipe, place, dns_port, proxy_port),
        _forward(recipe, place),
        _input(recipe, place, dns_port, proxy_port),
        _output(place),
        _refuse(),
        _srcnat(place),
    ]
    again = f"table inet {TABLE} {{}}\ndelete table inet {TABLE}\n"
    return "\n".join([f"{again}table inet {TABLE} {{", *chains, "}\n"])


def _unnameable(
    recipe: Recipe, place: Place, host_addresses: Sequence[str], neighbours: Sequence[str]
) -> tuple[list[str], list[str]]:
    """What no name leads to, and what one leads to only if its address is allowed, too."""
    special = [*_SPECIAL, place.subnet, place.uplink_gateway]
    if recipe.public:
        # Reached by address anyway; the host guard keeps the machine and other networks apart.
        return special, [one for one in neighbours if one != place.uplink_subnet]
    return [*special, *filter(None, (place.uplink_subnet, *host_addresses))], list(neighbours)


def _pairs(endpoints: Iterable[Endpoint]) -> list[str]:
    return [f"{end.host} . {end.port}" for end in endpoints]


def _endpoints(recipe: Recipe, place: Place) -> list[str]:
    endpoints = _pairs(recipe.direct_endpoints)
    return endpoints + [f"{place.uplink_gateway} . {port}" for port in recipe.host_ports]


def _set(name: str, kind: str, elements: Iterable[str], *, interval: bool = False) -> str:
    flags = "flags interval; auto-merge;" if interval else ""
    listed = ", ".join(dict.fromkeys(elements))
    values = f"elements = {{ {listed} }}" if listed else ""
    return f"set {name} {{ type {kind}; {flags} {values}\n}}"


def _refused_sets() -> list[str]:
    # One set per protocol: with the protocol inside the key nft 1.0.6 swaps the port's bytes.
    sets = [
        f"set refused_{protocol} {{ typeof ip daddr . {protocol} dport; flags dynamic; "
        f"size {MAX_REFUSED}; counter;\n}}"
        for protocol in _REFUSALS
    ]
    other = "typeof ip daddr . ip protocol; flags dynamic;"
    sets.append(f"set refused_other {{ {other} size {MAX_REFUSED}; counter;\n}}")
    return [*sets, *(f"counter refused_{protocol}_all {{}}" for protocol in (*_REFUSALS, "other"))]


def _chain(name: str, hook: str, *rules: str) -> str:
    head = f"type {hook};" if hook else ""
    return f"chain {name} {{ {head}\n" + "\n".join(rules) + "\n}"


def _raw(place: Place) -> str:
    task, uplink = place.task_interface, place.uplink_interface
    return _chain(
        "raw",
        "filter hook prerouting priority raw; policy accept",
        'iifname "lo" accept',
        "meta nfproto != ipv4 drop",
        f'iifname "{task}" ip saddr != {place.subnet} drop',
        f'iifname "{task}" ip saddr {place.router} drop',
        *(f"ip option {option} exists drop" for option in ("lsrr", "ssrr", "rr", "ra")),
        "ip daddr { 224.0.0.0/4, 255.255.255.255 } drop",
        "fib daddr type { broadcast, multicast, anycast } drop",
        f'iifname "{uplink}" ip daddr {place.subnet} drop',
    )


def _dstnat(recipe: Recipe, place: Place, dns_port: int, proxy_port: int) -> str:
    task = f'iifname "{place.task_interface}"'
    proxy = f"dnat ip to {place.router}:{proxy_port}"
    rules = [
        f"{task} ip daddr {place.router} {protocol} dport 53 dnat ip to {place.router}:{dns_port}"
        for protocol in _REFUSALS
    ]
    rules += [
        f"{task} ip daddr {HOST_STAND_IN} tcp dport {port} dnat ip to {place.uplink_gateway}:{port}"
        for port in recipe.host_ports
    ]
    if recipe.needs_proxy and not recipe.public:
        rules.append(f"{task} ip daddr {STAND_IN} meta l4proto tcp {proxy}")
    if recipe.needs_proxy and recipe.public:
        rules += [
            f"{task} ip daddr . tcp dport @endpoints accept",
            f"{task} ip daddr @denied accept",
            f"{task} ip daddr {{ {place.router}, {HOST_STAND_IN} }} accept",
            f"{task} meta l4proto tcp {proxy}",
        ]
    return _chain("dstnat", "nat hook prerouting priority dstnat", *rules)


def _forward(recipe: Recipe, place: Place) -> str:
    out = f'iifname "{place.task_interface}" oifname "{place.uplink_interface}"'
    back = f'iifname "{place.uplink_interface}" oifname "{place.task_interface}"'
    state = "ct state { established, related }"
    # Answers pass by what was asked for, not by state alone: a set that no longer holds the
    # address ends the connection.
    rules = [
        "ct state invalid drop",
        f"{out} ip daddr . tcp dport @endpoints accept",
        *_endpoint_answers(recipe, place, f"{back} {state}"),
        f"{out} ip daddr @denied jump refuse",
        f"{back} ct original ip daddr @denied drop",
        f"{out} ip daddr {place.uplink_gateway} jump refuse",
    ]
    if recipe.public and recipe.denied_names:
        rules.append(f"{out} udp dport 443 jump refuse")
    to, frm = ("", "") if recipe.public else ("ip daddr @allowed", "ct original ip daddr @allowed")
    rules += [f"{out} {to} accept", f"{back} {state} {frm} accept"]
    rules.append(f'iifname "{place.task_interface}" jump refuse')
    return _chain("forward", "filter hook forward priority filter; policy drop", *rules)


def _endpoint_answers(recipe: Recipe, place: Place, before: str) -> list[str]:
    # No set: nft 1.0.6 does not join the ports of a connection with an address.
    ends = [(end.host, end.port) for end in recipe.direct_endpoints]
    ends += [(place.uplink_gateway, port) for port in recipe.host_ports]
    return [
        f"{before} meta l4proto tcp ct reply ip saddr {host} ct reply proto-src {port} accept"
        for host, port in ends
    ]


def _input(recipe: Recipe, place: Place, dns_port: int, proxy_port: int) -> str:
    task = f'iifname "{place.task_interface}"'
    # Only what was translated to them reaches the services, so their ports are closed.
    reached = f"{task} ct status dnat ip daddr {place.router}"
    rules = [
        'iifname "lo" accept',
        "ct state invalid drop",
        f'iifname "{place.uplink_interface}" ct direction reply '
        "ct state { established, related } accept",
        f"{reached} udp dport {dns_port} accept",
        f"{reached} tcp dport {dns_port} accept",
    ]
    if recipe.needs_proxy:
        rules.append(f"{reached} tcp dport {proxy_port} accept")
    rules.append(f"{task} jump refuse")
    return _chain("incoming", "filter hook input priority filter; policy drop", *rules)


def _output(place: Place) -> str:
    proxy = f"meta skuid {place.proxy_uid}"
    return _chain(
        "outgoing",
        "filter hook output priority filter; policy accept",
        "ct direction reply accept",
        f'oifname "{place.task_interface}" meta l4proto {{ tcp, udp }} ct state new drop',
        f"{proxy} ip daddr 127.0.0.11 meta l4proto udp accept",
        # The run's own endpoints come before everything that a task's names may not lead to.
        f"{proxy} ip daddr . tcp dport @named accept",
        f"{proxy} ip daddr . tcp dport @endpoints accept",
        f"{proxy} ip daddr @special jump refuse",
        f"{proxy} ip daddr @denied jump refuse",
        f"{proxy} ip daddr @allowed accept",
        f"{proxy} ip daddr @neighbours jump refuse",
        f"{proxy} meta nfproto != ipv4 drop",
    )


def _refuse() -> str:
    """Count and refuse at once: a clear error beats a time-out."""
    rules = []
    for protocol in _REFUSALS:
        rules.append(f"meta l4proto {protocol} counter name refused_{protocol}_all")
        rules.append(f"update @refused_{protocol} {{ ip daddr . {protocol} dport }}")
    rules.append("meta l4proto != { tcp, udp } counter name refused_other_all")
    rules.append("meta l4proto != { tcp, udp } update @refused_other { ip daddr . ip protocol }")
    rules.append("meta l4proto tcp reject with tcp reset")
    rules.append("reject with icmp type admin-prohibited")
    return _chain("refuse", "", *rules)


def _srcnat(place: Place) -> str:
    rule = f'oifname "{place.uplink_interface}" masquerade'
    return _chain("srcnat", "nat hook postrouting priority srcnat", rule)
