"""The model's side of a conversation, over OpenAI's or Anthropic's protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from pytest_harbor.agent.faults import named_fault
from pytest_harbor.agent.model_route import ModelRoute
from pytest_harbor.errors import AgentUnableError

Message = Mapping[str, str]

_TRIES = 6
_CALL_SEC = 900.0
_LONGEST_WAIT_SEC = 60.0
_FAULTS = {
    401: "AgentAuthenticationError",
    403: "AgentAuthenticationError",
    404: "ModelNotFoundError",
    429: "ApiRateLimitError",
    503: "ApiOverloadedError",
    529: "ApiOverloadedError",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said, and what it took, as in a trajectory's metrics."""

    text: str
    metrics: Mapping[str, int]


class Refusal(Exception):
    """One call that came to nothing."""

    def __init__(self, reason: str, status: int = 0, retry_after: str = "") -> None:
        super().__init__(reason)
        self.is_final = 400 <= status < 500 and status not in (408, 409, 429)
        self.status = status
        self.retry_after = retry_after

    def wait_sec(self, tries: int) -> float:
        """Seconds to wait for the next try."""
        asked = float(self.retry_after) if self.retry_after.isdecimal() else 2.0**tries
        return min(asked, _LONGEST_WAIT_SEC)

    def fault(self) -> AgentUnableError:
        """The error of an agent that cannot go on."""
        usual = "ApiInternalServerError" if self.status >= 500 else "UnknownApiError"
        name = _FAULTS.get(self.status, usual) if self.status else "NetworkConnectionError"
        return named_fault(name, f"the agent could not work, which is not its skill: {self}")


class ChatModel:
    """Answers conversations; use it in an ``async with``."""

    def __init__(
        self, route: ModelRoute, temperature: float | None, max_output_tokens: int
    ) -> None:
        self._route = route
        self._options = {} if temperature is None else {"temperature": temperature}
        self._max_output_tokens = max_output_tokens
        self._is_anthropic = "anthropic" in route.base_urls

    async def __aenter__(self) -> ChatModel:
        timeout = aiohttp.ClientTimeout(total=_CALL_SEC)
        # The gateway is in this very process, and behind no proxy.
        self._client = aiohttp.ClientSession(
            timeout=timeout, trust_env=not self._route.is_gateway, headers=self._headers()
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._client.close()

    async def answer(self, messages: Sequence[Message]) -> Answer:
        """The model's next words; what can be got over is tried again.

        Raises:
            AgentUnableError: The model cannot be had.
        """
        for tries in range(_TRIES):
            try:
                return self._read(await self._call(self._body(messages)))
            except Refusal as refusal:
                if refusal.is_final or tries == _TRIES - 1:
                    raise refusal.fault() from None
                await asyncio.sleep(refusal.wait_sec(tries))
        raise AssertionError("the last try answers or raises")

    async def _call(self, body: Mapping[str, Any]) -> Any:
        try:
            async with self._client.post(self._url(), json=body) as response:
                if response.status != 200:
                    text = (await response.text())[:300]
                    reason = f"the model's provider answered {response.status}: {text}"
                    after = response.headers.get("Retry-After", "")
                    raise Refusal(reason, response.status, after)
                return await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Refusal(f"the model cannot be reached: {type(error).__name__}: {error}") from None
        except ValueError:
            raise Refusal(
                "the model's provider answered with something else than JSON", 500
            ) from None

    def _url(self) -> str:
        if self._is_anthropic:
            return self._route.base_urls["anthropic"] + "/v1/messages"
        return self._route.base_urls["openai"] + "/chat/completions"

    def _headers(self) -> dict[str, str]:
        if self._is_anthropic:
            return {"x-api-key": self._route.key, "anthropic-version": "2023-06-01"}
        return {"Authorization": f"Bearer {self._route.key}"}

    def _body(self, messages: Sequence[Message]) -> dict[str, Any]:
        body = {"model": self._route.name, "messages": list(messages), **self._options}
        if not self._is_anthropic:
            return body
        # All up to here is the beginning of the next call, which is cheaper from a cache.
        *earlier, last = messages
        block = {"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}
        body["messages"] = [*earlier, {"role": last["role"], "content": [block]}]
        return {**body, "max_tokens": self._max_output_tokens}

    def _read(self, answer: Any) -> Answer:
        try:
            return _read_anthropic(answer) if self._is_anthropic else _read_openai(answer)
        except (KeyError, IndexError, TypeError, AttributeError):
            raise Refusal("the model's provider answered in no form that is known", 500) from None


def _read_openai(answer: Any) -> Answer:
    usage = answer.get("usage") or {}
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    metrics = {
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": usage.get("completion_tokens"),
        "cached_tokens": cached,
    }
    return Answer(answer["choices"][0]["message"].get("content") or "", _known(metrics))


def _read_anthropic(answer: Any) -> Answer:
    usage = answer.get("usage") or {}
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    metrics = {
        "prompt_tokens": (usage.get("input_tokens") or 0) + cached + written,
        "completion_tokens": usage.get("output_tokens"),
        "cached_tokens": cached,
    }
    text = "".join(block.get("text", "") for block in answer["content"])
    return Answer(text, _known(metrics))


def _known(metrics: Mapping[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in metrics.items() if value is not None}
