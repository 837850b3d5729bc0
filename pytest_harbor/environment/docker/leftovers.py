"""Everything of ours on an engine, with its age and whose it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pytest_harbor.environment.docker.client import (
    FORK_LABEL,
    LABEL,
    OWNER_LABEL,
    RUN_LABEL,
    Engine,
)
from pytest_harbor.environment.docker.naming import is_guard, is_kept
from pytest_harbor.environment.docker.owner import Owner
from pytest_harbor.errors import EngineUnavailableError, EnvironmentFault

Kind = Literal["container", "guard", "network", "volume", "copy", "image"]
OwnerState = Literal["alive", "dead", "unknown"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing on the engine.

    Attributes:
        kind: What it is; a guard is a container that holds rules for others, a copy an image
            of a box's files, an image one that was built to be used again.
        name: For people.
        id: By which the engine removes it.
        run: The run that made it; empty where that is not known.
        created: When, in seconds of the epoch; 0 where that is not known.
        owner: Whether the process that made it lives.
        size: Bytes, of an image with those that it shares with others; None elsewhere.
        is_kept: Kept for a person.
    """

    kind: Kind
    name: str
    id: str
    run: str
    created: float
    owner: OwnerState
    size: int | None = None
    is_kept: bool = False


def leftovers(engine: Engine) -> list[Leftover]:
    """Everything of ours, in the order in which it can be removed."""
    with engine.errors("listing what runs left", EnvironmentFault, EngineUnavailableError):
        found = [*_containers(engine), *_networks(engine), *_volumes(engine), *_images(engine)]
    return sorted(found, key=lambda one: _ORDER.index(one.kind))


_ORDER: tuple[Kind, ...] = ("container", "guard", "network", "volume", "copy", "image")


def _containers(engine: Engine) -> Iterator[Leftover]:
    for one in engine.api.containers(all=True, filters=_OURS):
        name = (one["Names"] or [one["Id"]])[0].lstrip("/")
        kind: Kind = "guard" if is_guard(name) else "container"
        labels = one["Labels"] or {}
        yield Leftover(
            kind, name, one["Id"], *_origin(labels, one["Created"]), is_kept=is_kept(name)
        )


def _networks(engine: Engine) -> Iterator[Leftover]:
    for one in engine.api.networks(filters=_OURS):
        labels = one.get("Labels") or {}
        yield Leftover("network", one["Name"], one["Id"], *_origin(labels, one.get("Created")))


def _volumes(engine: Engine) -> Iterator[Leftover]:
    for one in engine.api.volumes(filters=_OURS)["Volumes"] or ():
        labels = one.get("Labels") or {}
        yield Leftover("volume", one["Name"], one["Name"], *_origin(labels, one.get("CreatedAt")))


def _images(engine: Engine) -> Iterator[Leftover]:
    for one in engine.api.images(filters=_OURS):
        labels = one.get("Labels") or {}
        kind: Kind = "copy" if FORK_LABEL in labels else "image"
        # By each of its names: the engine refuses the id of an image that has several.
        for name in one.get("RepoTags") or [one["Id"]]:
            identity = one["Id"] if name == "<none>:<none>" else name
            origin = _origin(labels, one["Created"])
            yield Leftover(kind, identity, identity, *origin, size=one["Size"])


_OURS = {"label": f"{LABEL}=1"}


def _origin(labels: Mapping[str, str], created: Any) -> tuple[str, float, OwnerState]:
    return labels.get(RUN_LABEL, ""), _seconds(created), _owner_state(labels.get(OWNER_LABEL, ""))


def _owner_state(label: str) -> OwnerState:
    owner = Owner.parse(label)
    if owner is None:
        return "unknown"
    if owner.is_dead():
        return "dead"
    return "alive" if owner.is_alive() else "unknown"


def _seconds(created: Any) -> float:
    if isinstance(created, int | float):
        return float(created)
    try:
        # The engine writes nanoseconds; Python reads what it can of them.
        return datetime.fromisoformat(str(created)).timestamp()
    except ValueError:
        return 0.0
