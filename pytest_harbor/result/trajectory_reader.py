"""A file or bytes → :class:`Trajectory`, or everything that is wrong with them.

What is read comes from a container that an agent had to itself: its size, its depth and
the number of its values are bounded before anything is made of them.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.result.trajectory import (
    PART_TYPES,
    TAGS,
    MisplacedError,
    Trajectory,
)
from pytest_harbor.task.finding import Location, field_path, nearest, shown

MAX_BYTES = 64 * 1024**2
MAX_CONTAINERS = 150_000
"""Objects and lists of a document; each costs memory and time far beyond its two bytes."""
MAX_COMMAS = 8_000_000
MAX_BRACKETS = 2_000_000
"""Of either kind, before anything is parsed: those within texts are among them."""
MAX_DEPTH = 100
MAX_PROBLEMS = 20
MAX_KEY_CHARS = 60

_EXPECTED = {
    "bool": "true or false",
    "dict": "an object",
    "finite": "a finite number",
    "float": "a number",
    "greater": "a larger number",
    "int": "a whole number",
    "list": "a list",
    "model": "an object",
    "none": "null or nothing",
    "string": "text",
}


def read_trajectory(source: Path | bytes) -> Trajectory:
    """Read and check a trajectory.

    Args:
        source: Its file, or its bytes.

    Raises:
        TrajectoryFormatError: It is none; says where, what was found and what is accepted.
    """
    return parse_trajectory(load_json(read_bounded(source)))


def parse_trajectory(value: Any) -> Trajectory:
    """Check plain JSON values.

    Raises:
        TrajectoryFormatError: They are no trajectory.
    """
    if not isinstance(value, dict):
        _refuse(f"expected an object, got {_shown(value)}")
    try:
        return Trajectory.model_validate(value)
    except ValidationError as error:
        raise TrajectoryFormatError(problems_of(error)) from None


def read_bounded(source: Path | bytes, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file, never of what a link leads to.

    Raises:
        TrajectoryFormatError: It cannot be read, or is larger than ``max_bytes``.
    """
    data = source if isinstance(source, bytes) else _file_bytes(source, max_bytes)
    if len(data) > max_bytes:
        _refuse(f"larger than {max_bytes // 1024**2} MiB, the most that is read")
    return data


def load_json(data: bytes) -> Any:
    """JSON as the standard has it: UTF-8, finite numbers, and no deeper than it needs to be.

    Raises:
        TrajectoryFormatError: It is not.
    """
    for mark, limit in ((b"{", MAX_BRACKETS), (b"[", MAX_BRACKETS), (b",", MAX_COMMAS)):
        if data.count(mark) > limit:
            _refuse(f"has more than {limit} {mark.decode()!r}, the most that is read")
    try:
        value = json.loads(
            data.decode("utf-8-sig"),
            parse_constant=_no_number,
        )
    except UnicodeDecodeError as error:
        _refuse(f"expected UTF-8, got the byte 0x{data[error.start]:02x} at {error.start}")
    except json.JSONDecodeError as error:
        _refuse(f"expected JSON: {error.msg} at line {error.lineno} column {error.colno}")
    except RecursionError:
        _refuse_depth()
    except ValueError:
        # Python reads no whole number of more digits than it has a limit for.
        _refuse("expected numbers of at most 4300 digits, got a longer one")
    _check_shape(value)
    return value


def problems_of(error: ValidationError) -> list[str]:
    """What the models found wrong, a line each: path, what was found, what is accepted."""
    details = error.errors(include_url=False)
    lines = [_line(one) for one in details[:MAX_PROBLEMS]]
    if more := len(details) - len(lines):
        lines.append(f"and {more} more")
    return lines


def _file_bytes(path: Path, max_bytes: int) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                _refuse("expected a regular file")
            return file.read(max_bytes + 1)
    except OSError as error:
        raise TrajectoryFormatError([f"cannot be read: {error.strerror}"]) from error


def _refuse(problem: str) -> NoReturn:
    raise TrajectoryFormatError([problem])


def _no_number(name: str) -> NoReturn:
    _refuse(f"expected JSON, which has no {name}")


def _refuse_depth() -> NoReturn:
    _refuse(f"is nested deeper than {MAX_DEPTH} levels, the most that is read")


def _check_shape(value: Any) -> None:
    """Go through all values: how deep they lie, how many they are, that they are finite."""
    level, containers = [[value]], 0
    for _ in range(MAX_DEPTH + 1):
        level = [below for one in level for below in _below(one)]
        containers += len(level)
        if containers > MAX_CONTAINERS:
            _refuse(f"has more than {MAX_CONTAINERS} objects and lists, the most that is read")
        if not level:
            return
    _refuse_depth()


def _below(container: Any) -> Iterable[Any]:
    for one in container.values() if isinstance(container, dict) else container:
        kind = type(one)
        if kind is dict or kind is list:
            yield one
        elif kind is float and not math.isfinite(one):
            _refuse("expected numbers that a float can hold, got a larger one")


def _line(details: ErrorDetails) -> str:
    location = _as_written(details["loc"])
    found = details.get("ctx", {}).get("error")
    if isinstance(found, MisplacedError):
        location += found.field
    path = field_path(location)
    message = _message(details, location)
    return f"{path}: {message}" if path else message


def _as_written(location: Sequence[int | str]) -> Location:
    return tuple(_key(part) for part in location if part not in TAGS)


def _key(part: int | str) -> int | str:
    # An unknown key is the file's own word: it may be of any length and move the cursor.
    if isinstance(part, int) or (part.isidentifier() and len(part) <= MAX_KEY_CHARS):
        return part
    return repr(part[:MAX_KEY_CHARS])


def _message(details: ErrorDetails, location: Location) -> str:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "missing":
        return "is required"
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        return "is not a field of ATIF; other data belong into extra"
    if kind == "literal_error":
        return _literal(str(context["expected"]), value)
    if kind == "too_short":
        return "expected at least one, got none"
    if kind.startswith("union_tag"):
        return _union(value, location)
    if kind == "greater_than_equal":
        return f"expected {context['ge']:g} or more, got {_shown(value)}"
    family = kind.partition("_")[0]
    return f"expected {_EXPECTED.get(family, f'another value ({kind})')}, got {_shown(value)}"


def _literal(expected: str, value: Any) -> str:
    names = expected.replace(" or ", ", ").replace("'", "").split(", ")
    hint = nearest(value, names) if isinstance(value, str) else ""
    return f"expected {expected}, got {_shown(value)}{hint}"


def _union(value: Any, location: Location) -> str:
    if location and isinstance(location[-1], int):
        names = ", ".join(map(repr, PART_TYPES))
        kind = value.get("type") if isinstance(value, dict) else value
        return f"expected a content part whose type is one of {names}, got {_shown(kind)}"
    return f"expected text or a list of content parts, got {_shown(value)}"


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 10**20 else "a huge number"
    return shown(value)
