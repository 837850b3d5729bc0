"""How long each phase of a trial may take (``format/trial-lifecycle.md``, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_harbor.task.config import TaskConfig


@dataclass(frozen=True, slots=True)
class Multipliers:
    """Factors on a task's time limits; a phase's own replaces the general one."""

    every: float = 1.0
    build: float | None = None
    setup: float | None = None
    agent: float | None = None
    verifier: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for each phase; None: no limit."""

    build: float | None
    setup: float | None
    agent: float | None
    verifier: float | None


def phase_limits(config: TaskConfig, factors: Multipliers, setup_sec: float) -> Limits:
    """The limits of a single-step trial.

    Args:
        config: The task's configuration.
        factors: What the run multiplies them by.
        setup_sec: The agent's own limit for its set-up.
    """

    def scaled(base: float | None, own: float | None) -> float | None:
        if base is None:
            return None
        return base * (factors.every if own is None else own)

    return Limits(
        build=scaled(config.environment.build_timeout_sec, factors.build),
        setup=scaled(setup_sec, factors.setup),
        agent=scaled(config.agent.timeout_sec, factors.agent),
        verifier=scaled(config.verifier.timeout_sec, factors.verifier),
    )
