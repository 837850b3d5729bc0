"""Log files as JSON, line by line, and the plain values in them, whatever they turn out to be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.result.trajectory_builder import TrajectoryBuilder
from pytest_harbor.result.trajectory_reader import load_json, read_bounded

MAX_LOG_BYTES = 256 * 1024**2
MAX_LINES = 200_000
_MOST = 2**53
_NO_TIME_BEFORE = 1e9  # seconds; smaller numbers count something else
_MILLISECONDS_FROM = 1e11


def json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The objects of a log, one a line; what is no object is passed over.

    Raises:
        TrajectoryFormatError: The log is larger than is read.
    """
    for number, line in enumerate(read_bounded(data, MAX_LOG_BYTES).splitlines()):
        if number >= MAX_LINES:
            return
        if not line.lstrip().startswith(b"{"):
            continue
        try:
            value = load_json(line)
        except TrajectoryFormatError:
            continue
        if isinstance(value, dict):
            yield value


def whole_document(data: bytes) -> dict[str, Any] | None:
    """The object that a file is as a whole; None: it is none."""
    try:
        value = load_json(read_bounded(data))
    except TrajectoryFormatError:
        return None
    return value if isinstance(value, dict) else None


def finished(builder: TrajectoryBuilder, agent: str) -> Trajectory:
    """The trajectory that was read.

    Raises:
        TrajectoryFormatError: Nothing was.
    """
    trajectory = builder.build()
    if trajectory is None:
        raise TrajectoryFormatError([f"holds no step in the form of {agent}"])
    return trajectory


def mapping(value: Any) -> Mapping[str, Any]:
    """An object, or an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Any]:
    """A list, or an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def word(value: Any, default: str = "") -> str:
    """Text, or ``default`` in place of anything else and of nothing."""
    return value if isinstance(value, str) and value else default


def count(value: Any) -> int | None:
    """A number of things; None in place of anything else."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= _MOST else None


def amount(value: Any) -> float | None:
    """A sum of money; None in place of anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= _MOST else None


def total(*values: int | None) -> int | None:
    """The sum of what is known; None: nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def when(value: Any) -> str | None:
    """A time as ISO 8601, from that or from seconds or milliseconds; None: it is none."""
    if isinstance(value, str):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            return None
        return value
    if not isinstance(value, int | float) or not _NO_TIME_BEFORE < value < _MOST:
        return None
    seconds = value / 1000 if value > _MILLISECONDS_FROM else value
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def arguments(value: Any) -> dict[str, Any]:
    """Arguments of a tool call; a model's may be JSON in text, and no object at all."""
    if isinstance(value, str):
        try:
            value = load_json(value.encode("utf-8", "replace"))
        except TrajectoryFormatError:
            return {"input": value}
    if isinstance(value, dict):
        return value
    return {} if value is None else {"input": value}


def text_of(value: Any) -> str:
    """Anything as text: text as it is, parts one after the other, the rest as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(text for one in value if (text := text_of(one)))
    if isinstance(value, Mapping):
        if isinstance(value.get("text"), str):
            return str(value["text"])
        if "image" in str(value.get("type")) or "inlineData" in value:
            return "[image]"
    return json.dumps(value, ensure_ascii=False, default=str)


def metrics(
    prompt: int | None = None,
    completion: int | None = None,
    cached: int | None = None,
    cost: float | None = None,
    **extra: Any,
) -> dict[str, Any] | None:
    """Metrics of a step; None: nothing is known."""
    known = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cached_tokens": cached,
        "cost_usd": cost,
    }
    found = {name: value for name, value in known.items() if value is not None}
    more = {name: value for name, value in extra.items() if value}
    return {**found, "extra": more} if found and more else found or None
