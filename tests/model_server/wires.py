"""Turns in the words of each protocol."""

import json
from collections.abc import Iterator
from typing import Any

from .script import Turn

Json = dict[str, Any]


def error_body(wire: str, turn: Turn) -> Json:
    if wire == "anthropic":
        kinds = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
        kind = kinds.get(turn.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": turn.error}}
    if wire == "gemini":
        return {"error": {"code": turn.status, "message": turn.error, "status": "UNAVAILABLE"}}
    error = {"message": turn.error, "type": "api_error", "param": None, "code": turn.code}
    return {"error": error}


def whole(operation: str, turn: Turn, model: str) -> Json:
    """The answer in one piece."""
    return {
        "chat": _chat,
        "responses": _response,
        "messages": _message,
        "generate": _content,
    }[operation](turn, model)


def events(operation: str, turn: Turn, model: str, *, with_usage: bool) -> list[bytes]:
    """The answer as a stream."""
    makers = {
        "chat": lambda: _chat_events(turn, model, with_usage),
        "responses": lambda: _response_events(turn, model),
        "messages": lambda: _message_events(turn, model),
        "generate": lambda: _content_events(turn, model),
    }
    return list(makers[operation]())


def error_event(wire: str) -> bytes:
    if wire == "anthropic":
        error = {"type": "overloaded_error", "message": "Overloaded"}
        return _event({"type": "error", "error": error}, "error")
    return _event({"error": {"code": 503, "message": "overloaded", "type": "server_error"}})


def pieces(text: str) -> list[str]:
    words = text.split(" ")
    return [word + (" " if index < len(words) - 1 else "") for index, word in enumerate(words)]


def _event(body: Json, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(body)}\n\n".encode()


# -- OpenAI's chat completions ----------------------------------------------------


def _chat_usage(turn: Turn) -> Json:
    return {
        "prompt_tokens": turn.input_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.input_tokens + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": turn.cached_tokens},
    }


def _chat_calls(turn: Turn) -> list[Json]:
    return [
        {
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for index, call in enumerate(turn.tools)
    ]


def _chat(turn: Turn, model: str) -> Json:
    message: Json = {"role": "assistant", "content": turn.text}
    if turn.tools:
        message["tool_calls"] = _chat_calls(turn)
    reason = "tool_calls" if turn.tools else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": _chat_usage(turn),
    }


def _chat_events(turn: Turn, model: str, with_usage: bool) -> Iterator[bytes]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: Json, reason: str | None = None) -> bytes:
        return _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(turn.text):
        yield chunk({"content": piece})
    for index, call in enumerate(_chat_calls(turn)):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    yield chunk({}, "tool_calls" if turn.tools else "stop")
    if with_usage:
        yield _event({**head, "choices": [], "usage": _chat_usage(turn)})
    yield b"data: [DONE]\n\n"


# -- OpenAI's responses -----------------------------------------------------------


def _response_items(turn: Turn) -> list[Json]:
    items: list[Json] = []
    if turn.text:
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        items.append(
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": content,
            }
        )
    for index, call in enumerate(turn.tools):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{index}",
                "call_id": f"call_{index}",
                "name": call.name,
                **({"namespace": call.namespace} if call.namespace else {}),
                "arguments": json.dumps(call.arguments),
                "status": "completed",
            }
        )
    return items


def _response(turn: Turn, model: str) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": _response_items(turn),
        "usage": {
            "input_tokens": turn.input_tokens,
            "input_tokens_details": {"cached_tokens": turn.cached_tokens},
            "output_tokens": turn.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": turn.input_tokens + turn.output_tokens,
        },
    }


def _response_events(turn: Turn, model: str) -> Iterator[bytes]:
    number = 0

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return _event({"type": kind, "sequence_number": number, **fields}, kind)

    begun = {**_response(turn, model), "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=begun)
    for index, item in enumerate(_response_items(turn)):
        place = {"output_index": index, "item_id": item["id"]}
        yield event("response.output_item.added", output_index=index, item=item)
        if item["type"] == "message":
            for piece in pieces(turn.text):
                yield event("response.output_text.delta", **place, content_index=0, delta=piece)
            yield event("response.output_text.done", **place, content_index=0, text=turn.text)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=_response(turn, model))


# -- Anthropic's messages ---------------------------------------------------------


def _message_usage(turn: Turn) -> Json:
    return {
        "input_tokens": turn.input_tokens - turn.cached_tokens,
        "cache_read_input_tokens": turn.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": turn.output_tokens,
    }


def _blocks(turn: Turn) -> list[Json]:
    texts = [{"type": "text", "text": turn.text}] if turn.text else []
    tools = [
        {"type": "tool_use", "id": f"toolu_{index}", "name": call.name, "input": call.arguments}
        for index, call in enumerate(turn.tools)
    ]
    return [*texts, *tools]


def _message(turn: Turn, model: str) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _blocks(turn),
        "stop_reason": "tool_use" if turn.tools else "end_turn",
        "stop_sequence": None,
        "usage": _message_usage(turn),
    }


def _message_events(turn: Turn, model: str) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return _event({"type": kind, **fields}, kind)

    usage = {**_message_usage(turn), "output_tokens": 1}
    begun = {**_message(turn, model), "content": [], "stop_reason": None, "usage": usage}
    yield event("message_start", message=begun)
    for index, block in enumerate(_blocks(turn)):
        is_text = block["type"] == "text"
        start = {**block, "text": ""} if is_text else {**block, "input": {}}
        yield event("content_block_start", index=index, content_block=start)
        for piece in pieces(turn.text) if is_text else [json.dumps(block["input"])]:
            kind = "text_delta" if is_text else "input_json_delta"
            delta = {"type": kind, ("text" if is_text else "partial_json"): piece}
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    reason = "tool_use" if turn.tools else "end_turn"
    yield event(
        "message_delta",
        delta={"stop_reason": reason, "stop_sequence": None},
        usage={"output_tokens": turn.output_tokens},
    )
    yield event("message_stop")


# -- Gemini -----------------------------------------------------------------------


def _content(turn: Turn, model: str) -> Json:
    parts: list[Json] = [{"text": turn.text}] if turn.text else []
    parts += [{"functionCall": {"name": c.name, "args": c.arguments}} for c in turn.tools]
    return _candidate(turn, model, parts, is_last=True)


def _candidate(turn: Turn, model: str, parts: list[Json], *, is_last: bool) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    if is_last:
        candidate["finishReason"] = "STOP"
    usage = {
        "promptTokenCount": turn.input_tokens,
        "cachedContentTokenCount": turn.cached_tokens,
        "candidatesTokenCount": turn.output_tokens,
        "totalTokenCount": turn.input_tokens + turn.output_tokens,
    }
    whole: Json = {"candidates": [candidate], "modelVersion": model}
    return {**whole, "usageMetadata": usage} if is_last else whole


def _content_events(turn: Turn, model: str) -> Iterator[bytes]:
    for piece in pieces(turn.text):
        yield _event(_candidate(turn, model, [{"text": piece}], is_last=False))
    calls = [{"functionCall": {"name": c.name, "args": c.arguments}} for c in turn.tools]
    yield _event(_candidate(turn, model, calls or [{"text": ""}], is_last=True))
