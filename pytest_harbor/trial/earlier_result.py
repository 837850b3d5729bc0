"""A ``result.json`` that is to be graded again: held to what is read of it, field by field.

It was written by an earlier run, by Harbor's runner, or by somebody who hands on a job's folder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from pytest_harbor.result.work import USAGE_COUNTS

_SHOWN = 60
_OF_FAULT = ("phase", "type", "message")
_OF_FINDING = ("code", "level", "message")


def require_readable(result: Mapping[str, Any]) -> None:
    """See that every field that a regrade reads is what it has to be.

    Raises:
        ValueError: One is not; says which, and what was found.
    """
    _require_work(result, "")
    _optional(result, "", "agent_info", _is_object, "an object")
    for number, step in enumerate(_list(result, "", "step_results")):
        where = f"step_results[{number}]."
        _require(_is_object(step), where[:-1], "an object", step)
        _require_work(step, where)


def _require_work(work: Mapping[str, Any], where: str) -> None:
    for name in ("agent_setup", "agent_execution"):
        if times := _object(work, where, name):
            for key in ("started_at", "finished_at"):
                value = times.get(key)
                _require(_is_time(value), f"{where}{name}.{key}", "a time", value)
    usage = _object(work, where, "agent_result")
    for name in USAGE_COUNTS:
        _optional(usage, f"{where}agent_result.", name, _is_number, "a number")
    verdict = _object(work, where, "verifier_result")
    for name, value in _object(verdict, f"{where}verifier_result.", "rewards").items():
        _require(_is_number(value), f"{where}verifier_result.rewards.{name}", "a number", value)
    _require_own(_object(work, where, "pytest_harbor"), f"{where}pytest_harbor.")


def _require_own(own: Mapping[str, Any], where: str) -> None:
    _optional(own, where, "category", _is_text, "text")
    _optional(own, where, "agent_exit_code", _is_number, "a number")
    _require_texts(_list(own, where, "faults"), f"{where}faults", _OF_FAULT)
    seen, place = _object(own, where, "integrity"), f"{where}integrity."
    _require_texts(_list(seen, place, "findings"), f"{place}findings", _OF_FINDING)
    for value in _list(seen, place, "left_running"):
        _require(_is_text(value), f"{place}left_running", "a list of texts", value)


def _require_texts(rows: list[Any], where: str, names: tuple[str, ...]) -> None:
    for number, row in enumerate(rows):
        _require(_is_object(row), f"{where}[{number}]", "an object", row)
        for name in names:
            value = row.get(name)
            _require(_is_text(value), f"{where}[{number}].{name}", "text", value)


def _object(value: Mapping[str, Any], where: str, name: str) -> Mapping[str, Any]:
    _optional(value, where, name, _is_object, "an object")
    return value.get(name) or {}


def _list(value: Mapping[str, Any], where: str, name: str) -> list[Any]:
    _optional(value, where, name, _is_list, "a list")
    return value.get(name) or []


def _optional(
    value: Mapping[str, Any], where: str, name: str, fits: Callable[[Any], bool], what: str
) -> None:
    found = value.get(name)
    _require(found is None or fits(found), f"{where}{name}", what, found)


def _require(holds: bool, where: str, what: str, found: Any) -> None:
    if not holds:
        raise ValueError(f"{where}: expected {what}, found {repr(found)[:_SHOWN]}")


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) <= 2**63 and math.isfinite(value)


def _is_time(value: Any) -> bool:
    with suppress(ValueError, TypeError):
        datetime.fromisoformat(value)
        return True
    return False


def artifact_rows(found: list[Any]) -> Iterator[Mapping[str, Any]]:
    """The rows of a manifest of artifacts that are whole; others name nothing."""
    for row in found:
        if _is_object(row) and _is_text(row.get("source")) and _is_text(row.get("status")):
            yield row
