"""Tell an agent that could not work from one that worked badly.

A wrong key, an empty quota or a provider's outage says nothing of the agent's
skill; a reward of 0 after it is no measurement. Command line agents report such
things in their output and end with a status other than 0, so the end of the output
is looked at then, and only then. Class names follow Harbor's
(``format/agents.md``, section 5).
"""

from __future__ import annotations

import re

from pytest_harbor.errors import AgentUnableError

_LOOKED_AT_CHARS = 4000


class AgentAuthenticationError(AgentUnableError):
    """Credentials are missing or were refused."""


class ApiUsageLimitError(AgentUnableError):
    """The account's quota or credit is used up."""


class ApiRateLimitError(AgentUnableError):
    """The provider asks to slow down."""


class ApiOverloadedError(AgentUnableError):
    """The provider is overloaded or down."""


class NetworkConnectionError(AgentUnableError):
    """The provider cannot be reached."""


_SIGNS: tuple[tuple[type[AgentUnableError], str], ...] = (
    (
        AgentAuthenticationError,
        r"API Error:? 40[13]\b|\b401 Unauthorized|authentication_error|invalid[ _-]api[ _-]key"
        r"|incorrect api key|invalid x-api-key|permission_error|not logged in",
    ),
    (
        ApiUsageLimitError,
        r"insufficient_quota|credit balance is too low|usage limit reached"
        r"|exceeded your current quota",
    ),
    (ApiRateLimitError, r"API Error:? 429\b|\b429 Too Many Requests|rate_limit_error"),
    (
        ApiOverloadedError,
        r"API Error:? 5\d\d\b|overloaded_error|\b503 Service Unavailable|\b502 Bad Gateway",
    ),
    (
        NetworkConnectionError,
        r"could not resolve host|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|APIConnectionError",
    ),
)
_COMPILED = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _SIGNS)


def unable_error(output: str) -> AgentUnableError | None:
    """The reason why an agent that failed could not work, if its output names one.

    The sign nearest to the end decides: what came before was got over.

    Args:
        output: The end of the agent's output.
    """
    tail = output[-_LOOKED_AT_CHARS:]
    found = [
        (match.end(), kind, match)
        for kind, pattern in _COMPILED
        for match in pattern.finditer(tail)
    ]
    if not found:
        return None
    _, kind, match = max(found, key=lambda item: item[0])
    start = tail.rfind("\n", 0, match.start()) + 1
    line = tail[start:].splitlines()[0].strip()
    return kind(f"the agent could not work, which is not its skill: {line[:300]}")
