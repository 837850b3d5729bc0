"""Tell an agent that could not work from one that worked badly.

A wrong key, an empty quota or a provider's outage says nothing of the agent's
skill; a reward of 0 after it is no measurement. Command line agents report such
things in their output and end with a status other than 0, so the end of the output
is looked at then, and only then. Class names follow Harbor's
(``format/agents.md``, section 5).
"""

from __future__ import annotations

import re

from pytest_harbor.errors import AgentFault, AgentUnableError

_LOOKED_AT_CHARS = 4000
_SHOWN_CHARS = 150


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


class ApiInternalServerError(AgentUnableError):
    """The provider failed."""


class ApiConnectionClosedError(AgentUnableError):
    """The provider's answer broke off."""


class ApiResponseStalledError(AgentUnableError):
    """The provider's answer stopped coming."""


class ModelNotFoundError(AgentUnableError):
    """The provider does not know the model."""


class UnknownApiError(AgentUnableError):
    """Something is wrong on the provider's side that fits nothing else."""


class AgentModelLimitError(AgentFault):
    """A limit of the run's on calls, tokens or cost ended the agent; its work is graded."""


def named_fault(name: str, reason: str) -> AgentUnableError:
    """The error of one of these names."""
    return _kinds().get(name, AgentUnableError)(reason)


def is_unable_name(name: str) -> bool:
    """Whether Harbor's error of this name says that an agent could not work."""
    return name in _kinds()


def _kinds() -> dict[str, type[AgentUnableError]]:
    return {kind.__name__: kind for kind in AgentUnableError.__subclasses__()}


# A status or a phrase counts only as a client of a provider words it. The work itself may be
# a server that answers 401, or a test of one: that is skill, and no reason not to count.
_STATUS = r"(?:API Error:?|Error code:|unexpected status|last status:) ?\(?(?:Repeated )?"
_CLIENT = r"\b(?:openai|anthropic|litellm)\.(?:exceptions\.)?"
_HOST = r"[ :(]+(?:api[.-]|[\w.-]*(?:anthropic|openai|openrouter|googleapis|bedrock|azure)\.)"

_SIGNS: tuple[tuple[type[AgentUnableError], str], ...] = (
    (
        AgentAuthenticationError,
        rf"{_STATUS}40[13]\b|{_CLIENT}(?:Authentication|PermissionDenied)Error"
        r"|authentication_error|permission_error|\binvalid_api_key\b|API_KEY_INVALID"
        r"|incorrect api key provided|invalid x-api-key|API key not valid\. Please"
        r"|invalid api key ·|please run /login"
        r"|missing environment variable:? .?\w*_(?:KEY|TOKEN)|\w_API_KEY environment variable",
    ),
    (
        ApiUsageLimitError,
        r"insufficient_quota|credit balance is too low|exceeded your current quota"
        r"|usage limit reached|you've hit your (?:usage )?limit",
    ),
    (
        ApiRateLimitError,
        rf"{_STATUS}429\b|{_CLIENT}RateLimitError|rate_limit_error|RESOURCE_EXHAUSTED",
    ),
    (
        ApiOverloadedError,
        rf"{_STATUS}5\d\d\b|{_CLIENT}(?:InternalServer|ServiceUnavailable)Error"
        r"|overloaded_error|the model is overloaded",
    ),
    (
        NetworkConnectionError,
        rf"{_CLIENT}APIConnectionError|API Error:? \(?(?:Connection error|Request timed out)"
        rf"|Unable to connect to API|(?:could not resolve host|ENOTFOUND|EAI_AGAIN){_HOST}"
        r"|stream disconnected before completion",
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
    found = [(match, kind) for kind, pattern in _COMPILED for match in pattern.finditer(tail)]
    if not found:
        return None
    match, kind = max(found, key=lambda one: one[0].end())
    error = kind(f"the agent could not work, which is not its skill: {_line_around(match)}")
    error.is_claimed = True
    return error


def _line_around(match: re.Match[str]) -> str:
    """The line of the sign; of a long one, such as a stream's JSON, what is next to the sign."""
    text = match.string
    start = max(text.rfind("\n", 0, match.start()) + 1, match.start() - _SHOWN_CHARS)
    end = text.find("\n", match.end())
    return text[start : min(end if end >= 0 else len(text), match.end() + _SHOWN_CHARS)].strip()
