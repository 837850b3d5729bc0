"""The configuration that is run: compose's resolved one, made the trial's own.

Pure: a resolved configuration and the trial's settings in, a configuration out.
"""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_harbor.environment.docker.compose_policy import replicas

MAIN = "main"
KEEPALIVE = ["sh", "-c", "sleep infinity || read -r _"]
LOG_VOLUME_PREFIX = "pytest-harbor-logs-"

# The engine keeps these logs itself, so that they can be saved, and no more of them.
_LOGGING = {"driver": "json-file", "options": {"max-size": "10m", "max-file": "1"}}
_RESERVED_LABELS = ("pytest-harbor", "com.docker.compose.")

# Without an address on the bridge the containers have no way to the host either; newer
# engines have a name of their own for that.
_CLOSED_NETWORK = {
    "com.docker.network.bridge.inhibit_ipv4": "true",
    "com.docker.network.bridge.gateway_mode_ipv4": "isolated",
}
# An address that is nowhere: the engine would hand on questions for other names on the
# containers' behalf, from a network that is not closed.
_NO_RESOLVER = {"dns": ["192.0.2.1"], "dns_search": [], "dns_opt": ["timeout:1", "attempts:1"]}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the trial adds to a task's configuration.

    Attributes:
        project: The project's name on the engine.
        labels: For every container, network and volume.
        env: Variables of ``main``, over those of the file.
        log_paths: Stand-in on this machine for each log folder in the containers.
        task_folder: Binds of paths below it become copies.
        network: ``public``: the project's networks lead outside; ``none``: they do not;
            ``gated``: neither do they, and each container is put on one that does.
        restricted: Some policy of the trial lets less through than everything.
        hardened: No program gains rights by its set-id bits.
        runtime: The engine's runtime; None: the file's.
        workdir: Working folder of ``main``, unless the file has one.
        cpus: Limit for ``main``, unless the file has one.
        memory_mb: The same in MiB.
        gpus: The same for GPUs.
        pids_limit: Most processes and threads of each container.
        max_cpus: What the engine has.
    """

    project: str
    labels: Mapping[str, str]
    env: Mapping[str, str]
    log_paths: Mapping[str, str]
    task_folder: Path
    network: str = "public"
    restricted: bool = False
    hardened: bool = False
    runtime: str | None = None
    workdir: str | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    gpus: int = 0
    pids_limit: int = 16_384
    max_cpus: float | None = None


@dataclass(frozen=True, slots=True)
class Copied:
    """A bind of the task's own files, which becomes a copy in the container.

    Attributes:
        service: Whose container.
        source: On this machine; made where it is missing, as an empty folder.
        target: In the container.
    """

    service: str
    source: Path
    target: str


@dataclass(slots=True)
class Adjusted:
    """A configuration to run.

    Attributes:
        model: What compose is given.
        copies: What has to be put into containers before they start.
        notes: What differs from the task's file, one sentence each.
    """

    model: dict[str, Any]
    copies: list[Copied] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def services(self) -> list[str]:
        """Names of the services beside ``main``."""
        return [name for name in self.model["services"] if name != MAIN]


def base_file(build_folder: Path, image: str | None) -> dict[str, Any]:
    """What a task's compose file is laid over: ``main``, kept alive by its command."""
    source: dict[str, Any] = {"image": image} if image else {"build": {"context": "${CONTEXT_DIR}"}}
    return {"services": {MAIN: {**source, "command": KEEPALIVE, "stdin_open": True}}}


def adjust(resolved: Mapping[str, Any], settings: Settings) -> Adjusted:
    """Make a resolved configuration the trial's own."""
    result = Adjusted(copy.deepcopy(dict(resolved)))
    result.model["name"] = settings.project
    for name, service in result.model["services"].items():
        for change in (_single, _labelled, _limited, _confined, _mounted, _connected):
            change(name, service, settings, result)
    _finish_main(result.model["services"][MAIN], settings, result)
    _share_logs(result.model, settings)
    _networks(result.model, settings)
    _named(result.model, "volumes", settings)
    for kind in ("secrets", "configs"):
        _own_names(result.model, kind, settings)
    return result


