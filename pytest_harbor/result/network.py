"""Connections that a network policy refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RefusedConnection:
    """One destination that was refused, and how often.

    Attributes:
        destination: A host name where one was given, else an IP address.
        protocol: ``tcp``, ``udp``, ``icmp``, ``dns`` (a name that was asked for), or the
            number of another protocol.
        port: Of the destination; None for a protocol without ports.
        count: How many tries.
    """

    destination: str
    protocol: str
    port: int | None = None
    count: int = 1

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return f"{self.destination}{port} ({self.protocol})"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "destination": self.destination,
            "port": self.port,
            "protocol": self.protocol,
            "count": self.count,
        }


@dataclass(frozen=True, slots=True)
class PhaseRefusals:
    """What was refused while one phase of a trial ran.

    Attributes:
        phase: ``environment``, ``agent_setup``, ``agent`` or ``verifier``.
        step: The step's name; empty in a single-step task and before the first step.
        refused: Destinations, the most often refused first.
        more: Tries to reach further destinations, which are not listed.
    """

    phase: str
    step: str
    refused: tuple[RefusedConnection, ...]
    more: int = 0

    @property
    def count(self) -> int:
        """Tries in all."""
        return sum(one.count for one in self.refused) + self.more
