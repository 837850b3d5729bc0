"""What pydantic finds wrong with a ``task.toml``, in the words of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pytest_harbor.task.finding import Finding, Location, nearest, shown, table_name
from pytest_harbor.task.unknown_keys import swallowed_remedy

_EXPECTED = {
    "bool": "true or false",
    "dict": "a table",
    "int": "a whole number",
    "model": "a table",
    "string": "text in quotes",
    "tuple": "a list",
}


def config_findings(error: ValidationError, data: Mapping[str, Any]) -> list[Finding]:
    """One finding for each error, with the value as it stands in the file.

    Args:
        error: What the models raised.
        data: The file as parsed, before old spellings were rewritten.
    """
    return [
        _finding(details, data) for details in error.errors(include_url=False, include_input=True)
    ]


def _finding(details: ErrorDetails, data: Mapping[str, Any]) -> Finding:
    location = _as_written(details["loc"], data)
    # Of fields that do not go together, the one to look at.
    if field := details.get("ctx", {}).get("field"):
        location = (*location, field)
    message = _message(details, location)
    parent = value_at(data, location[:-1])
    if isinstance(parent, dict) and location:
        message += swallowed_remedy(str(location[-1]), location[:-1])
    return Finding(location, message, "error", "invalid-field")


def _as_written(location: Sequence[int | str], data: Mapping[str, Any]) -> Location:
    if tuple(location) == ("schema_version",) and "schema_version" not in data:
        return ("version",)
    return tuple(location)


def _message(details: ErrorDetails, location: Location) -> str:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "missing":
        return f"{location[-1]} is required{_in_table(location[:-1])}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_too_short":
        return "expected text, got an empty one"
    if kind == "expected":
        return _with_value(details["msg"], value)
    if kind == "literal_error":
        return _literal_message(context["expected"], value)
    return _with_value(f"expected {_expected(kind, location)}", value) + _quotes_remedy(kind, value)


def _literal_message(expected: str, value: Any) -> str:
    names = expected.replace(" or ", ", ").replace("'", "").split(", ")
    hint = nearest(value, names) if isinstance(value, str) else ""
    return f"expected {expected}, got {shown(value)}{hint}"


def _with_value(expectation: str, value: Any) -> str:
    return f"{expectation}, got {shown(value)}" if expectation[:8] == "expected" else expectation


def _expected(kind: str, location: Location) -> str:
    family = kind.partition("_")[0]
    if family == "float":
        name = str(location[-1]) if location else ""
        return "seconds as a number" if name.endswith("_sec") else "a number"
    return _EXPECTED.get(family, f"another value ({kind})")


def _quotes_remedy(kind: str, value: Any) -> str:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f'; write "{shown(value)}"'
    return ""


def _in_table(location: Location) -> str:
    return f" in {table_name(location)}" if location else ""


def value_at(data: Any, location: Location) -> Any:
    """The value that ``location`` leads to; None where it leads nowhere."""
    for part in location:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data
