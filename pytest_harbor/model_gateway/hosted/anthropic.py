"""Anthropic's messages."""

from __future__ import annotations

import re
from typing import Any

from pytest_harbor.model_gateway.hosted.base import (
    Json,
    Restriction,
    kind_of,
    known_fields,
    list_at,
    removed_text,
    replace_list,
    restricted_content,
    without,
    words,
)
from pytest_harbor.model_gateway.hosted.domains import narrowed_domains

_FIELDS = words(
    "model messages system tools tool_choice max_tokens stream temperature top_p top_k "
    "stop_sequences thinking metadata service_tier cache_control output_config output_format "
    "context_management betas anthropic_beta anthropic_version effort speed inference_geo"
)
# The client runs these, or (tool search) the provider looks through the request's own tools.
_LOCAL_TOOLS = re.compile(
    r"(?:custom)?"
    r"|(?:bash|text_editor|computer|memory)_\d{8}"
    r"|tool_search_tool_(?:regex|bm25)(?:_\d{8})?"
)
# Later ones run code at the provider as well, to filter what they found.
_FILTERED_TOOLS = frozenset({"web_search_20250305", "web_fetch_20250910"})
_FILTERED_FIELDS = words(
    "type name max_uses user_location citations max_content_tokens cache_control"
)
_LOCAL_BLOCKS = words(
    "text tool_use thinking redacted_thinking compaction tool_reference server_tool_use"
)
_NESTED_BLOCKS = frozenset({"search_result"})
_RESULTS = re.compile(r"[a-z_]+_tool_result")
_LOCAL_SOURCES = frozenset({"base64", "text"})


def restrict_messages(body: Json, restriction: Restriction) -> Json:
    """A request for a message, or for the count of its tokens."""
    kept = known_fields(body, _FIELDS, restriction)
    kept = _restrict_tools(kept, restriction)

    def block(value: Any) -> Any:
        return _restrict_block(value, restriction)

    if "system" in kept:
        kept["system"] = restricted_content(kept["system"], block)
    if "messages" in kept:
        kept["messages"] = [
            {**message, "content": restricted_content(message.get("content"), block)}
            if isinstance(message, dict)
            else message
            for message in list_at(kept, "messages")
        ]
    return kept


def _restrict_tools(body: Json, restriction: Restriction) -> Json:
    if "tools" not in body:
        return _restrict_choice(body, restriction)
    tools = [
        tool
        for tool in (_restrict_tool(tool, restriction) for tool in list_at(body, "tools"))
        if tool is not None
    ]
    return _restrict_choice(replace_list(body, "tools", tools), restriction)


def _restrict_tool(tool: Any, restriction: Restriction) -> Any:
    """The tool as it may go on; None: it has to go."""
    kind = kind_of(tool)
    if isinstance(tool, dict) and (kind or "type" not in tool or tool["type"] is None):
        if _LOCAL_TOOLS.fullmatch(kind):
            return _without_hosted_callers(tool, restriction)
        if kind in _FILTERED_TOOLS:
            domains = narrowed_domains(
                restriction, tool.get("allowed_domains"), tool.get("blocked_domains")
            )
            if domains:
                restriction.note("narrowed to the allowlist the tool", kind)
                kept = {name: tool[name] for name in tool if name in _FILTERED_FIELDS}
                return {**kept, "allowed_domains": domains}
    restriction.note("removed the tool", kind or tool)
    return None


def _without_hosted_callers(tool: Json, restriction: Restriction) -> Json:
    """A tool that code at the provider may call can be called by the model alone."""
    callers = tool.get("allowed_callers")
    if callers is None or callers == ["direct"]:
        return tool
    restriction.note("removed the callers of the tool", tool.get("name"))
    return without(tool, "allowed_callers")


def _restrict_choice(body: Json, restriction: Restriction) -> Json:
    choice = body.get("tool_choice")
    if choice is None:
        return body
    names = {tool.get("name") for tool in body.get("tools", ()) if _has_name(tool)}
    wanted = choice.get("name") if isinstance(choice, dict) else None
    names_nothing = kind_of(choice) == "tool" and not (isinstance(wanted, str) and wanted in names)
    if names_nothing or not body.get("tools"):
        restriction.note("removed tool_choice, which named a removed tool")
        return without(body, "tool_choice")
    return body


def _has_name(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)


def _restrict_block(block: Any, restriction: Restriction) -> Any:
    kind = kind_of(block)
    if kind == "tool_result":
        content = restricted_content(
            block.get("content"), lambda value: _restrict_block(value, restriction)
        )
        return {**block, "content": content} if "content" in block else block
    if kind in _LOCAL_BLOCKS:
        return block
    if kind in _NESTED_BLOCKS or (kind and _RESULTS.fullmatch(kind)):
        return {name: _restrict_inner(value, restriction) for name, value in block.items()}
    if kind in ("image", "document"):
        source = block.get("source")
        if kind_of(source) in _LOCAL_SOURCES:
            return block
        if kind_of(source) == "content":
            content = restricted_content(
                source.get("content"), lambda value: _restrict_block(value, restriction)
            )
            return {**block, "source": {**source, "content": content}}
        kind = f"{kind} by {kind_of(source) or 'an unknown source'}"
    restriction.note("removed the part", kind or block)
    return {"type": "text", "text": removed_text(kind or "unknown part")}


def _restrict_inner(value: Any, restriction: Restriction) -> Any:
    """What a result holds at any depth: documents and pictures are looked at, wherever they are.

    The provider has made such results in an earlier answer, or the agent made them up.
    """
    if isinstance(value, list):
        return [_restrict_inner(one, restriction) for one in value]
    if not isinstance(value, dict):
        return value
    is_fetched = kind_of(value) in ("image", "document", "container_upload")
    if is_fetched or isinstance(value.get("source"), dict):
        return _restrict_block(value, restriction)
    return {name: _restrict_inner(one, restriction) for name, one in value.items()}
