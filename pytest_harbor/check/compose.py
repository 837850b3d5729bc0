"""A compose file as far as the checks look at it, with lines; what it asks of the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.subject import Subject

CHECKS = (
    Check(
        "invalid-compose",
        "compose cannot read the file",
        "correct it; `docker compose -f … config` tells more",
    ),
    Check(
        "privileged",
        "the task's code gains rights over the machine that runs it",
        "do without: no privileged, capabilities, devices or namespaces of the host",
    ),
    Check(
        "host-mount",
        "the task's code reads or writes files of the machine that runs it",
        "COPY what is needed into the image; use a named volume for the rest",
    ),
)

_RIGHTS = (
    "privileged",
    "cap_add",
    "devices",
    "device_cgroup_rules",
    "security_opt",
    "use_api_socket",
)
_NAMESPACES = ("network_mode", "pid", "ipc", "userns_mode", "uts", "cgroup")
_HARMLESS_OPTIONS = ("no-new-privileges",)
_HARBOR_LOGS = ("${HOST_", "$HOST_")
"""Mounts of the log folders, which older tasks write out."""


class Service(NamedTuple):
    """A service of a compose file.

    Attributes:
        name: Its name.
        table: Its keys.
        line: Line of its name, from 1.
        lines: Line of each of its keys.
    """

    name: str
    table: dict[str, Any]
    line: int
    lines: dict[str, int]


def services(text: str) -> list[Service]:
    """The services of a compose file; none for a file that is none."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    if not isinstance(root, yaml.MappingNode) or not isinstance(data, dict):
        return []
    tables = data.get("services")
    return list(_services(root, tables)) if isinstance(tables, dict) else []


def _services(root: yaml.MappingNode, tables: dict[str, Any]) -> Iterator[Service]:
    for key, value in root.value:
        if key.value == "services" and isinstance(value, yaml.MappingNode):
            for name, body in value.value:
                table = tables.get(name.value)
                if isinstance(table, dict):
                    pairs = body.value if isinstance(body, yaml.MappingNode) else []
                    lines = {str(k.value): k.start_mark.line + 1 for k, _ in pairs}
                    yield Service(str(name.value), table, name.start_mark.line + 1, lines)


def find(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """Whatever of the host a compose file asks for."""
    for path in subject.compose_files:
        text = subject.text(path) or ""
        try:
            yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or "not YAML"
            yield Found("invalid-compose", reason, path, mark.line + 1 if mark else None)
            continue
        for service in services(text):
            for code, key, message in _asked(service):
                said = f"service {service.name}: {message}"
                yield Found(code, said, path, service.lines.get(key, service.line))


def _asked(service: Service) -> Iterator[tuple[str, str, str]]:
    for key in _RIGHTS:
        value = service.table.get(key)
        if value and not _is_harmless(value):
            yield "privileged", key, f"{key}: {_short(value)}"
    for key in _NAMESPACES:
        value = service.table.get(key)
        if value == "host":
            yield "privileged", key, f"{key}: host"
    volumes = service.table.get("volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        source = _bind_source(volume)
        if source is not None and _leaves(source):
            yield "host-mount", "volumes", f"mounts {source} of the host"


def _is_harmless(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, str) and one.startswith(_HARMLESS_OPTIONS) for one in value
    )


def _bind_source(volume: Any) -> str | None:
    """The host's side of a mount; None for a volume of the engine's."""
    if isinstance(volume, dict):
        source = volume.get("source")
        return str(source) if volume.get("type") == "bind" and source else None
    if not isinstance(volume, str) or ":" not in volume:
        return None
    if volume.startswith("${"):
        name, _, rest = volume.partition("}")
        return name + "}" + rest.partition(":")[0]
    source = volume.partition(":")[0]
    return source if source.startswith(("/", ".", "~", "$")) else None


def _leaves(source: str) -> bool:
    """Whether a path leads out of the task's ``environment/``, as far as it can be told."""
    if source.startswith(_HARBOR_LOGS):
        return False
    return source.startswith(("/", "~", "$")) or ".." in source.split("/")


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value).lower()
    return text[:80]
