"""The line of a field in a TOML text, found with the parser itself.

Only asked when there is something to report. A prefix of the file that ends before a
statement parses, and holds what the statements so far defined: the field's statement is
the last one before which the prefix still lacks the field.
"""

from __future__ import annotations

import re
from typing import Any

import tomli

from pytest_harbor.task.finding import Location

MAX_PARSES = 200
"""Bound for one field: a hostile file costs no more."""

# Every statement begins on a line like this; some lines inside of long strings and
# arrays do too, but a prefix that ends there does not parse.
_STATEMENT = re.compile(
    r"""[ \t]*(?:\[|(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*[.=])"""
)


class TomlPositions:
    """Lines of the fields of one text, which must parse as a whole."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._starts = [index for index, line in enumerate(self._lines) if _STATEMENT.match(line)]
        self._parsed: dict[int, Any] = {}
        self._parses_left = 0

    def line(self, location: Location) -> int | None:
        """Line, from 1, of the statement that defines the field.

        For a field that is not there, the line of the innermost table that is; None for
        the root.
        """
        location = self._existing_part(location)
        if not location or not self._starts:
            return None
        self._parses_left = MAX_PARSES
        return self._starts[self._last_lacking(location)] + 1

    def _existing_part(self, location: Location) -> Location:
        whole = self._parse(len(self._lines))
        while location and not _has(whole, location):
            location = location[:-1]
        return location

    def _last_lacking(self, location: Location) -> int:
        """Position of the last statement before which the field is not there yet."""
        low, high = 0, len(self._starts)
        while high - low > 1 and self._parses_left > 0:
            probe = self._boundary_near((low + high) // 2, low, high)
            if probe is None:
                break
            if _has(self._parse(self._starts[probe]), location):
                high = probe
            else:
                low = probe
        return low

    def _boundary_near(self, middle: int, low: int, high: int) -> int | None:
        """The statement nearest to ``middle``, of those between; None if none is found."""
        order = sorted(range(low + 1, high), key=lambda index: abs(index - middle))
        for index in order:
            if self._parses_left <= 0:
                return None
            if self._parse(self._starts[index]) is not None:
                return index
        return None

    def _parse(self, line_count: int) -> Any:
        """The first lines parsed; None where they end inside of a statement."""
        if line_count not in self._parsed:
            self._parses_left -= 1
            try:
                value = tomli.loads("\n".join([*self._lines[:line_count], ""]))
            except (ValueError, RecursionError):
                value = None
            self._parsed[line_count] = value
        return self._parsed[line_count]


def _has(data: Any, location: Location) -> bool:
    for part in location:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True
