"""What a selector tells besides its choice, as JSON has it."""

from __future__ import annotations

import json
from typing import Any

from pytest_harbor.report.data import plain
from pytest_harbor.selection.candidate import NothingChosenError

_MAX_BYTES = 8 * 1024**2


def details_json(value: Any) -> Any:
    """The same as plain JSON values; what has no form there is told in words.

    Raises:
        NothingChosenError: It cannot be written: it holds itself, or is too large.
    """
    try:
        text = json.dumps(plain(value), default=str)
    except (ValueError, TypeError, RecursionError) as error:
        raise NothingChosenError(
            f"the choice's details: expected values that JSON can hold: {error}"
        ) from None
    if len(text) > _MAX_BYTES:
        raise NothingChosenError(
            f"the choice's details: expected at most {_MAX_BYTES // 1024**2} MiB of JSON, got more"
        )
    return json.loads(text)
