"""Which processes of a container were started since a moment, as the engine's machine sees them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pytest_harbor.environment.base import RunningProcess
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.errors import EnvironmentFault, EnvironmentLostError

PS_ARGS = "-eo pid,ppid,lstart,stat,args"
_FIELDS_BEFORE_COMMAND = 8
_STARTED = "%a %b %d %H:%M:%S %Y"

_KEEPALIVE_CHILD = "sleep infinity"
_KEEPALIVE_SEC = 1
_KEEPALIVE_LOOKS = 20
_KEEPALIVE_PAUSE_SEC = 0.05


@dataclass(frozen=True, slots=True)
class Seen:
    """One line of ``ps``; ids are used again, so the start time belongs to the identity."""

    pid: int
    parent: int
    started: str
    state: str
    command: str

    @classmethod
    def parse(cls, line: str) -> Seen:
        """Read one line."""
        pid, parent, *started, state = line.split(maxsplit=_FIELDS_BEFORE_COMMAND)[:8]
        command = line.split(maxsplit=_FIELDS_BEFORE_COMMAND)[8:]
        return cls(int(pid), int(parent), " ".join(started), state, "".join(command))

    @property
    def is_dead(self) -> bool:
        """Nothing of it runs: where the first thread has ended others (``l``) may go on."""
        return self.state.startswith(("Z", "X")) and "l" not in self.state

    @property
    def key(self) -> tuple[int, str]:
        """Its identity."""
        return self.pid, self.started


class ProcessWatch:
    """Tells what was started in a container since :meth:`begin`."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container
        self._known: frozenset[tuple[int, str]] | None = None

    def begin(self, *, beside_keepalive: bool) -> None:
        """Take all that live now for known.

        Args:
            beside_keepalive: What this package starts a container with is among them, and may
                be on its way yet. Later its place could be taken by another of its name.
        """
        seen = self._look()
        for _ in range(_KEEPALIVE_LOOKS if beside_keepalive else 0):
            if seen is None or len(seen) > 1:
                break
            time.sleep(_KEEPALIVE_PAUSE_SEC)
            seen = self._look()
        self._known = None if seen is None else frozenset(each.key for each in seen.values())

    def started_since(self) -> list[RunningProcess] | None:
        """What lives and is not known, by process id; None where the engine cannot tell."""
        seen = self._look()
        if seen is None:
            return None
        known = _keepalive(seen) if self._known is None else self._known
        return [
            RunningProcess(each.pid, each.parent, each.command)
            for _, each in sorted(seen.items())
            if each.key not in known and not each.is_dead
        ]

    def _look(self) -> Mapping[int, Seen] | None:
        # Podman runs the container's own `ps`, which is the agent's to change.
        if self._engine.is_podman:
            return None
        doing = f"looking at the processes of {self._container}"
        try:
            with self._engine.errors(doing, _NotToldError, EnvironmentLostError):
                answer = self._engine.api.top(self._container, ps_args=PS_ARGS)
        except _NotToldError:
            return None  # the engine's machine has no ps, or one that knows less
        try:
            lines = [Seen.parse(" ".join(fields)) for fields in answer["Processes"] or ()]
        except ValueError:
            return None
        return {each.pid: each for each in lines}


class _NotToldError(EnvironmentFault):
    pass


def _keepalive(seen: Mapping[int, Seen]) -> frozenset[tuple[int, str]]:
    """The first process of a container of ours, and the ``sleep`` that it waits for.

    A process that calls itself so counts only if it started with the first one: another
    is handed to the first process when its parent ends, and may call itself anything.
    """
    known = set()
    for first in seen.values():
        if first.parent in seen:
            continue
        known.add(first.key)
        waited = [
            each
            for each in seen.values()
            if each.parent == first.pid
            and each.command == _KEEPALIVE_CHILD
            and _started_together(first, each)
        ]
        known |= {each.key for each in sorted(waited, key=lambda each: each.pid)[:1]}
    return frozenset(known)


def _started_together(first: Seen, other: Seen) -> bool:
    try:
        apart = datetime.strptime(other.started, _STARTED) - datetime.strptime(
            first.started, _STARTED
        )
    except ValueError:
        return False
    return apart <= timedelta(seconds=_KEEPALIVE_SEC)
