"""Numbers and lists of things in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FIRST_WORDS = re.compile(
    r"(environment fault|attempt|call|dataset|file|finding|line|row|task|trial|vote|warning)s\b"
)


def number_of(number: int, what: str) -> str:
    """``1 trial``, ``2 trials``; ``what`` is one of them."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def in_number(number: int, what: str) -> str:
    """``1 task without an answer``, ``2 tasks without an answer``.

    Args:
        number: How many.
        what: Their plural, and what follows it; other words stay as they are.
    """
    found = _FIRST_WORDS.match(what)
    return number_of(number, found[1]) + what[found.end() :] if found else f"{number} {what}"


def listed(names: Sequence[str], most: int) -> str:
    """``a, b and 3 more``: the first names, and how many others there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
