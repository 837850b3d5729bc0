"""How long each phase of a trial may take (``format/trial-lifecycle.md``, section 4)."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Multipliers:
    """Factors on a task's time limits; a phase's own replaces the general one."""

    every: float = 1.0
    build: float | None = None
    setup: float | None = None
    agent: float | None = None
    verifier: float | None = None
    none: bool = False
    """No limit at all, whatever the task says."""

    def as_json(self) -> dict[str, float]:
        """The factors of single phases, by Harbor's names, where they are not the general one."""
        own = {
            "agent_timeout_multiplier": self.agent,
            "verifier_timeout_multiplier": self.verifier,
            "agent_setup_timeout_multiplier": self.setup,
            "environment_build_timeout_multiplier": self.build,
        }
        return {name: x for name, x in own.items() if x is not None and x != self.every}

    def scaled(self, base: float | None, own: float | None) -> float | None:
        """A limit in seconds; None: no limit.

        Args:
            base: What the task says.
            own: The phase's factor, one of this object's.
        """
        if base is None or self.none:
            return None
        limit = base * (self.every if own is None else own)
        # Nothing waits longer than this, so it is no limit either; `inf` least of all.
        return limit if limit < threading.TIMEOUT_MAX else None
