"""One call, from the request that came in to what is known of it in the end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from pytest_harbor.model_gateway.answer import Answer
from pytest_harbor.model_gateway.spool import Spool
from pytest_harbor.model_gateway.tokens import TokenCount
from pytest_harbor.model_gateway.wire import Route

Outcome = Literal[
    "ok",
    "refused",
    "unreachable",
    "cut",
    "stalled",
    "error_event",
    "malformed",
    "not_json",
    "redirect",
    "client_gone",
    "limit",
    "gateway",
]
"""How a call ended.

``ok``: answered in full. Not answered, or not in full, by the provider's doing:
``refused`` (a status that is no success), ``unreachable`` (no connection, or none that
lasted to the first byte), ``cut`` (the answer stopped before its end), ``stalled`` (nothing came
for too long), ``error_event`` (an error in place of the rest), ``malformed`` (a part that is no
JSON), ``not_json`` (another page altogether), ``redirect``. By the agent's doing:
``client_gone`` (it did not wait). By the gateway's: ``limit``, ``gateway`` (a request that is
not let through).
"""

PROVIDER_FAILURES = frozenset(
    {
        "refused",
        "unreachable",
        "cut",
        "stalled",
        "error_event",
        "malformed",
        "not_json",
        "redirect",
    }
)


@dataclass(slots=True)
class Call:
    """What is known of one call; filled as it goes.

    Attributes:
        number: From 1, in the order of the requests.
        route: What is asked for.
        model: The model that was asked.
        provider: Who was asked; empty where nobody was.
        streams: Whether the answer is asked for as a stream.
        changes: What was changed in the request, a phrase each.
        status: The provider's HTTP status, or the gateway's own; 0: none.
        outcome: How it ended.
        error: More on a failure.
        retry_after: The provider's word on when to try again.
        is_stream: Whether the answer came as a stream of events.
        answer: What was read from the answer.
        tokens: As the provider counted them; None: it did not.
        cost_usd: None: not known.
        headers: Values of the request's headers that went on.
        request: Body as it came, before anything was changed.
        response: Body as it went to the client.
        first_byte_sec: From the request to the first byte of the answer's body.
        duration_sec: From the request to the answer's end.
    """

    number: int
    route: Route
    model: str = ""
    provider: str = ""
    streams: bool = False
    changes: list[str] = field(default_factory=list)
    status: int = 0
    outcome: Outcome = "client_gone"
    error: str = ""
    retry_after: str = ""
    is_stream: bool = False
    answer: Answer = field(default_factory=Answer)
    tokens: TokenCount | None = None
    cost_usd: float | None = None
    headers: tuple[str, ...] = ()
    request: Spool = field(default_factory=Spool)
    response: Spool = field(default_factory=Spool)
    first_byte_sec: float | None = None
    duration_sec: float = 0.0
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _began: float = field(default_factory=time.perf_counter)

    @property
    def was_accepted(self) -> bool:
        """Whether a provider took it on: only then does it count."""
        return 200 <= self.status < 300 and bool(self.provider)

    def note_first_byte(self) -> None:
        """The first byte of the answer is here."""
        if self.first_byte_sec is None:
            self.first_byte_sec = time.perf_counter() - self._began

    def end(self) -> None:
        """The call is over."""
        self.duration_sec = time.perf_counter() - self._began

    def estimated_tokens(self) -> int:
        """The tokens that limits count: the provider's, else about one in four bytes.

        An agent that hangs up on every answer before its counts must not be free of limits.
        """
        if self.tokens is not None and self.tokens.is_complete:
            return self.tokens.input + self.tokens.output
        return (self.request.size + self.response.size) // 4


@dataclass(frozen=True, slots=True)
class CallSummary:
    """What a verdict needs to know of a call.

    Attributes:
        outcome: How it ended.
        status: HTTP status; 0: none.
        model: The model that was asked.
        error: More on a failure.
        asks_for_tool: Whether the model asked for a tool.
        conversation: The same for calls of one conversation.
        offers_tools: Whether the agent offered the model tools: calls for a title do not.
        duration_sec: From the request to the end.
        repeats: Whether what the error says of a setting may be the request's own words.
    """

    outcome: Outcome
    status: int = 0
    model: str = ""
    error: str = ""
    asks_for_tool: bool = False
    conversation: str = ""
    offers_tools: bool = False
    duration_sec: float = 0.0
    repeats: bool = False
