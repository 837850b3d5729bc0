"""What a run's options name on the engine, looked for before the first trial."""

from __future__ import annotations

from collections.abc import Iterable

from docker.errors import APIError

from pytest_harbor.environment.docker.client import LABEL, Engine
from pytest_harbor.errors import EngineUnavailableError, OptionError

_MAX_LISTED = 20
_LEADING_NOWHERE = {"host": "is the machine's own", "null": "leads nowhere"}


def require_named(engine: Engine, *, uplink: str | None, runtime: str | None) -> None:
    """See that the engine has what the run's options name.

    Args:
        engine: The engine.
        uplink: Network of ``--harbor-uplink``; None: not asked for.
        runtime: Runtime of ``--harbor-runtime``; None: not asked for.

    Raises:
        OptionError: It lacks one, or the network is no uplink; says what it has.
        EngineUnavailableError: It does not answer.
    """
    faults = (_uplink_fault(engine, uplink), runtime_fault(engine, runtime))
    if any(faults):
        raise OptionError("; ".join(filter(None, faults)))


def runtime_fault(engine: Engine, runtime: str | None) -> str:
    """What is wrong with the name of a runtime; empty: nothing."""
    known = engine.info.get("Runtimes") or {} if runtime else {}
    if runtime is None or runtime in known:
        return ""
    return (
        f"--harbor-runtime (ini: harbor_runtime) is {runtime!r}, a runtime that the engine does"
        f" not have; it has {_listed(known)}. gVisor's comes with its package and"
        " `runsc install`, then restart the engine; any other is to be named in the engine's"
        ' daemon.json under "runtimes"'
    )


def _uplink_fault(engine: Engine, uplink: str | None) -> str:
    if uplink is None:
        return ""
    option = f"--harbor-uplink (ini: harbor_uplink) is {uplink!r}"
    driver = _driver(engine, uplink)
    if driver is None:
        reason = "a network that the engine does not have"
    elif driver in _LEADING_NOWHERE:
        reason = f"which {_LEADING_NOWHERE[driver]}"
    else:
        return ""
    return (
        f"{option}, {reason}; it has {_listed(_uplinks(engine))}."
        f" `docker network create {uplink if driver is None else 'NAME'}` makes one"
    )


def _driver(engine: Engine, name: str) -> str | None:
    """Driver of a network; None where there is no such network."""
    with engine.errors(f"looking at the network {name!r}", EngineUnavailableError):
        try:
            return str(engine.api.inspect_network(name)["Driver"])
        except APIError as error:
            if error.status_code != 404:
                raise
            return None


def _uplinks(engine: Engine) -> list[str]:
    """The networks that may be an uplink; a run's own may be gone the next moment."""
    with engine.errors("listing the engine's networks", EngineUnavailableError):
        found = engine.api.networks()
    return [
        each["Name"]
        for each in found
        if each.get("Driver") not in _LEADING_NOWHERE and LABEL not in (each.get("Labels") or {})
    ]


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _MAX_LISTED
    shown = [*ordered[:_MAX_LISTED], *([f"{more} more"] if more > 0 else [])]
    return ", ".join(shown) or "none"
