"""What a task's compose file may not ask of the machine that it runs on.

Judged is compose's own resolved configuration, in which anchors, variables, ``extends``
and short forms are gone, and what is judged is what is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_harbor.environment.docker.compose_service_keys import (
    UNKNOWN,
    Grounds,
    extra_hosts,
    rights_past_a_policy,
    service_key,
)

MAX_CONTAINERS = 50

REMEDY = "remove it, or accept the risk with --harbor-allow-privileged"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that is refused.

    Attributes:
        service: The service; empty for what belongs to none.
        key: Dotted key in the compose file.
        value: What was found there.
        reason: What is wrong with it.
    """

    service: str
    key: str
    value: str
    reason: str

    def __str__(self) -> str:
        place = f"service {self.service!r}: {self.key}" if self.service else self.key
        value = self.value if len(self.value) <= 200 else f"{self.value[:200]}…"
        return f"{place}: {value}: {self.reason}"


_HARMLESS_NETWORK_KEYS = frozenset(
    ["attachable", "enable_ipv4", "enable_ipv6", "internal", "ipam", "labels", "name"]
)
_HARMLESS_NETWORK_OPTIONS = frozenset(
    {
        "com.docker.network.bridge.enable_icc",
        "com.docker.network.bridge.enable_ip_masquerade",
        "com.docker.network.driver.mtu",
    }
)


def refusals(model: Mapping[str, Any], grounds: Grounds) -> list[Refusal]:
    """Everything in a resolved configuration that is refused."""
    return [*_top_level(model), *_services(model, grounds), *_shared(model, grounds)]


def ways_out(model: Mapping[str, Any], grounds: Grounds) -> list[Refusal]:
    """What leads past a restriction of the network, whatever else is allowed."""
    found = []
    for name, service in (model.get("services") or {}).items():
        for below, value, reason in _service_ways_out(service or {}, grounds):
            found.append(Refusal(name, below, _shown(value), reason))
    for name, network in (model.get("networks") or {}).items():
        if (network or {}).get("external"):
            found.append(Refusal("", f"networks.{name}.external", "true", "leads out"))
        if (driver := (network or {}).get("driver")) not in (None, "bridge", "default"):
            found.append(Refusal("", f"networks.{name}.driver", _shown(driver), "leads out"))
    return [*found, *_shared({**model, "networks": None}, grounds)]


def _service_ways_out(
    service: Mapping[str, Any], grounds: Grounds
) -> Iterator[tuple[str, Any, str]]:
    mode = str(service.get("network_mode") or "none")
    if mode not in ("none", "bridge", "default") and not mode.startswith("service:"):
        yield "network_mode", mode, "leads out"
    for below, value, reason in extra_hosts(
        service.get("extra_hosts") or [], Grounds(Path(), network="none")
    ):
        yield f"extra_hosts{below}", value, reason
    yield from rights_past_a_policy(service, grounds)


def _top_level(model: Mapping[str, Any]) -> Iterator[Refusal]:
    known = {"services", "networks", "volumes", "secrets", "configs", "name", "version"}
    for key, value in model.items():
        if key not in known and not key.startswith("x-"):
            yield Refusal("", key, _shown(value), UNKNOWN)


def _services(model: Mapping[str, Any], grounds: Grounds) -> Iterator[Refusal]:
    containers = 0
    for name, service in (model.get("services") or {}).items():
        containers += replicas(service)
        for key, value in (service or {}).items():
            for below, found, reason in service_key(key, value, grounds):
                yield Refusal(name, key + below, _shown(found), reason)
    if containers > MAX_CONTAINERS:
        reason = f"at most {MAX_CONTAINERS} containers are started"
        yield Refusal("", "services", f"{containers} containers", reason)


def _shared(model: Mapping[str, Any], grounds: Grounds) -> Iterator[Refusal]:
    """Networks, volumes, secrets and configs."""
    for kind, check in (
        ("networks", _network),
        ("volumes", _volume),
        ("secrets", _file),
        ("configs", _file),
    ):
        for name, settings in (model.get(kind) or {}).items():
            for below, found, reason in check(settings or {}, grounds):
                yield Refusal("", f"{kind}.{name}{below}", _shown(found), reason)


def _external(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    if settings.get("external"):
        yield ".external", settings["external"], "uses what belongs to others on this engine"


def _network(settings: Mapping[str, Any], _grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    yield from _external(settings)
    for key, found in settings.items():
        if key in _HARMLESS_NETWORK_KEYS or key in ("external", "driver_opts") or not found:
            continue
        if key != "driver":
            yield f".{key}", found, UNKNOWN
        elif found not in ("bridge", "default"):
            yield ".driver", found, "joins a network of the host; accepted: bridge"
    ipam = settings.get("ipam") or {}
    if ipam.get("driver") not in (None, "", "default"):
        yield ".ipam.driver", ipam["driver"], "runs a plugin of the engine; accepted: default"
    for option, found in (settings.get("driver_opts") or {}).items():
        if option not in _HARMLESS_NETWORK_OPTIONS:
            yield f".driver_opts.{option}", found, "changes interfaces of the host"


def _volume(settings: Mapping[str, Any], _grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    yield from _external(settings)
    if settings.get("driver") not in (None, "", "local"):
        yield ".driver", settings["driver"], "runs a plugin of the engine; accepted: local"
    options = settings.get("driver_opts") or {}
    if options and options.get("type") != "tmpfs":
        yield ".driver_opts", options, "mounts something of the host; accepted: type tmpfs"


def _file(settings: Mapping[str, Any], grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    yield from _external(settings)
    file = settings.get("file")
    if file and not grounds.owns(str(file)):
        yield ".file", file, "outside the task's folder"
    for key in ("driver", "template_driver"):
        if settings.get(key):
            yield f".{key}", settings[key], "runs a plugin of the engine"


def replicas(service: Mapping[str, Any] | None) -> int:
    """How many containers a service has."""
    settings = service or {}
    wanted = settings.get("scale")
    if wanted is None:
        wanted = (settings.get("deploy") or {}).get("replicas")
    return 1 if wanted is None else int(wanted)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
