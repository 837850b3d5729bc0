"""What a request repeats of earlier ones.

Every request holds the whole history, so a record of each in full grows with the
square of the turns. Only what is new is kept, with a pointer to the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

_LISTS = ("messages", "input", "contents")
_CONSTANTS = ("tools", "system", "instructions", "systemInstruction", "system_instruction")
_REMEMBERED_CALLS = 16
_REMEMBERED_CONSTANTS = 64
_CACHE_MARK = "cache_control"
_WORTH_A_POINTER = 200  # characters
_write = json.JSONEncoder(sort_keys=True, check_circular=False).encode


class History:
    """Folds the requests of one trial, in their order."""

    def __init__(self) -> None:
        self._lists: deque[tuple[int, list[str]]] = deque(maxlen=_REMEMBERED_CALLS)
        self._constants: OrderedDict[str, int] = OrderedDict()

    def fold(self, number: int, body: Json) -> tuple[Json, str]:
        """The request with pointers in place of what an earlier one held.

        ``{"same_as": 3, "first": 4, "then": [...]}`` stands for the first four items of
        the same list in call 3 and those that follow; ``{"same_as": 3}`` for the whole value.

        Returns:
            The folded body, and what tells its conversation from others.
        """
        folded = {
            name: self._fold_constant(number, value) if name in _CONSTANTS else value
            for name, value in body.items()
        }
        for name in _LISTS:
            items = body.get(name)
            if isinstance(items, list):
                folded[name] = self._fold_list(number, items)
                return folded, _opening(items)
        return folded, _digest(body.get("input"))

    def _fold_constant(self, number: int, value: Any) -> Any:
        text = _write(value)
        if len(text) < _WORTH_A_POINTER:
            return value
        digest = _digest(value, text)
        first = self._constants.get(digest)
        if first is not None:
            self._constants.move_to_end(digest)
            return {"same_as": first}
        self._constants[digest] = number
        if len(self._constants) > _REMEMBERED_CONSTANTS:
            self._constants.popitem(last=False)
        return value

    def _fold_list(self, number: int, items: list[Any]) -> Any:
        digests = [_digest(item) for item in items]
        best, shared = 0, 0
        for earlier, others in self._lists:
            length = _shared(digests, others)
            if length > shared:
                best, shared = earlier, length
        self._lists.append((number, digests))
        return {"same_as": best, "first": shared, "then": items[shared:]} if shared else items


def _shared(left: Sequence[str], right: Sequence[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def _opening(items: list[Any]) -> str:
    """What a user said first; a conversation is known by it."""
    for item in items:
        if isinstance(item, dict) and item.get("role") == "user":
            return _digest(item)
    return _digest(items[:1])


def _digest(value: Any, text: str = "") -> str:
    text = text or _write(value)
    if _CACHE_MARK in text:
        # Marks of what is to be cached move along with the history; it is the same all the same.
        text = _write(_without_cache_marks(value))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _without_cache_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_cache_marks(v) for k, v in value.items() if k != _CACHE_MARK}
    if isinstance(value, list):
        return [_without_cache_marks(one) for one in value]
    return value
