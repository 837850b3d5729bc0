"""What became of a call, read from the answer while it passes by."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_harbor.model_gateway.events import TAIL, Event, EventSplitter
from pytest_harbor.model_gateway.tokens import TokenCount, read_tail, read_tokens
from pytest_harbor.model_gateway.wire import Operation

BODY_LIMIT = 1024 * 1024
"""Bytes of an answer in one piece that are read whole; of a longer one the end is."""

Ending = Literal["ok", "cut", "error_event", "malformed", "not_json"]
Json = dict[str, Any]

_TOOL_ITEMS = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"}
)


@dataclass(slots=True)
class Answer:
    """What was read so far.

    Attributes:
        model: The model that the provider says has answered.
        finished: Whether the model came to an end, as its protocol says it.
        asks_for_tool: Whether the model asked for a tool, so that the agent has to go on.
        error: What the provider said in place of an answer, within one that began well.
        malformed: Whether a part of it could not be read.
        usage: The counts as they came; Anthropic's come in two parts.
        tokens: The counts as read.
    """

    model: str = ""
    finished: bool = False
    asks_for_tool: bool = False
    error: str = ""
    malformed: bool = False
    usage: Json = field(default_factory=dict)
    tokens: TokenCount | None = None

    def ending(self) -> Ending:
        """How the answer ended, where the connection did not end it."""
        if self.error:
            return "error_event"
        if self.malformed:
            return "malformed"
        return "ok" if self.finished else "cut"


class StreamReader:
    """Reads a stream of events."""

    def __init__(self, operation: Operation) -> None:
        self.answer = Answer()
        self._operation = operation
        self._splitter = EventSplitter()

    def feed(self, piece: bytes) -> None:
        """Take a piece."""
        for event in self._splitter.feed(piece):
            self._read(event)

    def finish(self) -> Ending:
        """There are no more pieces."""
        if self._splitter.is_within_event and not self.answer.finished:
            return "cut"
        return self.answer.ending()

    def _read(self, event: Event) -> None:
        if not event.is_whole:
            self._read_long(event)
        elif event.data.strip() == b"[DONE]":
            self.answer.finished = True
        elif event.data:
            body = _json(event.data)
            if not isinstance(body, dict):
                self.answer.malformed = True
            elif _error(body):
                self.answer.error = _error(body)
            else:
                _EVENTS[self._operation](self.answer, body)

    def _read_long(self, event: Event) -> None:
        tokens = read_tail(self._operation, event.data.decode(errors="replace"))
        self.answer.tokens = tokens or self.answer.tokens
        self.answer.finished |= event.name in ("response.completed", "response.incomplete")


class BodyReader:
    """Reads an answer in one piece."""

    def __init__(self, operation: Operation) -> None:
        self.answer = Answer()
        self._operation = operation
        self._held = bytearray()
        self._is_whole = True

    def feed(self, piece: bytes) -> None:
        """Take a piece."""
        self._held += piece
        if len(self._held) > BODY_LIMIT:
            self._is_whole = False
            del self._held[:-TAIL]

    def finish(self) -> Ending:
        """There are no more pieces."""
        if not self._is_whole:
            tail = self._held.decode(errors="replace")
            self.answer.tokens = read_tail(self._operation, tail)
            return "ok" if tail.rstrip()[-1:] in ("}", "]") else "cut"
        body = _json(bytes(self._held))
        # Gemini streams a list where no events are asked for.
        bodies = body if isinstance(body, list) else [body]
        if not bodies or not all(isinstance(one, dict) for one in bodies):
            return "not_json"
        for one in bodies:
            self.answer.error = self.answer.error or _error(one)
            _BODIES[self._operation](self.answer, one)
        return self.answer.ending()


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _error(body: Json) -> str:
    """The error that stands in place of an answer; empty: none."""
    error = body.get("error")
    if isinstance(error, dict):
        words = (
            error.get("type") or error.get("status") or error.get("code"),
            error.get("message"),
        )
        return ": ".join(str(word)[:300] for word in words if word) or "an error without a text"
    if error:
        return str(error)[:300]
    return str(body.get("message"))[:300] if body.get("type") == "error" else ""


def _objects(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _at(body: Any, name: str) -> Json:
    value = body.get(name) if isinstance(body, dict) else None
    return value if isinstance(value, dict) else {}


def _name_model(answer: Answer, body: Json, key: str = "model") -> None:
    model = body.get(key)
    if isinstance(model, str) and model:
        answer.model = model


# -- events of each protocol ------------------------------------------------------


def _chat(answer: Answer, body: Json) -> None:
    """A chunk, or a completion in one piece."""
    _name_model(answer, body)
    for choice in _objects(body.get("choices")):
        message = _at(choice, "delta") or _at(choice, "message")
        answer.asks_for_tool |= bool(message.get("tool_calls") or message.get("function_call"))
        answer.finished |= bool(choice.get("finish_reason"))
    answer.tokens = read_tokens("chat", body) or answer.tokens


def _responses_event(answer: Answer, body: Json) -> None:
    kind = body.get("type")
    if kind == "response.output_item.done":
        answer.asks_for_tool |= _at(body, "item").get("type") in _TOOL_ITEMS
    elif kind in ("response.completed", "response.incomplete", "response.failed"):
        _response(answer, _at(body, "response"))
        answer.finished = True


def _response(answer: Answer, body: Json) -> None:
    _name_model(answer, body)
    items = _objects(body.get("output"))
    answer.asks_for_tool |= any(item.get("type") in _TOOL_ITEMS for item in items)
    answer.tokens = read_tokens("responses", body) or answer.tokens
    answer.error = answer.error or _error(body)
    if body.get("status") == "failed" and not answer.error:
        answer.error = "the response failed"
    answer.finished = isinstance(body.get("output"), list)


def _messages_event(answer: Answer, body: Json) -> None:
    kind = body.get("type")
    if kind == "message_start":
        _name_model(answer, _at(body, "message"))
        _add_usage(answer, _at(_at(body, "message"), "usage"))
        # What it says of the output is only what was written so far.
        answer.usage.pop("output_tokens", None)
        answer.tokens = read_tokens("messages", {"usage": answer.usage})
    elif kind == "content_block_start":
        answer.asks_for_tool |= _at(body, "content_block").get("type") == "tool_use"
    elif kind == "message_delta":
        _add_usage(answer, _at(body, "usage"))
        answer.tokens = read_tokens("messages", {"usage": answer.usage})
    elif kind == "message_stop":
        answer.finished = True


def _add_usage(answer: Answer, usage: Json) -> None:
    answer.usage.update({name: value for name, value in usage.items() if value is not None})


def _message(answer: Answer, body: Json) -> None:
    _name_model(answer, body)
    blocks = _objects(body.get("content"))
    answer.asks_for_tool = any(block.get("type") == "tool_use" for block in blocks)
    answer.tokens = read_tokens("messages", body)
    answer.finished = isinstance(body.get("content"), list)


def _generate(answer: Answer, body: Json) -> None:
    _name_model(answer, body, "modelVersion")
    for candidate in _objects(body.get("candidates")):
        answer.finished |= bool(candidate.get("finishReason"))
        parts = _objects(_at(candidate, "content").get("parts"))
        answer.asks_for_tool |= any("functionCall" in part for part in parts)
    answer.finished |= "blockReason" in _at(body, "promptFeedback")
    answer.tokens = read_tokens("generate", body) or answer.tokens


def _other(answer: Answer, body: Json) -> None:
    """A list of models or a count: no call of a model."""
    answer.finished = True


_Reader = Callable[[Answer, Json], None]
_EVENTS: dict[str, _Reader] = {
    "chat": _chat,
    "responses": _responses_event,
    "messages": _messages_event,
    "generate": _generate,
    "count": _other,
    "models": _other,
}
_BODIES: dict[str, _Reader] = {**_EVENTS, "responses": _response, "messages": _message}
