"""What stays on the engine for a person, and how it goes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """What a person has to remove who is done with a box that was kept.

    Attributes:
        containers: Names of them.
        networks: Names of them, free once the containers are gone.
    """

    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
