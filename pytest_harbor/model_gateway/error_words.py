"""What a provider's error says in words, where its status does not.

Some providers tell a wrong key, an empty account or an unknown model by the status of a
request that is wrong, and an error within a stream has no status of its own.
"""

from __future__ import annotations

import re

_SETTINGS: tuple[tuple[str, str], ...] = (
    (
        "ApiUsageLimitError",
        r"credit balance|insufficient_quota|exceeded your current quota|usage limit",
    ),
    (
        "AgentAuthenticationError",
        r"api[ _]key[ _](?:not valid|invalid)|incorrect api key|invalid api key"
        r"|organization (?:has been disabled|must be verified)|location is not supported",
    ),
    (
        "ModelNotFoundError",
        r"model_not_found|model not exist|\binvalid model\b|not a valid model"
        r"|\bmodel\b.{0,80}\b(?:does not exist|not found)|\bmodel \S+ is not supported",
    ),
)
_STATES: tuple[tuple[str, str], ...] = (
    ("ApiRateLimitError", r"rate.?limit|resource_exhausted|\b429\b"),
    ("ApiOverloadedError", r"overload|unavailable|\b(?:503|529)\b"),
)
_TELLING_CHARS = 8
"""Shorter parts of a provider's words stand in any request by chance."""
_OF_THE_WORK = re.compile(
    r"context[ _](?:length|window|limit)|maximum context|too (?:long|large|many tokens)"
    r"|exceeds? the (?:maximum|model)|content[ _](?:policy|filter)|moderation|flagged"
    r"|invalid_prompt|safety",
    re.IGNORECASE,
)


def setting_at_fault(text: str, asked: str = "") -> str | None:
    """The name of the fault, where the user's key, account or model is at fault.

    Args:
        text: The error.
        asked: Texts of the request: words that it holds do not count.
    """
    return _told(text, _SETTINGS, asked)


def fault_in_words(text: str) -> str | None:
    """The same, and the provider's own troubles."""
    return _told(text, (*_SETTINGS, *_STATES))


def is_of_the_work(text: str) -> bool:
    """Whether a request is too long, or not to be answered: the agent wrote it."""
    return _OF_THE_WORK.search(text) is not None


def _told(text: str, table: tuple[tuple[str, str], ...], asked: str = "") -> str | None:
    asked = asked.lower()
    for name, words in table:
        for match in re.finditer(words, text, re.IGNORECASE):
            if not _is_held(match[0].lower(), asked):
                return name
    return None


def _is_held(words: str, asked: str) -> bool:
    """Whether a request holds these words, or a telling part: the rest may stand around it."""
    for start in re.finditer(r"\b\w", words):
        end = re.compile(r"\w\b").search(words, start.start() + _TELLING_CHARS - 1)
        if end and words[start.start() : end.end()] in asked:
            return True
    return False
