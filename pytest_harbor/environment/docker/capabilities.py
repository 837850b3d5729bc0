"""What this engine can do, asked before anything is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.policies import means_for
from pytest_harbor.environment.docker.run_check import runtime_fault
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.errors import OptionError, UnsupportedError
from pytest_harbor.task.network import HOST_MACHINE, NetworkPolicy

NO_IPV6 = {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}

_MIB = 1024 * 1024

# Under these a container's processes and files are the machine's own. Others have a kernel or
# files of their own, which nothing outside sees.
_SHARING_RUNTIMES = {"runc", "crun", "youki", "nvidia", "oci", "io.containerd.runc.v2"}


def check(engine: Engine, spec: ContainerSpec) -> None:
    """Raise where the engine cannot give what ``spec`` asks.

    Raises:
        UnsupportedError: What the task asks.
        OptionError: What the run's options name.
    """
    require(engine, spec.gpus, "[environment]")
    require_runtime(engine, spec.runtime)
    require_policies(engine, spec.network)


def require(engine: Engine, gpus: int, where: str) -> None:
    """Raise UnsupportedError where the engine cannot run Linux containers with these GPUs.

    Args:
        engine: The engine.
        gpus: How many are asked for.
        where: The table that asks, as ``[environment]``.
    """
    info = engine.info
    if info.get("OSType") != "linux":
        raise UnsupportedError(
            f"the engine runs {info.get('OSType')} containers; "
            "switch it to Linux containers, or choose another with DOCKER_HOST"
        )
    if gpus and not _has_gpus(info):
        raise UnsupportedError(
            f"the task asks for {gpus} GPU(s), {where}.gpus, and the engine has no "
            f"nvidia runtime (it has {', '.join(sorted(info.get('Runtimes') or {}))}); "
            "install the NVIDIA container toolkit on its machine"
        )


def require_runtime(engine: Engine, runtime: str | None) -> None:
    """Raise OptionError where the engine does not know a runtime."""
    if fault := runtime_fault(engine, runtime):
        raise OptionError(fault)


def is_seen_from_outside(engine: Engine, runtime: str | None) -> bool:
    """Whether the engine sees the processes and files of a container of this runtime."""
    used = runtime or engine.info.get("DefaultRuntime") or "runc"
    return used in _SHARING_RUNTIMES


def require_seen_from_outside(engine: Engine, runtime: str | None, name: str) -> None:
    """Raise UnsupportedError where a container can be neither entered nor copied from outside."""
    if not is_seen_from_outside(engine, runtime):
        raise UnsupportedError(
            f"{name} runs under {runtime or engine.info['DefaultRuntime']!r}, whose processes and"
            " files the engine does not see, so it can be neither entered nor copied from outside;"
            " run it without --harbor-runtime, or give the task a verifier environment of its own"
        )


def require_policies(engine: Engine, policies: Sequence[NetworkPolicy]) -> None:
    """Raise UnsupportedError where the engine cannot hold a container to these policies."""
    means = means_for(policies)
    if means in ("switched", "gateway") and engine.is_podman:
        raise UnsupportedError(
            "on Podman a box is either open or without network from its start to its end: its "
            "networks cannot be made to obey a gateway, and a change was not proved to hold; "
            "run the task on Docker"
        )


def confinement(spec: ContainerSpec) -> dict[str, Any]:
    """What a container may not do, as the engine takes it."""
    settings: dict[str, Any] = {}
    if spec.is_restricted:
        # Raw frames go past every rule that looks at addresses.
        settings["CapDrop"] = ["NET_RAW"]
    if means_for(spec.network) == "gateway":
        # The gateway speaks the older protocol alone; so nothing waits for the newer one.
        settings["Sysctls"] = dict(NO_IPV6)
        # Else a name that leads nowhere is asked for again below each of the machine's domains.
        settings["DnsSearch"] = ["."]
    if spec.hardened:
        settings["SecurityOpt"] = ["no-new-privileges"]
    if spec.runtime:
        settings["Runtime"] = spec.runtime
    return settings


def extra_hosts(spec: ContainerSpec) -> list[str]:
    """The name of the engine's machine, where a policy has an endpoint there.

    Beside a gateway the name is the gateway's to answer, with an address of its own.
    """
    ends = (end.host for policy in spec.network for end in policy.endpoints)
    if HOST_MACHINE not in ends or means_for(spec.network) == "gateway":
        return []
    return [f"{HOST_MACHINE}:host-gateway"]


def _has_gpus(info: Mapping[str, Any]) -> bool:
    """By a runtime's name, or, where the engine looks for devices itself, by a device's."""
    devices = info.get("DiscoveredDevices") or ()
    return "nvidia" in (info.get("Runtimes") or {}) or any(
        str(device.get("ID", "")).startswith("nvidia.com/gpu") for device in devices
    )


def host_resources(engine: Engine, spec: ContainerSpec) -> tuple[dict[str, Any], list[str]]:
    """Limits as the engine takes them, and notes on what differs from what was asked."""
    limits: dict[str, Any] = {"PidsLimit": spec.pids_limit}
    notes: list[str] = []
    if spec.cpus:
        limits["NanoCpus"] = int(_granted_cpus(engine, spec.cpus, notes) * 1_000_000_000)
    if spec.memory_mb:
        # Without the same limit for memory and swap together, the engine adds as much swap again.
        limits["Memory"] = limits["MemorySwap"] = spec.memory_mb * _MIB
    if spec.storage_mb:
        if can_limit_storage(engine.info):
            limits["StorageOpt"] = {"size": f"{spec.storage_mb}M"}
        else:
            notes.append(
                f"storage is not limited to {spec.storage_mb} MB: the engine's storage driver "
                f"({engine.info.get('Driver')}) cannot"
            )
    if spec.gpus:
        device = {"Driver": "nvidia", "Count": spec.gpus, "Capabilities": [["gpu"]]}
        limits["DeviceRequests"] = [device]
        if spec.gpu_types:
            kinds = ", ".join(spec.gpu_types)
            notes.append(f"which GPU it is was not looked at: the task asks for {kinds}")
    return limits, notes


def _granted_cpus(engine: Engine, wanted: float, notes: list[str]) -> float:
    """No more than the engine has: it refuses the container otherwise."""
    available = float(engine.info.get("NCPU") or wanted)
    if wanted <= available:
        return wanted
    notes.append(f"the task asks for {wanted:g} cpus, the engine has {available:g}: all are given")
    return available


def can_limit_storage(info: Mapping[str, Any]) -> bool:
    """Whether a container's root file system can be given a size."""
    # Not overlay2: it counts by xfs's project quotas, and whether they are on is told only by
    # trying. A refused container costs more than a missing limit, which Harbor lacks as well.
    return info.get("Driver") in ("btrfs", "zfs", "devicemapper")
