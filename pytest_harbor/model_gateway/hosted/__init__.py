"""What providers run outside the box, taken out of requests where the network is restricted.

A hosted web search, a connector to a remote MCP server or a picture's URL has the
provider fetch what the box may not. Kinds that are known to be local pass; whatever
else a request holds is taken out, and what then points at nothing goes with it.
Providers add kinds monthly: a kind that is not known here is not let through.

All functions are pure: plain JSON in, plain JSON out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_harbor.model_gateway.hosted.anthropic import restrict_messages
from pytest_harbor.model_gateway.hosted.base import Json, Restriction, UnrestrictableError
from pytest_harbor.model_gateway.hosted.gemini import restrict_generate
from pytest_harbor.model_gateway.hosted.models import refuse_search_model
from pytest_harbor.model_gateway.hosted.openai import restrict_chat, restrict_responses
from pytest_harbor.model_gateway.wire import Route
from pytest_harbor.task.network import NetworkPolicy

__all__ = ["UnrestrictableError", "restrict"]

_BY_OPERATION: dict[tuple[str, str], Callable[[Json, Restriction], Json]] = {
    ("openai", "chat"): restrict_chat,
    ("openai", "responses"): restrict_responses,
    ("openai", "count"): restrict_responses,
    ("anthropic", "messages"): restrict_messages,
    ("anthropic", "count"): restrict_messages,
    ("gemini", "generate"): restrict_generate,
    ("gemini", "count"): restrict_generate,
}


def restrict(
    route: Route, body: Json, policy: NetworkPolicy, *, filters_hold: bool = False
) -> tuple[Json, list[str]]:
    """A request's body without anything that reaches past the policy.

    Args:
        route: What is asked for.
        body: The request.
        policy: What the trial's agent may reach.
        filters_hold: Whether the provider is known to keep to the domain filters of its own
            tools; without that they are taken out and never narrowed.

    Returns:
        The body, and what was changed, a phrase each; the same body where nothing was.

    Raises:
        UnrestrictableError: It cannot be made to fit; the message says why.
    """
    restriction = Restriction(policy, filters_hold)
    for model in (route.model, body.get("model")):
        refuse_search_model(model)
    changed: dict[str, Any] = _BY_OPERATION[route.wire, route.operation](body, restriction)
    return (changed, restriction.notes) if restriction.notes else (body, [])
