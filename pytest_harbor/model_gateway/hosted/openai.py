"""OpenAI's chat completions and responses, and what is compatible with them."""

from __future__ import annotations

import re
from typing import Any

from pytest_harbor.model_gateway.hosted.base import (
    Json,
    Restriction,
    UnrestrictableError,
    is_data_url,
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

_SHARED_FIELDS = (
    "model stream temperature top_p tools tool_choice parallel_tool_calls metadata store user "
    "service_tier prompt_cache_key prompt_cache_retention safety_identifier reasoning seed "
    "stream_options top_logprobs truncation verbosity"
)
_CHAT_FIELDS = frozenset(
    f"{_SHARED_FIELDS} messages max_tokens max_completion_tokens frequency_penalty "
    "presence_penalty stop n logit_bias logprobs response_format reasoning_effort modalities audio "
    "prediction functions function_call top_k min_p repetition_penalty provider transforms usage "
    "include_reasoning thinking chat_template_kwargs enable_thinking "
    "vl_high_resolution_images".split()
)
_RESPONSES_FIELDS = frozenset(
    f"{_SHARED_FIELDS} input instructions max_output_tokens max_tool_calls previous_response_id "
    "text include client_metadata context_management".split()
)
_MESSAGE_FIELDS = words(
    "role content name tool_calls tool_call_id function_call refusal audio reasoning "
    "reasoning_content reasoning_details reasoning_text reasoning_opaque thinking thinking_blocks "
    "partial prefix weight cache_control provider_specific_fields extra_content"
)
_TOOL_FIELDS = words(
    "type name description parameters strict function custom format cache_control defer_loading "
    "input_schema output_schema allowed_callers"
)
_SEARCH_FIELDS = words("type search_context_size user_location external_web_access")
_BASE64 = re.compile(r"[A-Za-z0-9+/=_\s-]*")
_INCLUDE = frozenset({"reasoning.encrypted_content", "message.output_text.logprobs"})

_LOCAL_TOOLS = words("local_shell apply_patch computer computer_use_preview tool_search")
_FILTERED_TOOLS = frozenset({"web_search", "web_search_2025_08_26"})
_LOCAL_CHOICES = frozenset({"function", "custom", "apply_patch", "local_shell"})
_CHOICE_WORDS = ("auto", "none", "required")

_PLAIN_PARTS = words("text refusal input_text output_text summary_text reasoning_text")
_PLAIN_ITEMS = words(
    "function_call reasoning custom_tool_call local_shell_call shell_call_output "
    "apply_patch_call computer_call item_reference web_search_call tool_search_call compaction "
    "compaction_summary ghost_snapshot"
)
_OUTPUT_ITEMS = words(
    "function_call_output custom_tool_call_output local_shell_call_output apply_patch_call_output"
)


def restrict_chat(body: Json, restriction: Restriction) -> Json:
    """A request for a chat completion."""
    kept = _restrict_tools(known_fields(body, _CHAT_FIELDS, restriction), restriction)
    if "messages" in kept:
        kept["messages"] = [
            _restrict_message(message, restriction) for message in list_at(kept, "messages")
        ]
    if "prediction" in kept:
        kept["prediction"] = _restrict_holder(kept["prediction"], restriction)
    return kept


def restrict_responses(body: Json, restriction: Restriction) -> Json:
    """A request for a response."""
    kept = _restrict_tools(known_fields(body, _RESPONSES_FIELDS, restriction), restriction)
    if kept.get("include") is not None:
        wanted = list_at(kept, "include")
        known = [one for one in wanted if isinstance(one, str) and one in _INCLUDE]
        if known != wanted:
            restriction.note("removed from include what belongs to hosted tools")
            kept = replace_list(kept, "include", known)
    if not isinstance(kept.get("instructions") or "", str):
        raise UnrestrictableError("instructions is not a string")
    if isinstance(kept.get("input"), str) or kept.get("input") is None:
        return kept
    items = (_restrict_item(item, restriction) for item in list_at(kept, "input"))
    kept["input"] = [item for item in items if item is not None]
    return kept


# -- tools ------------------------------------------------------------------------


def _restrict_tools(body: Json, restriction: Restriction) -> Json:
    if body.get("tools") is not None:
        tools = _local_tools(list_at(body, "tools"), restriction)
        # An empty list is refused by the provider, and so is a wish about its calls.
        body = replace_list(body, "tools", tools)
    if not body.get("tools") and "functions" not in body:
        body = without(body, "parallel_tool_calls")
    return _restrict_choice(body, restriction)


def _local_tools(tools: list[Any], restriction: Restriction) -> list[Any]:
    restricted = (_restrict_tool(tool, restriction) for tool in tools)
    return [tool for tool in restricted if tool is not None]


def _restrict_tool(tool: Any, restriction: Restriction) -> Any:
    """The tool as it may go on; None: it has to go."""
    kind = kind_of(tool)
    if kind in ("function", "custom") and not _names_a_builtin(tool):
        return known_fields(tool, _TOOL_FIELDS, restriction)
    if kind in _LOCAL_TOOLS:
        return tool
    if kind == "namespace":
        inner = _local_tools(list_at(tool, "tools"), restriction)
        return {**tool, "tools": inner} if inner else None
    if kind == "shell" and kind_of(tool.get("environment")) == "local":
        return tool
    if kind in _FILTERED_TOOLS:
        filters = tool.get("filters") or {}
        if isinstance(filters, dict):
            domains = narrowed_domains(
                restriction, filters.get("allowed_domains"), filters.get("blocked_domains")
            )
            if domains:
                restriction.note("narrowed to the allowlist the tool", kind)
                kept = {name: tool[name] for name in tool if name in _SEARCH_FIELDS}
                return {**kept, "filters": {"allowed_domains": domains}}
    restriction.note("removed the tool", kind or tool)
    return None


def _names_a_builtin(tool: Json) -> bool:
    """Some providers have functions of their own, as ``$web_search``; no other name has a ``$``."""
    function = tool.get("function")
    names = (tool.get("name"), function.get("name") if isinstance(function, dict) else None)
    return any(isinstance(name, str) and name.startswith("$") for name in names)


def _restrict_choice(body: Json, restriction: Restriction) -> Json:
    choice = body.get("tool_choice")
    if choice is None:
        return body
    restricted = _choice(choice, body.get("tools") or [], restriction)
    if restricted is None:
        restriction.note("removed tool_choice, which named a removed tool")
        return without(body, "tool_choice")
    return {**body, "tool_choice": restricted}


def _choice(choice: Any, tools: list[Any], restriction: Restriction) -> Any:
    """The choice as it may go on; None: it has to go."""
    if not tools:
        return None
    if isinstance(choice, str):
        return choice if choice in _CHOICE_WORDS else None
    kind = kind_of(choice)
    if kind == "allowed_tools":
        return _allowed_tools(choice, restriction)
    kept = {kind_of(tool) for tool in tools}
    if kind in _FILTERED_TOOLS:
        return choice if kind in kept else None
    return choice if kind in _LOCAL_CHOICES and not _names_a_builtin(choice) else None


def _allowed_tools(choice: Json, restriction: Restriction) -> Json | None:
    """Chat puts the list one level deeper than responses do."""
    inner = choice.get("allowed_tools")
    holder = inner if isinstance(inner, dict) else choice
    tools = _local_tools(list_at(holder, "tools"), restriction)
    if not tools:
        return None
    changed = {**holder, "tools": tools}
    return {**choice, "allowed_tools": changed} if holder is inner else changed


# -- messages ---------------------------------------------------------------------


def _restrict_message(message: Any, restriction: Restriction) -> Any:
    if not isinstance(message, dict):
        return message
    return _restrict_holder(known_fields(message, _MESSAGE_FIELDS, restriction), restriction)


def _restrict_holder(holder: Any, restriction: Restriction) -> Any:
    """What holds a ``content``, as a message does."""
    if not isinstance(holder, dict) or "content" not in holder:
        return holder
    content = restricted_content(
        holder["content"], lambda part: _restrict_part(part, restriction, "text")
    )
    return {**holder, "content": content}


def _restrict_item(item: Any, restriction: Restriction) -> Any:
    """An item of a response's input; None: it has to go."""
    kind = kind_of(item)
    if isinstance(item, dict) and (kind == "message" or ("type" not in item and "role" in item)):
        word = "output_text" if item.get("role") == "assistant" else "input_text"
        content = restricted_content(
            item.get("content"), lambda part: _restrict_part(part, restriction, word)
        )
        return {**item, "content": content}
    if kind in _OUTPUT_ITEMS:
        output = restricted_content(
            item.get("output"), lambda part: _restrict_part(part, restriction, "input_text")
        )
        return {**item, "output": output}
    if kind == "computer_call_output" and _is_local_picture(item.get("output")):
        return item
    if kind == "shell_call" and kind_of(item.get("environment")) in ("", "local"):
        return item
    if kind == "tool_search_output":
        return {**item, "tools": _local_tools(list_at(item, "tools"), restriction)}
    if kind in _PLAIN_ITEMS:
        return item
    restriction.note("removed the input item", kind or item)
    return None


def _restrict_part(part: Any, restriction: Restriction, text_kind: str) -> Any:
    kind = kind_of(part)
    if kind in _PLAIN_PARTS and not any(_names_a_place(name) for name in part):
        return part
    if _is_local_picture(part) or _is_local_file(part) or _is_local_sound(part):
        return part
    if kind == "thinking":
        inner = part.get("thinking")
        parts = inner if isinstance(inner, list) else []
        kept = [_restrict_part(one, restriction, text_kind) for one in parts]
        return {**part, "thinking": kept} if parts else part
    if isinstance(part, str):
        raise UnrestrictableError("a part of a message is a string, not an object")
    restriction.note("removed the part", kind or part)
    return {"type": text_kind, "text": removed_text(kind or "unknown part")}


def _names_a_place(name: str) -> bool:
    """Whether a field's name is one for what is fetched; no text has it."""
    return name.endswith(("url", "file", "file_id", "image", "video", "source"))


def _is_local_sound(part: Any) -> bool:
    """A sound that lies in the request itself; some providers take a URL in its field."""
    if kind_of(part) != "input_audio":
        return False
    holder = part.get("input_audio")
    data = holder.get("data") if isinstance(holder, dict) else None
    return isinstance(data, str) and _is_no_place(data)


def _is_no_place(data: str) -> bool:
    return is_data_url(data) or _BASE64.fullmatch(data) is not None


def _is_local_picture(part: Any) -> bool:
    """A picture or a film that lies in the request itself."""
    kind = kind_of(part)
    if kind not in ("image_url", "input_image", "computer_screenshot", "video_url"):
        return False
    if part.get("file_id") is not None:
        return False
    value = part.get("video_url" if kind == "video_url" else "image_url")
    return is_data_url(value.get("url") if isinstance(value, dict) else value)


def _is_local_file(part: Any) -> bool:
    """A file that lies in the request itself."""
    kind = kind_of(part)
    if kind not in ("file", "input_file"):
        return False
    holder = part.get("file") if kind == "file" else part
    if not isinstance(holder, dict) or any(holder.get(name) for name in ("file_url", "file_id")):
        return False
    data = holder.get("file_data")
    # Some providers take a URL in this field.
    return isinstance(data, str) and _is_no_place(data)
