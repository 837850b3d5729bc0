"""Token counts, read from what providers answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_harbor.model_gateway.wire import Operation

_USUAL_TIERS = (None, "default", "standard", "auto")


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens of one call.

    Attributes:
        input: All input, that from caches included.
        cached: The part of it that was read from a cache.
        cache_write: The part of it that was written to one.
        cache_write_1h: The part of that in a cache that lasts an hour.
        output: Output, reasoning included.
        is_complete: Whether the provider told the whole; a stream that was cut has not.
        is_priced_apart: Whether the call costs more than its tokens, or other than listed.
        cost_usd: What the provider itself says that the call cost.
    """

    input: int = 0
    cached: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 0
    is_complete: bool = False
    is_priced_apart: bool = False
    cost_usd: float | None = None


def read_tokens(operation: Operation, answer: Mapping[str, Any]) -> TokenCount | None:
    """The counts in a whole answer; None where it has none."""
    usage = answer.get("usageMetadata" if operation == "generate" else "usage")
    if not isinstance(usage, Mapping) or operation not in _READERS:
        return None
    tokens = _READERS[operation](usage)
    if answer.get("service_tier") not in _USUAL_TIERS:
        return replace(tokens, is_priced_apart=True)
    return tokens


def read_tail(operation: Operation, tail: str) -> TokenCount | None:
    """The counts at the end of an answer that is too long to be read whole.

    What a model wrote lies in strings, where its quotes are escaped: the name with
    bare quotes is the provider's own.
    """
    name = '"usageMetadata":' if operation == "generate" else '"usage":'
    start = tail.rfind(name)
    if start < 0:
        return None
    try:
        usage, _ = json.JSONDecoder().raw_decode(tail[start + len(name) :].lstrip())
    except ValueError:
        return None
    key = name[1:-2]
    return read_tokens(operation, {key: usage})


def number(value: object) -> int:
    """A count; 0 for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return 0
    return int(value)


def _part(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = usage.get(name)
    return value if isinstance(value, Mapping) else {}


def _cost(usage: Mapping[str, Any]) -> float | None:
    """Some providers, as OpenRouter, tell the cost."""
    cost = usage.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < 1e9:
        return None
    return float(cost)


def _chat(usage: Mapping[str, Any]) -> TokenCount:
    details = _part(usage, "prompt_tokens_details")
    return TokenCount(
        input=number(usage.get("prompt_tokens")),
        cached=number(details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens")),
        cache_write=number(details.get("cache_write_tokens")),
        output=number(usage.get("completion_tokens")),
        is_complete="prompt_tokens" in usage,
        cost_usd=_cost(usage),
    )


def _responses(usage: Mapping[str, Any]) -> TokenCount:
    details = _part(usage, "input_tokens_details")
    return TokenCount(
        input=number(usage.get("input_tokens")),
        cached=number(details.get("cached_tokens")),
        cache_write=number(details.get("cache_write_tokens")),
        output=number(usage.get("output_tokens")),
        is_complete="input_tokens" in usage,
        cost_usd=_cost(usage),
    )


def _messages(usage: Mapping[str, Any]) -> TokenCount:
    """Anthropic's input leaves out what caches had a part in."""
    cached = number(usage.get("cache_read_input_tokens"))
    written = number(usage.get("cache_creation_input_tokens"))
    hour = number(_part(usage, "cache_creation").get("ephemeral_1h_input_tokens"))
    searches = number(_part(usage, "server_tool_use").get("web_search_requests"))
    return TokenCount(
        input=number(usage.get("input_tokens")) + cached + written,
        cached=cached,
        cache_write=written,
        cache_write_1h=min(hour, written),
        output=number(usage.get("output_tokens")),
        is_complete="input_tokens" in usage and "output_tokens" in usage,
        is_priced_apart=searches > 0 or usage.get("service_tier") not in _USUAL_TIERS,
        cost_usd=_cost(usage),
    )


def _generate(usage: Mapping[str, Any]) -> TokenCount:
    thoughts = number(usage.get("thoughtsTokenCount"))
    tools = number(usage.get("toolUsePromptTokenCount"))
    return TokenCount(
        input=number(usage.get("promptTokenCount")) + tools,
        cached=number(usage.get("cachedContentTokenCount")),
        output=number(usage.get("candidatesTokenCount")) + thoughts,
        is_complete="promptTokenCount" in usage,
    )


_READERS: dict[str, Callable[[Mapping[str, Any]], TokenCount]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "generate": _generate,
}
