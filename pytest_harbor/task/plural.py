"""Numbers of things in words."""

from __future__ import annotations

import re

_FIRST_WORDS = re.compile(
    r"(environment fault|attempt|call|dataset|file|finding|line|row|task|trial|vote|warning)s\b"
)


def in_number(number: int, what: str) -> str:
    """``1 task without an answer``, ``2 tasks without an answer``.

    Args:
        number: How many.
        what: Their plural, and what follows it; other words stay as they are.
    """
    found = _FIRST_WORDS.match(what) if number == 1 else None
    return f"{number} {found[1]}{what[found.end() :]}" if found else f"{number} {what}"
