"""Gemini's generateContent; its JSON may be spelt in camel case or with underscores."""

from __future__ import annotations

from typing import Any

from pytest_harbor.model_gateway.hosted.base import (
    Json,
    Restriction,
    UnrestrictableError,
    removed_text,
    without,
    words,
)

_FIELDS = words(
    "contents systeminstruction tools toolconfig generationconfig safetysettings labels "
    "generatecontentrequest store servicetier"
)
_LOCAL_TOOLS = frozenset({"functiondeclarations", "computeruse"})
_LOCAL_CONFIG = frozenset({"functioncallingconfig"})
_LOCAL_PART = words(
    "text inlinedata functioncall functionresponse thought thoughtsignature executablecode "
    "codeexecutionresult videometadata mediaresolution partmetadata"
)


def restrict_generate(body: Json, restriction: Restriction) -> Json:
    """A request for content, or for the count of its tokens."""
    kept: Json = {}
    for name, value in body.items():
        field = _plain(name)
        if field not in _FIELDS:
            restriction.note("removed the field", name)
        else:
            kept[name] = _restrict_field(field, value, restriction)
    return _without_dangling_config(kept, restriction)


def _restrict_field(field: str, value: Any, restriction: Restriction) -> Any:
    if value is None:
        return None
    if field == "tools":
        return _restrict_tools(value, restriction)
    if field == "contents":
        # One content alone is taken by some as a list of one.
        contents = value if isinstance(value, list) else [value]
        return [_restrict_content(content, restriction) for content in contents]
    if field == "systeminstruction":
        return _restrict_content(value, restriction)
    if field == "toolconfig":
        return _known(value, _LOCAL_CONFIG, "removed from toolConfig", restriction)
    if field == "generatecontentrequest":
        if not isinstance(value, dict):
            raise UnrestrictableError("generateContentRequest is not an object")
        # Of a count alone: elsewhere the path names the model, and a second name is refused.
        named = {"model": value["model"]} if isinstance(value.get("model"), str) else {}
        return {**named, **restrict_generate(without(value, "model"), restriction)}
    return value


def _restrict_tools(tools: Any, restriction: Restriction) -> list[Any]:
    """One object can hold functions of the client and tools of the provider."""
    if not isinstance(tools, list):
        raise UnrestrictableError("tools is not a list")
    kept = [_known(tool, _LOCAL_TOOLS, "removed the tool", restriction) for tool in tools]
    return [tool for tool in kept if tool]


def _without_dangling_config(body: Json, restriction: Restriction) -> Json:
    emptied = {name for name, value in body.items() if _plain(name) == "tools" and value == []}
    has_tools = any(_plain(name) == "tools" and value for name, value in body.items())
    if not has_tools:
        configs = {name for name in body if _plain(name) == "toolconfig"}
        if configs:
            restriction.note("removed toolConfig, which has no tools left")
        emptied |= configs
    return {name: value for name, value in body.items() if name not in emptied}


def _restrict_content(content: Any, restriction: Restriction) -> Any:
    if isinstance(content, str):
        return content
    if not isinstance(content, dict):
        raise UnrestrictableError("a content is not an object")
    return {
        name: _restrict_parts(value, restriction) if _plain(name) == "parts" else value
        for name, value in content.items()
    }


def _restrict_parts(parts: Any, restriction: Restriction) -> Any:
    if parts is None:
        return None
    listed = parts if isinstance(parts, list) else [parts]
    return [_restrict_part(part, restriction) for part in listed]


def _restrict_part(part: Any, restriction: Restriction) -> Any:
    if isinstance(part, str):
        return part
    kept = _known(part, _LOCAL_PART, "removed from a part", restriction)
    if not kept:
        return {"text": removed_text("a part that is not in the request itself")}
    return {
        name: _restrict_function_response(value, restriction)
        if _plain(name) == "functionresponse"
        else value
        for name, value in kept.items()
    }


def _restrict_function_response(value: Any, restriction: Restriction) -> Any:
    """What a function answers with may have parts of its own; ``response`` is free JSON."""
    return _restrict_content(value, restriction) if isinstance(value, dict) else value


def _known(value: Any, known: frozenset[str], what: str, restriction: Restriction) -> Json:
    if not isinstance(value, dict):
        restriction.note(what, value)
        return {}
    kept = {name: one for name, one in value.items() if _plain(name) in known}
    for name in value:
        if name not in kept:
            restriction.note(what, name)
    return kept


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
