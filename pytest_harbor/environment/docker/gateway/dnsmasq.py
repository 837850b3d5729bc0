"""The configuration of the name server that a box is given."""

from __future__ import annotations

from pytest_harbor.environment.docker.gateway.recipe import (
    HOST_STAND_IN,
    STAND_IN,
    Place,
    Recipe,
    matches,
)
from pytest_harbor.task.network import HOST_MACHINE

ENGINE_RESOLVER = "127.0.0.11"
"""The engine's own name server, in the namespace of every container on a named network."""


def dnsmasq_config(recipe: Recipe, place: Place, port: int) -> str:
    """Text of the configuration.

    Under ``public`` questions are forwarded; else no question leaves the gateway, since
    every answer is known here.
    """
    lines = [
        f"port={port}",
        f"listen-address={place.router}",
        "bind-interfaces",
        "no-resolv",
        "no-hosts",
        "no-poll",
        "user=dnsmasq",
        "log-facility=-",
        "pid-file=",
    ]
    lines += _public(recipe) if recipe.public else _restricted(recipe)
    if recipe.host_ports:
        lines.append(f"host-record={HOST_MACHINE},{HOST_STAND_IN}")
    return "\n".join(lines) + "\n"


def _public(recipe: Recipe) -> list[str]:
    lines = [f"server={ENGINE_RESOLVER}"]
    ends = {end.host for end in recipe.name_endpoints}
    for name in recipe.denied_names:
        if name in ends:
            continue
        lines.append(f"address=/{name}/")
        if not name.startswith("*."):
            # The line above covers everything below the name as well.
            lines.append(f"server=/*.{name}/{ENGINE_RESOLVER}")
    lines += [f"server=/{end}/{ENGINE_RESOLVER}" for end in sorted(ends)]
    return [*lines, *(["log-queries"] if recipe.denied_names else [])]


def _restricted(recipe: Recipe) -> list[str]:
    lines = ["address=/#/", "filter-AAAA", "cache-size=0", "log-queries"]
    ends = {end.host for end in recipe.name_endpoints}
    for name in recipe.names:
        if name.startswith("*."):
            # The second line: an honest "no such record" for everything but addresses.
            lines += [f"address=/{name}/{STAND_IN}", f"local=/{name}/"]
        elif name not in ends and not any(matches(one, name) for one in recipe.denied_names):
            lines.append(f"host-record={name},{STAND_IN}")
    for name in recipe.denied_names:
        if name not in ends:
            lines.append(f"address=/{name}/")
            below = f"*.{name}"
            # The line above covers everything below the name as well.
            if _is_allowed(below, recipe):
                lines += [f"address=/{below}/{STAND_IN}", f"local=/{below}/"]
    return [*lines, *(f"host-record={end},{STAND_IN}" for end in sorted(ends))]


def _is_allowed(pattern: str, recipe: Recipe) -> bool:
    """Whether names below are allowed by a wildcard, and nothing denies them."""
    allowed = any(matches(one, pattern) for one in recipe.names if one != pattern)
    return allowed and not any(matches(one, pattern) for one in recipe.denied_names)
