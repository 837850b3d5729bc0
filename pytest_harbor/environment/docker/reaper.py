"""Removing what runs left on the engine, and nothing that anybody still needs.

A container, network, volume or copy of a box's files is taken only if its labels say that
it is ours and whose.
Containers whose name says that they are kept stay until they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from docker.errors import APIError

from pytest_harbor.environment.docker.client import (
    FORK_LABEL,
    LABEL,
    OWNER_LABEL,
    RUN_LABEL,
    Engine,
    explanation,
)
from pytest_harbor.environment.docker.container import remove_container
from pytest_harbor.environment.docker.naming import is_guard, is_kept
from pytest_harbor.environment.docker.owner import Owner
from pytest_harbor.errors import EngineUnavailableError, EnvironmentFault

_GONE = 404
_GUARD_ENDS_SEC = 3
_IN_USE = (
    "has active endpoints",
    "volume is in use",
    "already in progress",
    "image is being used",
    "image has dependent child images",
    "is using its referenced image",
)


@dataclass(frozen=True, slots=True)
class Removed:
    """What a sweep took away, by name.

    Attributes:
        containers: Containers, their anonymous volumes with them.
        networks: Networks.
        volumes: Named volumes.
    """

    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.containers or self.networks or self.volumes)


@dataclass(frozen=True, slots=True)
class _Thing:
    name: str
    id: str
    labels: Mapping[str, str]

    @property
    def run_id(self) -> str:
        return self.labels.get(RUN_LABEL, "")

    @property
    def owner(self) -> Owner | None:
        return Owner.parse(self.labels.get(OWNER_LABEL, ""))


def sweep_dead(engine: Engine) -> Removed:
    """Remove what belongs to processes that are dead for certain.

    Another machine's, another pid namespace's and this run's living processes' things
    stay. Safe to be run by any number of processes at a time.
    """

    def is_dead(thing: _Thing) -> bool:
        return thing.owner is not None and thing.owner.is_dead()

    return _remove(engine, is_dead)


def remove_run(engine: Engine, run_id: str, *, kept: bool = False) -> Removed:
    """Remove everything of one run, at its end.

    Args:
        engine: Where it is.
        run_id: Whose things.
        kept: Kept containers as well.
    """
    return _remove(engine, lambda thing: thing.run_id == run_id, kept=kept)


def remove_owner(engine: Engine, pid: int) -> Removed:
    """Remove the containers of one process of this run, as of a worker that crashed.

    The run's network stays: its other processes use it.
    """

    def is_its(thing: _Thing) -> bool:
        owner = thing.owner
        return thing.run_id == engine.run_id and owner is not None and owner.pid == pid

    return Removed(containers=_remove_containers(engine, is_its, kept=False))


def remove_leftover(engine: Engine, kind: str, identity: str) -> bool:
    """Remove one thing of ours.

    Args:
        engine: Where it is.
        kind: ``"container"``, ``"guard"``, ``"network"``, ``"volume"``, ``"copy"`` or ``"image"``.
        identity: By which the engine knows it.

    Returns:
        False where something still uses it, or it was gone.
    """
    ways: dict[str, Callable[[str], object]] = {
        "container": partial(remove_container, engine),
        "guard": partial(_end_guard, engine),
        "network": partial(_remove_network, engine),
        "volume": engine.api.remove_volume,
    }
    remove = ways.get(kind, engine.api.remove_image)
    with engine.errors(f"removing {identity}", EnvironmentFault, EngineUnavailableError):
        try:
            _remove_one(identity, remove)
        except _Spared:
            return False
    return True


def _remove(engine: Engine, matches: Callable[[_Thing], bool], *, kept: bool = False) -> Removed:
    """Containers first: they hold on to the others."""
    containers = _remove_containers(engine, matches, kept=kept)
    with engine.errors("removing what a run left", EnvironmentFault, EngineUnavailableError):
        networks = _remove_each(_networks(engine), matches, partial(_remove_network, engine))
        volumes = _remove_each(_volumes(engine), matches, engine.api.remove_volume)
        _remove_each(_forked_images(engine), matches, engine.api.remove_image)
    return Removed(containers, networks, volumes)


def _remove_containers(
    engine: Engine, matches: Callable[[_Thing], bool], *, kept: bool
) -> tuple[str, ...]:
    def wanted(thing: _Thing) -> bool:
        return matches(thing) and (kept or not is_kept(thing.name))

    def guards(thing: _Thing) -> bool:
        return wanted(thing) and is_guard(thing.name)

    with engine.errors("removing what a run left", EnvironmentFault, EngineUnavailableError):
        found = _containers(engine)
        others = [thing for thing in found if not is_guard(thing.name)]
        removed = _remove_each(others, wanted, partial(remove_container, engine))
        # Last, for as long as a box runs the machine is kept from it.
        return removed + _remove_each(found, guards, partial(_end_guard, engine))


def _end_guard(engine: Engine, identity: str) -> None:
    """Let it remove its rules by itself, which an old kernel does not do for it."""
    with suppress(APIError):  # removed it is in any case
        engine.api.stop(identity, timeout=_GUARD_ENDS_SEC)
    remove_container(engine, identity)


def _remove_each(
    things: list[_Thing], matches: Callable[[_Thing], bool], remove: Callable[[str], object]
) -> tuple[str, ...]:
    removed = []
    for thing in filter(matches, things):
        with suppress(_Spared):
            _remove_one(thing.id, remove)
            removed.append(thing.name)
    return tuple(removed)


class _Spared(Exception):
    pass


def _remove_one(identity: str, remove: Callable[[str], object]) -> None:
    try:
        remove(identity)
    except APIError as error:
        words = explanation(error)
        # Two at once: the engine loses the image between its look and its work.
        gone = error.status_code == _GONE or "unrecognized image ID" in words
        if gone or any(phrase in words for phrase in _IN_USE):
            raise _Spared from error
        raise


def _remove_network(engine: Engine, identity: str) -> None:
    # A container that has stopped holds none of its networks, and starts no more without them.
    if engine.api.containers(all=True, filters={"network": identity}):
        raise _Spared
    engine.api.remove_network(identity)


def _filters() -> dict[str, Any]:
    return {"label": f"{LABEL}=1"}


def _containers(engine: Engine) -> list[_Thing]:
    found = engine.api.containers(all=True, filters=_filters())
    return [_Thing(_name(each), each["Id"], each["Labels"] or {}) for each in found]


def _name(container: Mapping[str, Any]) -> str:
    # A container that is being removed may have lost its name already.
    names = container["Names"] or [container["Id"]]
    return str(names[0]).lstrip("/")


def _networks(engine: Engine) -> list[_Thing]:
    found = engine.api.networks(filters=_filters())
    return [_Thing(each["Name"], each["Id"], each.get("Labels") or {}) for each in found]


def _volumes(engine: Engine) -> list[_Thing]:
    found = engine.api.volumes(filters=_filters())["Volumes"] or []
    return [_Thing(each["Name"], each["Name"], each.get("Labels") or {}) for each in found]


def _forked_images(engine: Engine) -> list[_Thing]:
    """Images of boxes' files; those that were built are of use to later runs."""
    found = engine.api.images(filters={"label": [f"{LABEL}=1", FORK_LABEL]})
    return [_Thing(each["Id"], each["Id"], each.get("Labels") or {}) for each in found]
