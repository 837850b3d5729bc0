"""Which keys of a compose service are harmless, and what is wrong with the others.

What is harmless is listed; a key that is not on the list is refused by its name, so that
a newer compose brings nothing in unseen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNKNOWN = "unknown to this version, so not known to be harmless"


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a compose file may use.

    Attributes:
        task_folder: Files below it are the task's own.
        log_paths: Stand-ins for the log folders; they become volumes.
        network: The trial's network.
        gpus: How many GPUs the task asks for by its own field.
    """

    task_folder: Path
    log_paths: frozenset[str] = field(default_factory=frozenset)
    network: str = "public"
    gpus: int = 0

    def owns(self, path: str) -> bool:
        """Whether a path is the task's own, links followed."""
        if "\0" in path:
            return False
        return Path(path).resolve().is_relative_to(self.task_folder.resolve())


Check = Callable[[Any, Grounds], Iterator[tuple[str, Any, str]]]
"""Gives the key below the checked one, the value and the reason of each refusal."""

_HARMLESS_SERVICE_KEYS = frozenset(
    [
        "attach",
        "blkio_config",
        "cap_drop",
        "command",
        "configs",
        "container_name",
        "cpu_count",
        "cpu_percent",
        "cpu_period",
        "cpu_quota",
        "cpu_shares",
        "cpus",
        "cpuset",
        "depends_on",
        "develop",
        "dns",
        "dns_opt",
        "dns_search",
        "domainname",
        "entrypoint",
        "env_file",
        "environment",
        "expose",
        "group_add",
        "healthcheck",
        "hostname",
        "image",
        "init",
        "isolation",
        "label_file",
        "labels",
        "links",
        "logging",
        "mac_address",
        "mem_limit",
        "mem_reservation",
        "mem_swappiness",
        "memswap_limit",
        "networks",
        "pids_limit",
        "platform",
        "ports",
        "profiles",
        "pull_policy",
        "read_only",
        "restart",
        "scale",
        "secrets",
        "shm_size",
        "stdin_open",
        "stop_grace_period",
        "stop_signal",
        "storage_opt",
        "tmpfs",
        "tty",
        "ulimits",
        "user",
        "working_dir",
    ]
)
_HARMLESS_BUILD_KEYS = frozenset(
    [
        "args",
        "cache_from",
        "cache_to",
        "dockerfile_inline",
        "extra_hosts",
        "isolation",
        "labels",
        "no_cache",
        "platforms",
        "pull",
        "secrets",
        "shm_size",
        "tags",
        "target",
        "ulimits",
    ]
)
_HARMLESS_DEPLOY_KEYS = frozenset(
    [
        "endpoint_mode",
        "labels",
        "mode",
        "placement",
        "replicas",
        "restart_policy",
        "rollback_config",
        "update_config",
    ]
)
# The kernel keeps these per container.
_OWN_SYSCTLS = re.compile(r"^(?:net\.|fs\.mqueue\.|kernel\.(?:msg|shm|sem))")