def _single(name: str, service: dict[str, Any], settings: Settings, result: Adjusted) -> None:
    """Nothing that two trials at a time could not both have."""
    if service.pop("container_name", None):
        result.notes.append(f"service {name!r}: container_name is left out: trials run in parallel")
    if service.pop("ports", None):
        result.notes.append(
            f"service {name!r}: ports are not published on this machine; services reach each other"
        )
    for key in ("profiles", "develop", "pull_policy"):
        service.pop(key, None)
    if name == MAIN and replicas(service) != 1:
        service.pop("scale", None)
        service.get("deploy", {}).pop("replicas", None)
        result.notes.append("service 'main': there is one container of it, whatever its scale")
    service["logging"] = _LOGGING


def _labelled(_name: str, service: dict[str, Any], settings: Settings, _result: Adjusted) -> None:
    service["labels"] = {**_free_labels(service), **settings.labels}


def _free_labels(thing: Mapping[str, Any]) -> dict[str, Any]:
    """Labels of the task's that imitate nobody's."""
    labels = thing.get("labels") or {}
    return {key: value for key, value in labels.items() if not key.startswith(_RESERVED_LABELS)}


def _limits(service: Mapping[str, Any]) -> dict[str, Any] | None:
    """The newer place for limits; compose takes no older key beside it."""
    limits: dict[str, Any] | None = ((service.get("deploy") or {}).get("resources") or {}).get(
        "limits"
    )
    return limits


def _limited(name: str, service: dict[str, Any], settings: Settings, result: Adjusted) -> None:
    """A bound on processes, and no more cores than the engine grants."""
    limits = _limits(service)
    wanted = int((limits or {}).get("pids") or service.pop("pids_limit", 0) or 0)
    granted = wanted if 0 < wanted < settings.pids_limit else settings.pids_limit
    if limits is None:
        service["pids_limit"] = granted
    else:
        service.pop("pids_limit", None)
        limits["pids"] = granted
    for holder in (service, limits or {}):
        wanted_cpus = float(holder.get("cpus") or 0)
        if settings.max_cpus and wanted_cpus > settings.max_cpus:
            holder["cpus"] = settings.max_cpus
            result.notes.append(
                f"service {name!r} asks for {wanted_cpus:g} cpus, the engine has "
                f"{settings.max_cpus:g}: all are given"
            )


def _confined(_name: str, service: dict[str, Any], settings: Settings, _result: Adjusted) -> None:
    """No rights that would lead past a policy, and none that the run takes away."""
    if settings.restricted:
        kept = (drop for drop in service.get("cap_drop") or () if drop != "NET_RAW")
        service["cap_drop"] = [*kept, "NET_RAW"]
    if settings.hardened:
        options = service.get("security_opt") or ()
        kept = (option for option in options if not option.startswith("no-new-privileges"))
        service["security_opt"] = [*kept, "no-new-privileges:true"]
    if settings.runtime:
        service["runtime"] = settings.runtime


def _mounted(name: str, service: dict[str, Any], settings: Settings, result: Adjusted) -> None:
    """No folder of this machine: log folders are volumes, the task's files are copies."""
    mounts = []
    for mount in service.get("volumes") or ():
        source = str(mount.get("source") or "")
        if mount.get("type") != "bind":
            mounts.append(mount)
        elif source in settings.log_paths.values():
            mounts.append(_log_mount(source, mount["target"]))
        elif Path(source).resolve().is_relative_to(settings.task_folder.resolve()):
            result.copies.append(Copied(name, Path(source), mount["target"]))
            result.notes.append(
                f"service {name!r}: {mount['target']} holds a copy of the task's file or folder "
                f"{Path(source).name!r}, not a mount of it"
            )
        else:
            mounts.append(mount)
    if mounts:
        service["volumes"] = mounts
    else:
        service.pop("volumes", None)


def _log_mount(source: str, target: str) -> dict[str, Any]:
    return {"type": "volume", "source": LOG_VOLUME_PREFIX + Path(source).name, "target": target}


def _connected(_name: str, service: dict[str, Any], settings: Settings, _result: Adjusted) -> None:
    """Always on the project's networks: the engine's shared bridge is open to other trials."""
    if service.get("network_mode") in ("bridge", "default"):
        del service["network_mode"]
    if "network_mode" in service:
        return
    service.setdefault("networks", {"default": None})
    if settings.network == "none":
        service.update(_NO_RESOLVER)


