"""Answers that the gateway gives itself, worded as the provider would word them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pytest_harbor.model_gateway.wire import Wire

_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_GEMINI_STATUS = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

# A limit's refusal has to look final. 400 ends six of seven clients at their first call, where
# 401 and 429 have some go on for minutes; the seventh is stopped from outside.
LIMIT_STATUS = 400


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer in the gateway's own name.

    Attributes:
        status: The HTTP status.
        message: For the agent's eyes and the record's.
        code: A short word for programs.
        is_final: Whether to try again is of no use.
        retry_after_sec: When to try again, where that is known.
    """

    status: int
    message: str
    code: str
    is_final: bool = True
    retry_after_sec: int | None = None

    def headers(self) -> dict[str, str]:
        """Headers of the answer; the providers' own SDKs read ``x-should-retry``."""
        headers = {
            "Content-Type": "application/json",
            "x-should-retry": "false" if self.is_final else "true",
        }
        if self.retry_after_sec is not None:
            headers["Retry-After"] = str(self.retry_after_sec)
        return headers

    def body(self, wire: Wire) -> bytes:
        """The answer's body in the form of a protocol's errors."""
        return json.dumps(_FORMS[wire](self)).encode()


def _openai(refusal: Refusal) -> dict[str, object]:
    fallback = "server_error" if refusal.status >= 500 else "invalid_request_error"
    kind = _OPENAI_TYPES.get(refusal.status, fallback)
    error = {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}
    return {"error": error}


def _anthropic(refusal: Refusal) -> dict[str, object]:
    fallback = "api_error" if refusal.status >= 500 else "invalid_request_error"
    kind = _ANTHROPIC_TYPES.get(refusal.status, fallback)
    return {"type": "error", "error": {"type": kind, "message": refusal.message}}


def _gemini(refusal: Refusal) -> dict[str, object]:
    fallback = "INTERNAL" if refusal.status >= 500 else "INVALID_ARGUMENT"
    status = _GEMINI_STATUS.get(refusal.status, fallback)
    return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}


_FORMS = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini}
