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

    def removal(self, *more: str) -> str:
        """The commands; with further containers."""
        containers = (*more, *self.containers)
        commands = [f"docker rm -f -v {' '.join(containers)}"] if containers else []
        if self.networks:
            commands.append(f"docker network rm {' '.join(self.networks)}")
        return "; ".join(commands)