def name_servers(
    model: dict[str, Any], servers: Sequence[str], options: Sequence[str] = ()
) -> None:
    """Give the gated services of an adjusted configuration the name servers outside."""
    for service in model["services"].values():
        if "network_mode" not in service:
            service["dns"] = list(servers)
            # No search list: the machine's domains are none of the box's, nor are the file's.
            service["dns_search"] = ["."]
            service["dns_opt"] = list(options)


def _finish_main(main: dict[str, Any], settings: Settings, result: Adjusted) -> None:
    main["environment"] = {**(main.get("environment") or {}), **settings.env}
    if settings.workdir and not main.get("working_dir"):
        main["working_dir"] = settings.workdir
    _limit_main(main, settings)
    if settings.gpus and not _requests_gpus(main):
        _add_gpus(main, settings.gpus)
    if settings.network == "none" and not result.services and "network_mode" not in main:
        for key in ("networks", *_NO_RESOLVER):
            main.pop(key, None)
        main["network_mode"] = "none"


def _limit_main(main: dict[str, Any], settings: Settings) -> None:
    """The task's limits, where its compose file says nothing of them."""
    limits = _limits(main)
    if limits is not None:
        if settings.cpus and not main.get("cpus"):
            limits.setdefault("cpus", settings.cpus)
        if settings.memory_mb and not main.get("mem_limit"):
            limits.setdefault("memory", f"{settings.memory_mb}m")
        return
    if settings.cpus:
        main.setdefault("cpus", settings.cpus)
    if settings.memory_mb and not main.get("mem_limit"):
        main["mem_limit"] = f"{settings.memory_mb}m"
        main.setdefault("memswap_limit", f"{settings.memory_mb}m")


def _requests_gpus(service: Mapping[str, Any]) -> bool:
    resources = (service.get("deploy") or {}).get("resources") or {}
    return bool((resources.get("reservations") or {}).get("devices") or service.get("gpus"))


def _add_gpus(service: dict[str, Any], count: int) -> None:
    resources = service.setdefault("deploy", {}).setdefault("resources", {})
    device = {"driver": "nvidia", "count": count, "capabilities": ["gpu"]}
    resources.setdefault("reservations", {})["devices"] = [device]


def _share_logs(model: dict[str, Any], settings: Settings) -> None:
    """A log folder that any service mounts is ``main``'s as well."""
    main = model["services"][MAIN]
    places = {LOG_VOLUME_PREFIX + Path(p).name: folder for folder, p in settings.log_paths.items()}
    mounts = [m for service in model["services"].values() for m in service.get("volumes") or ()]
    used = sorted(places.keys() & {str(mount.get("source")) for mount in mounts})
    targets = {posixpath.normpath(mount["target"]) for mount in main.get("volumes") or ()}
    for volume in used:
        model.setdefault("volumes", {})[volume] = {}
        if places[volume] not in targets:
            main.setdefault("volumes", []).append(
                {"type": "volume", "source": volume, "target": places[volume]}
            )


def _networks(model: dict[str, Any], settings: Settings) -> None:
    used = {
        name for service in model["services"].values() for name in service.get("networks") or ()
    }
    declared = model.get("networks") or {}
    model["networks"] = {name: dict(declared.get(name) or {}) for name in sorted(used)}
    _named(model, "networks", settings)
    if settings.network != "public":
        for network in model["networks"].values():
            network.update(internal=True, enable_ipv6=False, driver_opts=dict(_CLOSED_NETWORK))


def _named(model: dict[str, Any], kind: str, settings: Settings) -> None:
    _own_names(model, kind, settings)
    for thing in (model.get(kind) or {}).values():
        if not thing.get("external"):
            thing["labels"] = {**_free_labels(thing), **settings.labels}


def _own_names(model: dict[str, Any], kind: str, settings: Settings) -> None:
    """A name of the task's choice would be shared with other trials, and with others."""
    things = {name: dict(thing or {}) for name, thing in (model.get(kind) or {}).items()}
    for name, thing in things.items():
        if not thing.get("external"):
            thing["name"] = f"{settings.project}_{name}"
    if things:
        model[kind] = things
