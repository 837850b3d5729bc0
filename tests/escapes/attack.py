"""One attack: the rows that fit a policy, tried in a box, and what the servers saw of each."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .table import Escape


@dataclass
class Attack:
    """The rows of one box, with a token each."""

    rows: Sequence[Escape]
    tokens: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tokens = {row.name: f"esc{secrets.token_hex(7)[:13]}" for row in self.rows}

    def table(self, place: Mapping[str, Any]) -> dict[str, Any]:
        """What the probe gets."""
        rows = [
            {"name": row.name, "token": self.tokens[row.name], "way": row.way, "args": row.args,
             "alone": row.alone}
            for row in self.rows
        ]  # fmt: skip
        held = {row.name for row in self.rows if row.held}
        return {
            "place": dict(place),
            "rows": [row for row in rows if row["name"] not in held],
            "held": [row for row in rows if row["name"] in held],
        }

    def proofs(
        self,
        events: Iterable[Mapping[str, Any]],
        said: Mapping[str, str],
        allowed: Sequence[str] = (),
    ) -> dict[str, list[str]]:
        """Per row, what proves that it got out; nothing for one that did not."""
        seen = list(events)
        return {
            row.name: self._proof(row, seen, said.get(row.name, ""), allowed) for row in self.rows
        }

    def _proof(
        self, row: Escape, events: Sequence[Mapping[str, Any]], said: str, allowed: Sequence[str]
    ) -> list[str]:
        if row.proof == "said":
            return [said] if said.startswith("REACHED") else []
        mine = [event for event in events if self.tokens[row.name] in event["tokens"]]
        if row.proof == "request":
            mine = [
                event
                for event in mine
                if event["via"] == "http"
                and any(host.split(":")[0] not in allowed for host in event["hosts"])
            ]
        return [in_words(event) for event in mine]


def in_words(event: Mapping[str, Any]) -> str:
    """An event in one line."""
    return " ".join(f"{key}={value}" for key, value in event.items() if key != "tokens")
