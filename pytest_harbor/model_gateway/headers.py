"""Which headers go on, and which stop at the gateway.

Clients send ids of installations, sessions and accounts, and credentials; providers
send cookies and the account's name. So both ways only what is known to matter passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_REQUEST = frozenset(
    {
        "accept",
        "anthropic-beta",
        "anthropic-version",
        "idempotency-key",
        "openai-beta",
        "user-agent",
        "x-app",
        "x-goog-api-client",
        "x-stainless-retry-count",
        "x-stainless-timeout",
    }
)
_RESPONSE = frozenset(
    {
        "cache-control",
        "content-type",
        "openai-model",
        "openai-processing-ms",
        "openai-version",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-request-id",
        "x-should-retry",
    }
)
_RESPONSE_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")


def request_headers(sent: Mapping[str, str]) -> dict[str, str]:
    """What goes on to a provider, without credentials.

    The answer is asked for as it is: the record has to read it, and a compressed one
    could carry a key past the gateway.
    """
    kept = {name.lower(): value for name, value in sent.items() if name.lower() in _REQUEST}
    return {**kept, "accept-encoding": "identity"}


def response_headers(received: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What goes on to the client."""
    return [(name, value) for name, value in received if _passes_back(name.lower())]


def _passes_back(name: str) -> bool:
    return name in _RESPONSE or name.startswith(_RESPONSE_PREFIXES)
