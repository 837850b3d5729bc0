"""Whether a provider's error is its own word, or repeats what it was asked.

Providers show the value that they do not take. An agent could send one that reads like a fault
of the user's settings, which would leave its trial out of the figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from pytest_harbor.model_gateway.call import Call
from pytest_harbor.model_gateway.error_words import setting_at_fault

_OF_CODES = frozenset({"code", "type", "status", "reason"})
_CODE = re.compile(r"[A-Za-z][\w.-]{0,63}")


def repeats_request(call: Call) -> bool:
    """Whether what an error says of a setting may be the request's own words.

    The codes of an error are the provider's. Of its texts only those words count that the
    request does not hold.
    """
    if call.outcome != "refused" or setting_at_fault(call.error) is None:
        return False
    codes, texts = _parted(call)
    if setting_at_fault("\n".join(codes)):
        return False
    asked = _asked(call)
    return asked is None or setting_at_fault("\n".join(texts), asked) is None


def _parted(call: Call) -> tuple[list[str], list[str]]:
    """The codes of an error, and its texts."""
    body = _flat(call.response.read())
    if body is None:
        return [], [call.error]
    codes: list[str] = []
    texts: list[str] = []
    for name, text in body:
        is_code = name in _OF_CODES and _CODE.fullmatch(text)
        (codes if is_code else texts).append(text)
    return codes, texts


def _asked(call: Call) -> str | None:
    """All texts of a request; None where not all are known."""
    body = _flat(call.request.read())
    if body is None or call.request.dropped:
        return None
    route = call.route
    texts = [*call.headers, unquote(route.path), unquote(route.query)]
    return "\n".join([*texts, *(part for pair in body for part in pair)])


def _flat(data: bytes) -> list[tuple[str, str]] | None:
    """Every text of a JSON document with the name that it stands under; None: it is none.

    A name that an object has twice counts twice: who reads it may take the first or the last.
    """
    try:
        return list(_texts(json.loads(data, object_pairs_hook=tuple)))
    except (ValueError, RecursionError):
        return None


def _texts(document: Any) -> Iterator[tuple[str, str]]:
    waiting = [("", document)]
    while waiting:
        name, value = waiting.pop()
        yield name, value if isinstance(value, str) else ""
        if isinstance(value, tuple):  # the pairs of an object
            waiting += value
        elif isinstance(value, list):
            waiting += [(name, one) for one in value]
