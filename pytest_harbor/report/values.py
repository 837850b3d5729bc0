"""Values of somebody else's JSON, taken for what they are or left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pytest_harbor.result.reward import as_float

MAX_NAME_CHARS = 300


def mapping(value: Any) -> Mapping[str, Any]:
    """An object; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> Sequence[Any]:
    """A list; an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def text(value: Any, limit: int = MAX_NAME_CHARS) -> str:
    """Text of at most ``limit`` characters; empty in place of anything else."""
    return cut(value, limit) if isinstance(value, str) else ""


def cut(value: str, limit: int) -> str:
    """The beginning of a text, and how much is not shown."""
    if len(value) <= limit:
        return value
    return f"{value[:limit]}… ({len(value) - limit:,} characters more)"


def number(value: Any) -> float | None:
    """A number, which may be infinite; None in place of anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    as_one = as_float(value)
    return None if math.isnan(as_one) else as_one


def finite(value: Any) -> float | None:
    """A finite number; None in place of anything else."""
    found = number(value)
    return found if found is not None and math.isfinite(found) else None


def count(value: Any) -> int:
    """A whole number from 0; 0 in place of anything else."""
    found = finite(value)
    return int(found) if found is not None and found > 0 else 0


def moment(value: Any) -> float | None:
    """Seconds since 1970 of an ISO 8601 time; one without a zone is local, as Harbor's are."""
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def stamp(seconds: float | None) -> str | None:
    """A time for files: ISO 8601, UTC."""
    if seconds is None:
        return None
    try:
        found = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
