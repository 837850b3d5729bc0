"""What the restrictions of all protocols share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pytest_harbor.task.network import NetworkPolicy

Json = dict[str, Any]
_NOTED_CHARS = 60


class UnrestrictableError(Exception):
    """A request that cannot be made to fit the policy; the message is for the agent."""


@dataclass(slots=True)
class Restriction:
    """A policy, and what was changed so far to keep a request to it."""

    policy: NetworkPolicy
    filters_hold: bool = False
    notes: list[str] = field(default_factory=list)

    def note(self, what: str, kind: object = None) -> None:
        """Say that something was changed."""
        self.notes.append(what if kind is None else f"{what} {str(kind)[:_NOTED_CHARS]!r}")


def words(text: str) -> frozenset[str]:
    """The words of a table's line."""
    return frozenset(text.split())


def known_fields(body: Json, known: frozenset[str], restriction: Restriction) -> Json:
    """The body with the fields that are known; some of the others reach the web."""
    kept = {name: value for name, value in body.items() if name in known}
    for name in body:
        if name not in kept:
            restriction.note("removed the field", name)
    return kept


def list_at(body: Json, name: str) -> list[Any]:
    """The list in a field; none counts as empty."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise UnrestrictableError(f"{name} is not a list")
    return value


def is_object(value: object) -> bool:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def kind_of(value: object) -> str:
    """The ``type`` of a JSON object; empty where it has none or one that is no string."""
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


def replace_list(body: Json, name: str, items: list[Any]) -> Json:
    """The body with another list in a field; without the field if the list is empty."""
    if items:
        return {**body, name: items}
    return {key: value for key, value in body.items() if key != name}


def without(body: Json, *names: str) -> Json:
    """The body without some of its fields."""
    return {key: value for key, value in body.items() if key not in names}


def is_data_url(value: object) -> bool:
    """Whether a URL holds what it points to, so that nobody has to fetch it."""
    return isinstance(value, str) and value[:5].lower() == "data:"


def restricted_content(content: Any, part: Callable[[Any], Any]) -> Any:
    """A message's content: a string as it is, of a list each part restricted."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        return [part(one) for one in content]
    raise UnrestrictableError("a message's content is neither a string nor a list")


def removed_text(kind: object) -> str:
    """What stands in the place of a part that was taken out."""
    return f"[removed by the network policy of this trial: {str(kind)[:_NOTED_CHARS]}]"
