"""One thing found in the data of a ``task.toml``, before it has a file and a line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Location = tuple[str | int, ...]
"""Keys and list positions that lead from the root of the file to a value."""

MAX_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with one field.

    Attributes:
        location: The field.
        message: What was found, what is accepted, what to do.
        severity: ``"error"`` or ``"warning"``, as of :class:`pytest_harbor.errors.Problem`.
        code: Stable name of its kind, as there.
    """

    location: Location
    message: str
    severity: str = "warning"
    code: str = "doubtful-field"


def field_path(location: Location) -> str:
    """The dotted form, as ``steps[0].agent.timeout_sec``."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def table_name(location: Location) -> str:
    """The header under which the fields of a table stand, as ``[steps.agent]``."""
    keys = ".".join(part for part in location if isinstance(part, str))
    return f"[[{keys}]]" if location and isinstance(location[-1], int) else f"[{keys}]"


def shown(value: Any) -> str:
    """``value`` as it may stand in a message: quoted, and short whatever it is."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = _bounded_repr(value)
    if len(text) > MAX_SHOWN_CHARACTERS:
        return text[: MAX_SHOWN_CHARACTERS - 1] + "…"
    return text


def nearest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean …?)`` with the known word that is most like ``word``, or nothing."""
    close = difflib.get_close_matches(word.lower()[:MAX_SHOWN_CHARACTERS], list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _bounded_repr(value: Any) -> str:
    if isinstance(value, str):
        return repr(value[:MAX_SHOWN_CHARACTERS])
    if isinstance(value, list):
        inside = ", ".join(shown(entry) for entry in value[:5])
        return f"[{inside}, …]" if len(value) > 5 else f"[{inside}]"
    return str(value)
