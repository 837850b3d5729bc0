"""The three protocols that agents speak, and the few requests of each that are let through."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, urlencode

Wire = Literal["openai", "anthropic", "gemini"]
Operation = Literal["chat", "responses", "messages", "generate", "count", "models"]

GENERATIONS = frozenset({"chat", "responses", "messages", "generate"})

_MODEL = r"[A-Za-z0-9_@-][A-Za-z0-9._@-]*"
_GEMINI = rf"/(?P<version>v1|v1beta|v1alpha)/models/(?P<model>{_MODEL})"

_GEMINI_CALL = "/{version}/models/{model}:{verb}"

_TABLE: tuple[tuple[str, str, Wire, Operation, str], ...] = (
    ("POST", r"(?:/v1)?/chat/completions", "openai", "chat", "/chat/completions"),
    ("POST", r"(?:/v1)?/responses", "openai", "responses", "/responses"),
    ("POST", r"(?:/v1)?/responses/input_tokens", "openai", "count", "/responses/input_tokens"),
    ("GET", r"(?:/v1)?/models", "openai", "models", "/models"),
    ("GET", rf"(?:/v1)?/models/(?P<model>{_MODEL})", "openai", "models", "/models/{model}"),
    ("POST", r"(?:/v1)?/messages", "anthropic", "messages", "/v1/messages"),
    ("POST", r"(?:/v1)?/messages/count_tokens", "anthropic", "count", "/v1/messages/count_tokens"),
    ("GET", r"/(?:v1beta|v1alpha)/models", "gemini", "models", "/v1beta/models"),
    ("GET", _GEMINI, "gemini", "models", "/{version}/models/{model}"),
    ("POST", rf"{_GEMINI}:(?P<verb>generateContent)", "gemini", "generate", _GEMINI_CALL),
    ("POST", rf"{_GEMINI}:(?P<verb>streamGenerateContent)", "gemini", "generate", _GEMINI_CALL),
    ("POST", rf"{_GEMINI}:(?P<verb>countTokens)", "gemini", "count", _GEMINI_CALL),
)
_COMPILED = tuple(
    (method, re.compile(pattern), wire, operation, path)
    for method, pattern, wire, operation, path in _TABLE
)

# Google reads ``$httpHeaders``, ``access_token`` and more from a query: only what is known goes on.
_QUERY = frozenset({"beta", "alt", "limit", "after", "after_id", "before_id", "pageSize"})
_QUERY_VALUE = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True)
class Route:
    """A request that may go on to a provider.

    Attributes:
        wire: The protocol.
        operation: What is asked for.
        path: Path at the provider, below its base URL.
        query: Query at the provider, without ``?``; never holds a credential.
        model: The model, where the path names it.
        streams: Whether the path says that the answer is streamed.
    """

    wire: Wire
    operation: Operation
    path: str
    query: str = ""
    model: str | None = None
    streams: bool = False

    @property
    def is_generation(self) -> bool:
        """Whether a model works on it, so that it counts as a call."""
        return self.operation in GENERATIONS


def find_route(method: str, target: str, headers: Mapping[str, str]) -> Route | None:
    """The route of a request as it came; None: it is not among those let through.

    Args:
        method: The HTTP method.
        target: Path and query exactly as sent. Nothing in the path is decoded, so there
            is no second reading of it: a ``%`` (but for ``%3A``), ``..`` or ``//`` finds no route.
        headers: The request's headers; they tell apart who asks for ``/v1/models``.
    """
    path, _, query = target.partition("?")
    path = re.sub("%3A", ":", path, flags=re.IGNORECASE)
    for wanted, pattern, wire, operation, form in _COMPILED:
        match = pattern.fullmatch(path) if method == wanted else None
        if match is not None:
            names = match.groupdict()
            if operation == "models" and wire == "openai" and "anthropic-version" in headers:
                wire, form = "anthropic", "/v1" + form
            return Route(
                wire,
                operation,
                form.format(**names),
                _known_query(query),
                names.get("model"),
                path.endswith(":streamGenerateContent"),
            )
    return None


def likely_wire(target: str, headers: Mapping[str, str]) -> Wire:
    """The protocol of a request that has no route, for the form of the refusal."""
    if "x-goog-api-key" in headers or "/models/" in target or target.startswith("/v1beta"):
        return "gemini"
    if "anthropic-version" in headers or "x-api-key" in headers or "/messages" in target:
        return "anthropic"
    return "openai"


def credentials(target: str, headers: Mapping[str, str]) -> list[str]:
    """What a request offers as credentials, in any of the places where clients put them."""
    found = [headers.get("x-api-key", ""), headers.get("x-goog-api-key", "")]
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        found.append(value)
    query = target.partition("?")[2]
    found += [value for name, value in _pairs(query) if name == "key"]
    return [value.strip() for value in found if value.strip()]


def _known_query(query: str) -> str:
    kept = [(n, v) for n, v in _pairs(query) if n in _QUERY and _QUERY_VALUE.fullmatch(v)]
    return urlencode(kept)


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, max_num_fields=20)
    except ValueError:
        return []
