"""Kinds of value that several tables of ``task.toml`` share."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError

MAX_NAME_BYTES = 255
_FORBIDDEN_IN_NAME = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_DEVICE_NAME = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])\s*(\..*)?", re.IGNORECASE)
_SERVICE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_TOPOLOGY = re.compile(r"[1-9]\d*(x[1-9]\d*)+")


def expecting(what: str) -> WrapValidator:
    """One message for a value that may have several types, instead of one for each type."""

    def validate(value: Any, handler: Any) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError("expected", f"expected {what}") from None

    return WrapValidator(validate)


def _number_of_seconds(value: float) -> float:
    if math.isnan(value):
        raise ValueError("expected seconds as a number, got nan")
    return value


def _whole_where_whole(value: int | float) -> int | float:
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number of processors, got {value}")
    return int(value) if value == int(value) else value


def _service_name(text: str) -> str:
    name = text.strip()
    if not _SERVICE.fullmatch(name):
        raise ValueError(f"{text[:80]!r} is not the name of a compose service")
    return name


def _topology(text: str) -> str:
    topology = text.strip()
    if not _TOPOLOGY.fullmatch(topology):
        raise ValueError(f"{text[:80]!r} is not a topology; expected one as 2x4 or 2x2x1")
    return topology


def _step_name(name: str) -> str:
    fault = step_name_fault(name)
    if fault:
        raise ValueError(f"{name[:80]!r} {fault}; a step's name is the name of its folder")
    return name


def step_name_fault(name: str) -> str | None:
    """Why ``name`` cannot be a folder's name on every system, or None."""
    if not name.strip():
        return "is blank"
    if name in (".", ".."):
        return "names a folder above"
    if name.endswith((".", " ")):
        return "ends with a dot or a space"
    if _FORBIDDEN_IN_NAME.search(name):
        return 'has one of <>:"/\\|?* or a control character'
    if _DEVICE_NAME.fullmatch(name):
        return "is the name of a Windows device"
    if len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    return None


def folded_name(name: str) -> str:
    """The form in which two steps must not have the same name."""
    return unicodedata.normalize("NFC", name).casefold()


Seconds = Annotated[float, AfterValidator(_number_of_seconds)]
Processors = Annotated[
    int | float, AfterValidator(_whole_where_whole), expecting("a finite number of processors")
]
User = Annotated[str | int, expecting("a user's name or number")]
ServiceName = Annotated[str, AfterValidator(_service_name)]
Topology = Annotated[str, AfterValidator(_topology)]
StepName = Annotated[str, AfterValidator(_step_name)]
MinReward = Annotated[float | dict[str, float], expecting("a number, or a table of numbers")]