def service_key(key: str, value: Any, grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    """What is refused of one key: the key below it, the value, the reason."""
    if key in _HARMLESS_SERVICE_KEYS or key.startswith("x-") or value in (None, False, [], {}, ""):
        return
    if key in _SERVICE_CHECKS:
        yield from _SERVICE_CHECKS[key](value, grounds)
    else:
        yield "", value, _REASONS.get(key, UNKNOWN)


_REASONS = {
    "privileged": "gives every right over the host",
    "cap_add": "adds capabilities",
    "devices": "hands over devices of the host",
    "device_cgroup_rules": "hands over devices of the host",
    "gpus": "hands over devices of the host; ask for GPUs with [environment].gpus",
    "use_api_socket": "hands over the engine's socket",
    "cgroup_parent": "leaves the container's control group",
    "runtime": "names a runtime of the host",
    "userns_mode": "leaves the engine's user namespace",
    "credential_spec": "reads credentials of the host",
    "external_links": "reaches containers of others",
    "provider": "runs a program on the host",
    "models": "runs a model on the host",
    "oom_kill_disable": "can use up the host's memory",
}


def _namespace(*allowed: str) -> Check:
    def check(value: Any, _grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
        if value not in allowed and not str(value).startswith("service:"):
            yield "", value, f"shares a namespace of the host or of a container of others{hint}"

    hint = f"; accepted: {', '.join((*allowed, 'service:NAME'))}"
    return check


def _security_opt(value: Any, _grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    for option in value:
        if not re.fullmatch(r"no-new-privileges([:=]true)?", str(option)):
            yield "", option, "changes how the container is confined; accepted: no-new-privileges"


def _sysctls(value: Any, _grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    names = value if isinstance(value, Mapping) else [str(entry).split("=")[0] for entry in value]
    for name in names:
        if not _OWN_SYSCTLS.match(str(name)):
            yield f".{name}", name, "is a setting of the host's kernel"


def extra_hosts(value: Any, grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    """Ways to the host where the task has no network."""
    entries = [f"{key}={host}" for key, host in value.items()] if isinstance(value, dict) else value
    for entry in entries:
        if grounds.network == "none" and "host-gateway" in str(entry):
            reason = (
                "leads to the engine's machine, which a restricted network closes; a server "
                "there is let through with --harbor-endpoint host.docker.internal:PORT"
            )
            yield "", entry, reason


# The engine's own, without NET_RAW, and some that touch neither network nor machine.
_CAPABILITIES_WITHIN_A_POLICY = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "IPC_LOCK",
        "IPC_OWNER",
        "KILL",
        "LEASE",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
        "SYS_NICE",
        "SYS_RESOURCE",
    ]
)
# Judged elsewhere, or a risk for the machine's memory and build only.
_NO_WAYS_OUT = frozenset(
    ["build", "cap_add", "extra_hosts", "network_mode", "oom_kill_disable", "oom_score_adj"]
)


def rights_past_a_policy(
    service: Mapping[str, Any], grounds: Grounds
) -> Iterator[tuple[str, Any, str]]:
    """What would let a container undo or go round a restriction of its network.

    That is every right over the machine: its sockets, its files, how a container is confined.
    """
    for capability in service.get("cap_add") or ():
        name = str(capability).upper().removeprefix("CAP_")
        if name not in _CAPABILITIES_WITHIN_A_POLICY:
            accepted = ", ".join(sorted(_CAPABILITIES_WITHIN_A_POLICY))
            reason = f"can be a way round the network's policy; accepted with one: {accepted}"
            yield "cap_add", capability, reason
    for key, value in service.items():
        if key not in _NO_WAYS_OUT:
            for below, found, reason in service_key(key, value, grounds):
                yield key + below, found, f"{reason}; that can be a way round the network's policy"


def _oom_score(value: Any, _grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    if float(value) < 0:
        yield "", value, "spares the container when the host's memory is used up"


def _volumes_from(value: Any, _grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    for entry in value:
        if str(entry).startswith("container:"):
            yield "", entry, "uses a container of others"


def _volumes(value: Any, grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    for index, mount in enumerate(value):
        kind, source = mount.get("type"), str(mount.get("source") or "")
        if kind in ("volume", "tmpfs"):
            continue
        if kind != "bind":
            yield f"[{index}].type", kind, "accepted: volume, tmpfs, and binds of the task's files"
        elif source not in grounds.log_paths and not grounds.owns(source):
            yield f"[{index}].source", source, "mounts a path of the host, outside the task"


def _hooks(value: Any, _grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    for index, hook in enumerate(value):
        if hook.get("privileged"):
            yield f"[{index}].privileged", True, _REASONS["privileged"]


def _build(value: Any, grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    context = str(value.get("context") or "")
    for key, found in value.items():
        if key in _HARMLESS_BUILD_KEYS or key.startswith("x-") or found in (None, False, [], {}):
            continue
        if key == "context":
            if not Path(context).is_absolute() or not grounds.owns(context):
                yield ".context", context, "outside the task's folder"
        elif key == "dockerfile":
            if "dockerfile_inline" not in value and not grounds.owns(str(Path(context, found))):
                yield ".dockerfile", found, "outside the task's folder"
        elif key == "network":
            if found not in ("default", "none"):
                yield ".network", found, "builds in a network of the host; accepted: default, none"
        elif key == "additional_contexts":
            yield from _additional_contexts(found, grounds)
        else:
            yield f".{key}", found, "gives the build something of the host"


def _additional_contexts(value: Any, grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    for name, place in value.items():
        if str(place).startswith("docker-image://"):
            continue
        if not Path(place).is_absolute() or not grounds.owns(place):
            yield f".additional_contexts.{name}", place, "outside the task's folder"


def _deploy(value: Any, grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    for key, found in value.items():
        if key == "resources":
            yield from _resources(found, grounds)
        elif key not in _HARMLESS_DEPLOY_KEYS and found:
            yield f".{key}", found, UNKNOWN


def _resources(value: Any, grounds: Grounds) -> Iterator[tuple[str, Any, str]]:
    for kind in ("limits", "reservations"):
        for key, found in (value.get(kind) or {}).items():
            if key in ("cpus", "memory", "pids") or not found:
                continue
            if key == "devices" and grounds.gpus and all(_is_gpu(each) for each in found):
                continue
            yield f".resources.{kind}.{key}", found, _REASONS["gpus"]


def _is_gpu(device: Mapping[str, Any]) -> bool:
    return device.get("driver") == "nvidia" and "gpu" in (device.get("capabilities") or ())


_SERVICE_CHECKS: Mapping[str, Check] = {
    "build": _build,
    "cgroup": _namespace("private"),
    "deploy": _deploy,
    "extra_hosts": extra_hosts,
    "ipc": _namespace("private", "shareable", "none"),
    "network_mode": _namespace("none", "bridge", "default"),
    "oom_score_adj": _oom_score,
    "pid": _namespace("private"),
    "post_start": _hooks,
    "pre_stop": _hooks,
    "security_opt": _security_opt,
    "sysctls": _sysctls,
    "uts": _namespace(),
    "volumes": _volumes,
    "volumes_from": _volumes_from,
}
