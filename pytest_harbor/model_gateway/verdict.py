"""Whether an agent could work, told by its calls and not by its exit status.

Several agents end with status 0 after a wrong key, a cut stream or an HTML page, and
others with 1 after honest work. So the last word is with the calls: a failure of the
provider's at their end says that the work was broken off, unless the agent had
finished by then.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

from pytest_harbor.model_gateway.call import PROVIDER_FAILURES, CallSummary
from pytest_harbor.model_gateway.error_words import (
    fault_in_words,
    is_of_the_work,
    setting_at_fault,
)

Kind = Literal["worked", "never_called", "provider_failed", "limit"]

_OF_A_REQUEST = frozenset({400, 409, 413, 422})
"""Statuses of a request that is wrong."""
_PATIENCE_SEC = 30.0
"""An agent that has waited so long for an answer's first byte has got none from the provider."""

_BY_STATUS = {
    401: "AgentAuthenticationError",
    402: "ApiUsageLimitError",
    403: "AgentAuthenticationError",
    404: "ModelNotFoundError",
    407: "NetworkConnectionError",
    408: "ApiResponseStalledError",
    429: "ApiRateLimitError",
    529: "ApiOverloadedError",
}
_BY_OUTCOME = {
    "unreachable": "NetworkConnectionError",
    "cut": "ApiConnectionClosedError",
    "stalled": "ApiResponseStalledError",
}
_IN_WORDS = {
    "refused": "the provider refused the call",
    "unreachable": "the provider could not be reached",
    "cut": "the provider's answer broke off before its end",
    "stalled": "the provider's answer stalled",
    "error_event": "the provider sent an error in place of the rest of its answer",
    "malformed": "the provider's answer cannot be read",
    "not_json": "something answered in the provider's place, and not in its protocol",
    "redirect": "the provider sends elsewhere",
}


@dataclass(frozen=True, slots=True)
class SessionVerdict:
    """What the calls say of an agent's work.

    Attributes:
        kind: ``worked``; ``never_called``: no model ever got a request; ``provider_failed``:
            the work was broken off by the provider; ``limit``: by a limit of the run's own.
        is_unable: Whether the reward says nothing of the agent: category ``agent``. A limit
            is part of what was measured, so what it leaves is an honest reward.
        fault: Name of the exception that fits, by Harbor's names; empty: none.
        reason: For the user; empty where it worked.
    """

    kind: Kind
    is_unable: bool = False
    fault: str = ""
    reason: str = ""


def judge(
    calls: Sequence[CallSummary], limit: str | None = None, model: str | None = None
) -> SessionVerdict:
    """The verdict on a trial's calls.

    Args:
        calls: Calls of models, in the order in which they ended.
        limit: The limit that stopped the agent, in words.
        model: The trial's model as the user named it; None: it has none.
    """
    if limit is not None:
        return SessionVerdict("limit", reason=f"the {limit} was reached")
    asked = [call for call in calls if call.outcome not in ("gateway", "limit")]
    if not asked:
        return _never_called(calls)
    ended = [call for call in asked if call.outcome != "client_gone"]
    decisive = _without_others_refusals(ended, model)
    if not decisive:
        return _never_answered(asked)
    answered = frozenset(call.model for call in decisive if call.outcome == "ok")
    counting = _of_the_work(decisive, answered)
    if not _is_failure(counting[-1], answered) or _had_finished(counting):
        return SessionVerdict("worked")
    return _failed(counting[-1])


def _without_others_refusals(calls: list[CallSummary], model: str | None) -> list[CallSummary]:
    """Once the trial's model has answered, a refusal of another is the agent's choice of model.

    Else an agent could ask for one that does not exist, and have its failure left out.
    """
    named = f"/{model or ''}"
    answered = {call.model for call in calls if call.outcome == "ok" and call.model}
    own = {name for name in answered if named.endswith(f"/{name}")}
    if not own:
        return calls
    return [call for call in calls if call.outcome != "refused" or call.model in own]


