"""Files of traces and of chats, read back line by line.

::

    for trace in read_traces(Path("traces.jsonl")):
        print(trace.task, trace.reward, len(trace.completion))
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.report.chat import chat_problem
from pytest_harbor.result.trajectory_reader import MAX_BYTES, load_json
from pytest_harbor.task.finding import field_path, shown

_T = TypeVar("_T")
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class TraceMessage:
    """A message of a trace; each tool call is a text of JSON with id, name and arguments."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    reasoning_content: str | None = None
    tool_calls: list[str] | None = None
    tool_call_id: str | None = None
    tokens: dict[str, list[int | float]] | None = None


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class Trace:
    """A trial, by the fields of the verifiers library."""

    example_id: int
    task: str
    prompt: list[TraceMessage]
    completion: list[TraceMessage]
    reward: float | None
    metrics: dict[str, float]
    artifacts: list[str]
    info: dict[str, Any]
    error: dict[str, str] | None
    timing: dict[str, Any]
    is_completed: bool
    is_truncated: bool
    stop_condition: str
    token_usage: dict[str, float]
    error_chain: str | None = None
    long_error_chain: str | None = None
    tool_defs: list[dict[str, Any]] | None = None

    def to_json(self) -> dict[str, Any]:
        """The line's object again."""
        found = asdict(self)
        for name in ("prompt", "completion"):
            found[name] = [_set(one) for one in found[name]]
        rare = ("error_chain", "long_error_chain", "tool_defs")
        known = {key: one for key, one in found.items() if one is not None or key not in rare}
        return {key: value for key, value in self.metrics.items() if key not in known} | known


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class ChatFunction:
    """What a tool call asks for; ``arguments`` is a text of JSON."""

    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class ChatCall:
    """A tool call of a chat."""

    id: str
    type: Literal["function"] = "function"
    function: ChatFunction


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class ChatMessage:
    """A message of a chat."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: list[ChatCall] | None = None
    tool_call_id: str | None = None


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class Chat:
    """A conversation, as services take it for fine-tuning.

    Attributes:
        metadata: Which trial it is of, and what that earned; written where it was asked for.
    """

    messages: list[ChatMessage]
    tools: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The line's object again."""
        found = asdict(self)
        found["messages"] = [_set(one) for one in found["messages"]]
        return {key: value for key, value in found.items() if value or key == "messages"}


_TRACE, _CHAT = TypeAdapter(Trace), TypeAdapter(Chat)
_FIELDS = frozenset(one.name for one in fields(Trace))


def read_traces(path: Path) -> Iterator[Trace]:
    """The trials in a file of traces.

    Raises:
        TrajectoryFormatError: A line is none; says which, where, what was found and is accepted.
    """
    for place, line in _objects(path):
        metrics = line.get("metrics")
        repeated = set(metrics) - _FIELDS if isinstance(metrics, dict) else set()
        known = {key: value for key, value in line.items() if key not in repeated}
        yield _read(_TRACE, known, place)


def read_chats(path: Path) -> Iterator[Chat]:
    """The conversations in a file of chats.

    Raises:
        TrajectoryFormatError: A line is none; says which, where, what was found and is accepted.
    """
    for place, line in _objects(path):
        chat = _read(_CHAT, line, place)
        if problem := chat_problem(line["messages"]):
            _refuse(place, f"messages[{problem[0]}]: expected a valid chat, found {problem[1]}")
        for number, message in enumerate(chat.messages):
            for call in message.tool_calls or ():
                _check_arguments(call, f"{place}: messages[{number}]")
        yield chat


def _check_arguments(call: ChatCall, place: str) -> None:
    try:
        found = load_json(call.function.arguments.encode("utf-8", "replace"))
    except TrajectoryFormatError as error:
        _refuse(place, f"arguments of the call {call.id!r}: {error}")
    if not isinstance(found, dict):
        _refuse(place, f"arguments of the call {call.id!r}: expected the text of a JSON object")


def _objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line's place and object; blank lines are none."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            number = 0
            while data := file.readline(MAX_BYTES + 1):
                number += 1
                if data.strip():
                    yield f"{path}:{number}", _object(data, f"{path}:{number}")
    except OSError as error:
        _refuse(str(path), f"cannot be read: {error.strerror}")


def _open_at_once(path: str, flags: int) -> int:
    # A pipe that nobody writes into would be waited for without end.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _object(data: bytes, place: str) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        _refuse(place, f"expected at most {MAX_BYTES // 1024**2} MiB a line, found more")
    try:
        found = load_json(data)
    except TrajectoryFormatError as error:
        _refuse(place, str(error))
    if not isinstance(found, dict):
        _refuse(place, f"expected an object, found {shown(found)}")
    return found


def _read(kind: TypeAdapter[_T], value: Mapping[str, Any], place: str) -> _T:
    try:
        # Of JSON: strict models take plain objects from nothing else.
        return kind.validate_json(json.dumps(value))
    except ValidationError as error:
        raise TrajectoryFormatError(
            [f"{place}: {_problem(one)}" for one in error.errors(include_url=False)[:20]]
        ) from None


def _problem(details: ErrorDetails) -> str:
    path = field_path(details["loc"])
    if details["type"] in ("missing", "unexpected_keyword_argument"):
        return f"{path}: {'is required' if details['type'] == 'missing' else 'is not a field'}"
    accepted = details["msg"].removeprefix("Input should be ").lower()
    return f"{path}: expected {accepted}, found {shown(details['input'])}"


def _refuse(place: str, problem: str) -> NoReturn:
    raise TrajectoryFormatError([f"{place}: {problem}"])


def _set(message: dict[str, Any]) -> dict[str, Any]:
    """A message's fields; those that it does not have are left out."""
    return {key: value for key, value in message.items() if value is not None}
