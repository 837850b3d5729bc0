"""A judge's arguments, checked before anything runs: it is asked at the end of long work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_harbor.errors import OptionError


def whole(name: str, value: Any) -> int:
    """A whole number from 1.

    Raises:
        OptionError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(f"the judge's {name}: expected a whole number from 1, got {value!r}")
    return value


def words(name: str, value: Any) -> str:
    """Text that is not empty.

    Raises:
        OptionError: It is none.
    """
    if not (isinstance(value, str) and value.strip()):
        raise OptionError(f"the judge's {name}: expected text, got {value!r}")
    return value


def paths(value: Any) -> Sequence[str]:
    """One path or pattern, or several.

    Raises:
        OptionError: It is neither.
    """
    found = (value,) if isinstance(value, str) else value
    is_listed = isinstance(found, list | tuple)
    if not is_listed or not all(isinstance(one, str) and one.strip() for one in found):
        raise OptionError(
            "the judge's files: expected a path or a list of paths, as"
            f" '[\"/app/report.md\"]', got {value!r}"
        )
    return tuple(found)
