"""A stream put together again: the answer as it would have come in one piece."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from pytest_harbor.model_gateway.events import events_of
from pytest_harbor.model_gateway.wire import Operation

Json = dict[str, Any]


def assemble(operation: Operation, stream: bytes) -> Json | None:
    """The answer that a stream holds, as far as it came; None where there is none.

    The record keeps this and not the events: some protocols repeat an answer five
    times over, and a secret could lie across two events.
    """
    events = [body for event in events_of(stream) if (body := _object(event.data)) is not None]
    return _ASSEMBLERS[operation](events) if events and operation in _ASSEMBLERS else None


def _object(data: bytes) -> Json | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _objects(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _at(body: Json, name: str) -> Json:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _append(target: Json, name: str, text: Any) -> None:
    if isinstance(text, str):
        before = target.get(name)
        target[name] = (before if isinstance(before, str) else "") + text


# -- OpenAI -----------------------------------------------------------------------


def _chat(events: Iterable[Json]) -> Json:
    whole: Json = {}
    choices: dict[int, Json] = {}
    for event in events:
        whole.update({k: v for k, v in event.items() if k != "choices" and v is not None})
        for part in _objects(event.get("choices")):
            index = part.get("index")
            choice = choices.setdefault(index if isinstance(index, int) else 0, {"message": {}})
            _add_delta(choice["message"], _at(part, "delta"))
            if part.get("finish_reason"):
                choice["finish_reason"] = part["finish_reason"]
    for choice in choices.values():
        if calls := choice["message"].get("tool_calls"):
            choice["message"]["tool_calls"] = list(calls.values())
    whole["choices"] = [{"index": index, **choices[index]} for index in sorted(choices)]
    return whole


def _add_delta(message: Json, delta: Json) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            for call in _objects(value):
                _add_call(message.setdefault("tool_calls", {}), call)
        elif name == "role":
            message["role"] = value
        elif isinstance(value, str):
            _append(message, name, value)
        elif value is not None:
            message[name] = value


def _add_call(calls: dict[Any, Json], part: Json) -> None:
    index = part.get("index")
    call = calls.setdefault(index if isinstance(index, int) else len(calls), {"type": "function"})
    if part.get("id"):
        call["id"] = part["id"]
    function = call.setdefault("function", {"name": "", "arguments": ""})
    for name in ("name", "arguments"):
        _append(function, name, _at(part, "function").get(name))


def _responses(events: Iterable[Json]) -> Json:
    whole: Json = {}
    items: list[Any] = []
    for event in events:
        if event.get("type") == "response.output_item.done":
            items.append(event.get("item"))
        whole = _at(event, "response") or whole
    return whole if whole.get("output") else {**whole, "output": items}


# -- Anthropic --------------------------------------------------------------------


def _messages(events: Iterable[Json]) -> Json:
    whole: Json = {}
    blocks: dict[Any, Json] = {}
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            whole = dict(_at(event, "message"))
        elif kind == "content_block_start":
            blocks[str(event.get("index"))] = dict(_at(event, "content_block"))
        elif kind == "content_block_delta":
            block = blocks.setdefault(str(event.get("index")), {})
            _add_block_delta(block, _at(event, "delta"))
        elif kind == "message_delta":
            whole.update(_at(event, "delta"))
            whole["usage"] = {**_at(whole, "usage"), **_at(event, "usage")}
        elif kind == "error":
            whole["error"] = event.get("error")
    whole["content"] = [_finished_block(block) for block in blocks.values()]
    return whole


def _add_block_delta(block: Json, delta: Json) -> None:
    for name in ("text", "thinking", "signature", "partial_json"):
        _append(block, name, delta.get(name))


def _finished_block(block: Json) -> Json:
    text = block.pop("partial_json", "")
    if text:
        value = _object(text.encode(errors="replace"))
        block["input"] = text if value is None else value
    return block


# -- Gemini -----------------------------------------------------------------------


def _generate(events: Iterable[Json]) -> Json:
    whole: Json = {}
    parts: list[Json] = []
    last: Json = {}
    for event in events:
        whole.update(event)
        for candidate in _objects(event.get("candidates"))[:1]:
            last.update(candidate)
            for part in _objects(_at(candidate, "content").get("parts")):
                _add_part(parts, part)
    if last:
        content = {**_at(last, "content"), "parts": parts}
        whole["candidates"] = [{**last, "content": content}]
    return whole


def _add_part(parts: list[Json], part: Json) -> None:
    """Texts that follow one another are one text, unless one is a thought."""
    if parts and _continues(parts[-1], part):
        parts[-1] = {**parts[-1], **part, "text": parts[-1]["text"] + part["text"]}
    else:
        parts.append(part)


def _continues(before: Json, part: Json) -> bool:
    texts = isinstance(before.get("text"), str) and isinstance(part.get("text"), str)
    return texts and before.get("thought") == part.get("thought")


_ASSEMBLERS: dict[str, Callable[[Iterable[Json]], Json]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "generate": _generate,
}
