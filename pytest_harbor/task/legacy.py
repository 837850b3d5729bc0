"""Old spellings of ``task.toml`` that work: rewritten to the current ones.

Half of all tasks in the wild use them, so none of them is worth a warning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pytest_harbor.task.finding import Finding, Location, shown

OLD_SIZES = {"memory": "memory_mb", "storage": "storage_mb"}
OLD_KEYS: Mapping[str, tuple[str, ...]] = {
    "TaskConfig": ("version",),
    "EnvironmentConfig": ("allow_internet", *OLD_SIZES),
}
"""Old keys that are understood, by the model of the table in which they stand."""

_MIB_PER_UNIT = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}
_FLAG = TypeAdapter(bool)


def migrate(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
    """A copy of a parsed ``task.toml`` without old spellings, and what is wrong with them."""
    findings: list[Finding] = []
    new = dict(data)
    if "version" in new:
        new.setdefault("schema_version", new["version"])
        del new["version"]
    _change(new, "environment", (), _environment(findings))
    _change(new, "verifier", (), _verifier(findings))
    if isinstance(new.get("steps"), list):
        new["steps"] = [
            _step(step, ("steps", index), findings) for index, step in enumerate(new["steps"])
        ]
    return new, findings


_Change = Callable[[dict[str, Any], Location], None]


def _change(table: dict[str, Any], key: str, location: Location, change: _Change) -> None:
    """Replace a table inside a table by a changed copy; anything else is left alone."""
    if isinstance(table.get(key), dict):
        table[key] = dict(table[key])
        change(table[key], (*location, key))


def _step(step: Any, location: Location, findings: list[Finding]) -> Any:
    if not isinstance(step, dict):
        return step
    new = dict(step)
    _change(new, "verifier", location, _verifier(findings))
    return new


def _verifier(findings: list[Finding]) -> _Change:
    def change(table: dict[str, Any], location: Location) -> None:
        _change(table, "environment", location, _environment(findings))

    return change


def _environment(findings: list[Finding]) -> _Change:
    def change(table: dict[str, Any], location: Location) -> None:
        for old, new in OLD_SIZES.items():
            if old in table:
                _move_size(table, old, new, location, findings)
        if "allow_internet" in table:
            _move_allow_internet(table, location, findings)

    return change


def _move_size(
    table: dict[str, Any], old: str, new: str, location: Location, findings: list[Finding]
) -> None:
    value = table.pop(old)
    place = (*location, old)
    if not isinstance(value, str):
        findings.append(Finding(place, _not_text(old, new, value)))
        return
    size = size_in_mb(value)
    if size is None:
        findings.append(Finding(place, _not_a_size(new, value), "error", "invalid-field"))
    elif table.setdefault(new, size) != size:
        message = f"{value!r} contradicts {new} = {shown(table[new])}; remove {old}"
        findings.append(Finding(place, message, "error", "invalid-field"))


def size_in_mb(text: str) -> int | None:
    """Whole MiB of an old size as ``"2G"``, ``"512M"`` or ``"1024K"``; None if it is none."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([GMK])", text.strip().upper())
    size = float(match[1]) * _MIB_PER_UNIT[match[2]] if match else math.inf
    return int(size) if math.isfinite(size) else None


def _not_text(old: str, new: str, value: Any) -> str:
    remedy = f"write {new} = {value}" if type(value) is int else f"write {new} in MB"
    return f"{shown(value)} is dropped: the old key {old} takes text as '2G'; {remedy}"


def _not_a_size(new: str, value: str) -> str:
    return (
        f"expected a size as '2G', '512M' or '1024K', got {shown(value)}; "
        f"better write {new} as a number of MB"
    )


def _move_allow_internet(
    table: dict[str, Any], location: Location, findings: list[Finding]
) -> None:
    value = table.pop("allow_internet")
    place = (*location, "allow_internet")
    try:
        is_allowed = _FLAG.validate_python(value)
    except ValidationError:
        findings.append(
            Finding(place, f"expected true or false, got {shown(value)}", "error", "invalid-field")
        )
        return
    mode = "public" if is_allowed else "no-network"
    if "network_mode" in table or "allowed_hosts" in table:
        if table.get("network_mode", "public") != mode:
            findings.append(Finding(place, _outvoted(table, is_allowed)))
    else:
        table["network_mode"] = mode


def _outvoted(table: dict[str, Any], is_allowed: bool) -> str:
    """As in Harbor, the newer keys count alone; that a box is open by it must not be missed."""
    winner = "network_mode" if "network_mode" in table else "allowed_hosts"
    ignored = f"{shown(is_allowed)} is ignored because {winner} stands beside it"
    if not is_allowed and table.get("network_mode", "public") != "no-network":
        holds = table.get("network_mode", "public")
        ignored += f", and the policy is {shown(holds)}: the network is not closed"
    return f"{ignored}; remove one of them"
