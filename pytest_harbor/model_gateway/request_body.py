"""A request's body: read once, strictly, so that provider and gateway read the same."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn

from pytest_harbor.model_gateway.hosted import UnrestrictableError, restrict
from pytest_harbor.model_gateway.wire import Route
from pytest_harbor.task.network import NetworkPolicy

Json = dict[str, Any]


class BodyError(Exception):
    """A body that does not go on; the message is for the agent."""


def parse_body(data: bytes) -> Json:
    """The JSON object that a body is.

    Raises:
        BodyError: It is none.
    """
    try:
        body = json.loads(
            data.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise BodyError(f"the request's body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BodyError("the request's body is not a JSON object")
    return body


def prepare_body(
    route: Route, body: Json, policy: NetworkPolicy, *, filters_hold: bool
) -> tuple[Json, list[str]]:
    """The body as it may go on to the provider, and what was changed.

    Raises:
        BodyError: It may not go on.
    """
    if body.get("background"):
        raise BodyError("responses in the background are not let through: nobody could count them")
    if policy.is_open:
        return body, []
    try:
        return restrict(route, body, policy, filters_hold=filters_hold)
    except UnrestrictableError as error:
        raise BodyError(str(error)) from None
    except RecursionError:
        raise BodyError("the request's body is nested too deeply") from None


def asks_for_usage(route: Route, body: Json) -> bool:
    """Whether a stream of chat chunks will end with its counts; other streams always do."""
    if route.operation != "chat" or not body.get("stream"):
        return True
    options = body.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


def with_usage(body: Json) -> Json:
    """The body that asks for a stream's counts."""
    options = body.get("stream_options")
    kept = options if isinstance(options, dict) else {}
    return {**body, "stream_options": {**kept, "include_usage": True}}


def dump(body: Json) -> bytes:
    """A body as it goes on: there is one reading of it.

    Raises:
        BodyError: It is nested too deeply.
    """
    try:
        return json.dumps(body, separators=(",", ":")).encode()
    except RecursionError:
        raise BodyError("the request's body is nested too deeply") from None


def _finite(word: str) -> float:
    value = float(word)
    if not isfinite(value):
        raise ValueError(f"{word} is too large a number")
    return value


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
