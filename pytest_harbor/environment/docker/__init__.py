"""The Docker backend: one container per trial; nothing else imports the SDK.

The names below are imported on demand, since the SDK takes a tenth of a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_harbor.environment.docker.client import Engine
    from pytest_harbor.environment.docker.container import DockerEnvironment
    from pytest_harbor.environment.docker.reaper import remove_owner, remove_run, sweep_dead
    from pytest_harbor.environment.docker.spec import ContainerSpec

__all__ = [
    "ContainerSpec",
    "DockerEnvironment",
    "Engine",
    "remove_owner",
    "remove_run",
    "sweep_dead",
]

_HOMES = {
    "ContainerSpec": "spec",
    "DockerEnvironment": "container",
    "Engine": "client",
    "remove_owner": "reaper",
    "remove_run": "reaper",
    "sweep_dead": "reaper",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
