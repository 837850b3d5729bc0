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
