"""One trial at the gateway: its token, its limits, its record."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from pytest_harbor.model_gateway.call import Call, CallSummary
from pytest_harbor.model_gateway.limits import SessionLimits
from pytest_harbor.model_gateway.prices import Price, Prices
from pytest_harbor.model_gateway.providers import Provider, Upstream
from pytest_harbor.model_gateway.record import CallRecord, Redact
from pytest_harbor.model_gateway.refusal import LIMIT_STATUS, Refusal
from pytest_harbor.model_gateway.usage import SessionUsage
from pytest_harbor.model_gateway.verdict import SessionVerdict, judge
from pytest_harbor.model_gateway.wire import Route, Wire
from pytest_harbor.task.network import NetworkPolicy

MAX_CONCURRENT = 256
"""Calls of one trial that are under way at once; more of them wait."""
MAX_BODIES = 256 * 1024 * 1024
"""Bytes of the requests of one trial that are under way at once."""

_REMEMBERED_CALLS = 2000
_PATHS: dict[str, str] = {"openai": "/v1", "anthropic": "", "gemini": ""}


class RefusedError(Exception):
    """A request that the gateway answers itself."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class GatewaySession:
    """What an agent in one trial may ask of models, and what it asked.

    Attributes:
        token: What the agent has in place of a key; worthless outside of this trial.
        model: The model as the user named it.
        policy: What the agent may reach.
        on_limit: Called once in an agent's work, in a thread of its own, with the limit in words,
            when the agent asks for more than it may.
    """

    def __init__(
        self,
        *,
        model: str | None,
        providers: list[Provider],
        limits: SessionLimits,
        prices: Prices,
        record: Path,
        policy: NetworkPolicy,
        redact: Redact,
        port: int,
        loop: asyncio.AbstractEventLoop,
        writer: Executor,
        on_limit: Callable[[str], None] | None,
        forget: Callable[[GatewaySession], None],
    ) -> None:
        """Made by ``ModelGateway.open_session``."""
        self.token = f"pytest-harbor-{secrets.token_hex(24)}"
        self.model = model
        self.policy = policy
        self.limits = limits
        self.on_limit = on_limit
        self.body_bytes = 0
        self.is_closed = False
        self._providers = providers
        self._prices = prices
        self._keys = frozenset(key for provider in providers for key in provider.secrets())
        self._record = CallRecord(record, self._redactor(redact))
        self._port = port
        self._loop = loop
        self._writer = writer
        self._forget = forget
        self._lock = threading.Lock()
        self._usage = SessionUsage()
        self._summaries: list[CallSummary] = []
        self._limit: str | None = None
        self._has_told = False
        self._numbers = 0
        self._in_flight = 0
        self._spent_tokens = 0
        self._spent_usd = 0.0
        self._room = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- for the trial ------------------------------------------------------------

    def base_url(self, kind: Wire, host: str) -> str:
        """The base URL in the form that clients of a protocol expect.

        Args:
            kind: The protocol; OpenAI's clients want ``/v1`` at the end, the others do not.
            host: The gateway's name as it is seen from the agent.
        """
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{self._port}{_PATHS[kind]}"

    @property
    def kinds(self) -> tuple[Wire, ...]:
        """The protocols that the model's provider speaks."""
        kinds = dict.fromkeys(wire for one in self._providers for wire in one.upstreams)
        return tuple(kinds)

    @property
    def usage(self) -> SessionUsage:
        """What the calls came to so far."""
        with self._lock:
            return self._usage

    @property
    def limit_reached(self) -> str | None:
        """The limit that stopped the agent, in words; None: none did."""
        with self._lock:
            return self._limit

    @property
    def record_fault(self) -> str:
        """Why calls are missing in the record; empty: none is."""
        return self._record.fault

    def settle(self, timeout_sec: float = 1.0) -> None:
        """Wait for calls to be counted whose answers have just left; longer ones go on."""
        if not self.is_closed:
            waiting = asyncio.run_coroutine_threadsafe(self._wait(timeout_sec), self._loop)
            waiting.result()
            self._writer.submit(int).result()  # what was handed in before is written by then

    def begin_work(self, policy: NetworkPolicy) -> None:
        """An agent is about to work, as in the next of several steps: what came before is over.

        Args:
            policy: What it may reach.
        """
        self.settle()
        self.policy = policy
        with self._lock:
            self._summaries.clear()
            self._has_told = False

    def verdict(self) -> SessionVerdict:
        """What the calls say of the agent's work since ``begin_work``."""
        self.settle()
        with self._lock:
            return judge(self._summaries, self._limit, self.model)

    def close(self) -> None:
        """End the calls that are under way, refuse others, and finish the record."""
        if not self.is_closed:
            self.is_closed = True
            self._forget(self)
            asyncio.run_coroutine_threadsafe(self._end_calls(), self._loop).result()
            self._writer.submit(self._record.close).result()

    # -- for the server, on the loop ----------------------------------------------

    @property
    def keys(self) -> frozenset[str]:
        """The real keys, to be masked in whatever comes back."""
        return self._keys

    def upstream(self, route: Route) -> tuple[Provider, Upstream]:
        """Who answers a request.

        Raises:
            RefusedError: Nobody speaks its protocol.
        """
        for provider in self._providers:
            if route.wire in provider.upstreams:
                return provider, provider.upstreams[route.wire]
        names = ", ".join(provider.name for provider in self._providers)
        message = (
            f"pytest-harbor: this trial's provider ({names}) does not speak {route.wire}'s protocol"
        )
        raise RefusedError(Refusal(404, message, "harbor_wrong_protocol"))

    def new_call(self, route: Route) -> Call:
        """A call that has just come in."""
        self._numbers += 1
        return Call(self._numbers, route, model=route.model or "")

    def price(self, provider: Provider, upstream: Upstream, model: str) -> Price | None:
        """A model's price; None where it is not known."""
        return self._prices.price(provider.name, model, is_official=upstream.is_official)

    async def admit(self, model: str, price: Price | None) -> None:
        """Wait for room under the limits.

        Raises:
            RefusedError: There is none, and there will be none.
        """
        if not self.limits.allows(model):
            message = f"pytest-harbor: the model {model[:100]!r} is not among those of this trial"
            raise RefusedError(Refusal(403, message, "harbor_model_not_allowed"))
        if self.limits.max_cost_usd is not None and price is None:
            message = (
                f"pytest-harbor: no price is known for {model[:100]!r}, and the cost is limited"
            )
            raise RefusedError(Refusal(LIMIT_STATUS, message, "harbor_unknown_price"))
        async with self._room:
            await self._room.wait_for(self._has_room_or_never_will)
            reached = self._reached()
            if reached is not None:
                self._stop(reached)
                message = (
                    f"pytest-harbor: the {reached} of this trial is used up; no more are answered"
                )
                raise RefusedError(Refusal(LIMIT_STATUS, message, "harbor_limit_reached"))
            self._in_flight += 1

    async def release(self, call: Call, price: Price | None) -> None:
        """A call that was admitted is over."""
        with self._lock:
            self._usage = self._usage.with_call(call)
            if call.was_accepted:
                tokens = call.estimated_tokens()
                self._spent_tokens += tokens
                self._spent_usd += _spent(call, price, tokens)
        async with self._room:
            self._in_flight -= 1
            self._room.notify_all()

    def write_down(self, call: Call) -> None:
        """Hand a call to the record."""
        call.end()
        self._writer.submit(self._add, call)

    def watch(self, task: asyncio.Task[Any]) -> None:
        """End this task when the session is closed."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- inside -------------------------------------------------------------------

    def _has_room_or_never_will(self) -> bool:
        if self._reached() is not None:
            return True
        calls = self._usage.calls + self._in_flight
        has_calls = self.limits.max_calls is None or calls < self.limits.max_calls
        return has_calls and self._in_flight < MAX_CONCURRENT

    def _reached(self) -> str | None:
        calls, tokens, cost = self._usage.calls, self._spent_tokens, self._spent_usd
        return self._limit or self.limits.reached(calls, tokens, cost)

    def _stop(self, reached: str) -> None:
        with self._lock:
            is_first, self._has_told, self._limit = not self._has_told, True, reached
        if is_first and self.on_limit is not None:
            threading.Thread(target=self.on_limit, args=(reached,), daemon=True).start()

    def _add(self, call: Call) -> None:
        summary = self._record.add(call)
        if call.route.is_generation or call.outcome == "gateway":
            with self._lock:
                self._summaries.append(summary)
                del self._summaries[:-_REMEMBERED_CALLS]

    def _redactor(self, redact: Redact) -> Redact:
        hidden = sorted({*self._keys, self.token}, key=len, reverse=True)

        def redacted(text: str) -> str:
            for secret in hidden:
                if len(secret) > 4:
                    text = text.replace(secret, "[REDACTED]")
            return redact(text)

        return redacted

    async def _wait(self, timeout_sec: float) -> None:
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=timeout_sec)

    async def _end_calls(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _spent(call: Call, price: Price | None, tokens: int) -> float:
    """What a limit counts: where the cost is not known, rather too much than too little."""
    if call.cost_usd is not None:
        return call.cost_usd
    return 0.0 if price is None else tokens * price.highest / 1_000_000


def digest(token: str) -> bytes:
    """What a token is looked up by, so that the look-up's time tells nothing of it."""
    return hashlib.sha256(token.encode(errors="replace")).digest()