def _of_the_work(calls: list[CallSummary], answered: Set[str]) -> list[CallSummary]:
    """The calls up to the last that counts: a title that comes late tells nothing of the work."""
    working = [call.conversation for call in calls if call.offers_tools]
    if not working:
        return calls
    counting = (
        at
        for at, call in enumerate(calls, 1)
        if call.offers_tools or call.conversation == working[-1] or _is_failure(call, answered)
    )
    return calls[: max(counting)]


def _is_failure(call: CallSummary, answered: Set[str]) -> bool:
    """Whether the provider is to blame, or what the user has set: a request may be the agent's.

    Args:
        call: The call.
        answered: Models that answered any: a provider that finds fault with every request from
            the first one on takes none of this agent's. To one that takes them, the agent
            could send what reads like a fault of the settings once it is repeated.
    """
    if call.outcome not in PROVIDER_FAILURES:
        return False
    if call.outcome == "refused" and call.status in _OF_A_REQUEST:
        is_doubtful = call.repeats and call.model in answered
        if setting_at_fault(_own_words(call)) and not is_doubtful:
            return True
        return not answered and call.status != 413 and not is_of_the_work(call.error)
    in_words = call.outcome == "error_event" or (call.outcome == "refused" and call.status == 403)
    return not (in_words and is_of_the_work(call.error))


def _own_words(call: CallSummary) -> str:
    """What the provider says itself: the model's name, which it repeats, is the agent's word."""
    if not call.model:
        return call.error
    name = rf"(?<!\w){re.escape(call.model)}(?!\w)"
    return re.sub(name, "…", call.error, flags=re.IGNORECASE)


def _had_finished(calls: Sequence[CallSummary]) -> bool:
    """Whether the agent was done before the failures at the end.

    Some agents make calls of another kind after their work, as to remember it. The
    work was done if its last answer asked for no tool, in a conversation that used tools,
    and the call that failed belongs to another conversation or asks another model.
    """
    answered = [call for call in calls if call.outcome == "ok"]
    using = [call for call in answered if call.asks_for_tool]
    if not using:
        return False
    main = Counter(call.conversation for call in using).most_common(1)[0][0]
    last = [call for call in answered if call.conversation == main][-1]
    failed = calls[-1]
    is_other = failed.conversation != main or failed.model != last.model
    return is_other and not last.asks_for_tool


def _never_called(calls: Sequence[CallSummary]) -> SessionVerdict:
    reason = "the agent never called a model"
    if calls:
        reason += f": the gateway refused its requests, the last with: {calls[-1].error}"
    return SessionVerdict("never_called", True, "AgentUnableError", reason)


def _never_answered(calls: Sequence[CallSummary]) -> SessionVerdict:
    """The agent waited for no call's end."""
    last = calls[-1]
    if any(call.status for call in calls) or last.duration_sec < _PATIENCE_SEC:
        return SessionVerdict("worked")
    reason = f"the provider had not answered after {last.duration_sec:.0f} s"
    return SessionVerdict("provider_failed", True, "ApiResponseStalledError", reason)


def _failed(call: CallSummary) -> SessionVerdict:
    reason = _IN_WORDS.get(call.outcome, "the provider failed")
    if call.outcome == "refused":
        reason += f" with status {call.status}"
    if call.error:
        reason += f": {call.error}"
    return SessionVerdict("provider_failed", True, _fault(call), reason)


def _fault(call: CallSummary) -> str:
    if call.outcome == "error_event":
        return fault_in_words(_own_words(call)) or "ApiInternalServerError"
    if call.outcome == "refused":
        fallback = "ApiInternalServerError" if call.status >= 500 else "UnknownApiError"
        return setting_at_fault(_own_words(call)) or _BY_STATUS.get(call.status, fallback)
    return _BY_OUTCOME.get(call.outcome, "UnknownApiError")
