"""One call of a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from pytest_harbor.errors import JudgeUnavailableError
from pytest_harbor.model_gateway.prices import Prices
from pytest_harbor.model_gateway.tokens import TokenCount, read_tokens

OPENAI = "https://api.openai.com/v1"
_AGAIN = (408, 409, 429, 500, 502, 503, 504, 529)
_CONNECT_SEC = 20.0
_QUOTED = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said.

    Attributes:
        text: The message.
        tokens: As the endpoint counted them; None where it did not.
        cost_usd: None where the price is not known.
        seconds: Length of the call, with its retries.
    """

    text: str
    tokens: TokenCount | None
    cost_usd: float | None
    seconds: float


@dataclass(slots=True)
class ChatModel:
    """A model at an endpoint; calls that the endpoint asks to repeat are repeated.

    Attributes:
        model: Its name there; ``provider/name`` where prices are looked up by it.
        base_url: The endpoint, up to ``/chat/completions``.
        api_key: Empty: none is sent.
        retries: How often a call is repeated.
        prices: The user's own, as a file.
    """

    model: str
    base_url: str = OPENAI
    api_key: str = field(default="", repr=False)
    retries: int = 4
    prices: Path | None = None

    def ask(
        self, messages: Sequence[Mapping[str, str]], *, timeout_sec: float | None = None
    ) -> Answer:
        """Ask once.

        Raises:
            JudgeUnavailableError: No answer was to be had.
        """
        started = time.monotonic()
        body = {"model": self._name, "messages": list(messages)}
        found = self._post(body, timeout_sec)
        tokens = read_tokens("chat", found)
        return Answer(_text(found), tokens, self._cost(tokens), time.monotonic() - started)

    @property
    def _name(self) -> str:
        provider, slash, name = self.model.partition("/")
        return name if slash and provider == "openai" else self.model

    def _post(self, body: Mapping[str, Any], timeout_sec: float | None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        where = f"{self.base_url.rstrip('/')}/chat/completions"
        with requests.Session() as session:
            retry = Retry(
                total=self.retries,
                backoff_factor=1,
                backoff_jitter=0.5,
                status_forcelist=_AGAIN,
                allowed_methods=None,
                raise_on_status=False,
            )
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=retry))
            try:
                limits = (_CONNECT_SEC, timeout_sec)
                reply = session.post(where, json=body, headers=headers, timeout=limits)
                return _checked(reply, self.model)
            except (requests.RequestException, ValueError) as error:
                raise JudgeUnavailableError(
                    f"the judge's model {self.model} at {self.base_url}: {type(error).__name__}:"
                    f" {_without(str(error), self.api_key)}"
                ) from None

    def _cost(self, tokens: TokenCount | None) -> float | None:
        if tokens is None:
            return None
        if tokens.cost_usd is not None:
            return tokens.cost_usd
        provider, slash, name = self.model.partition("/")
        table = Prices.from_file(self.prices) if self.prices else Prices()
        known = (provider, name) if slash else ("openai", self.model)
        price = table.price(*known, is_official=self.base_url == OPENAI)
        return price.cost(tokens) if price else None


def _checked(reply: requests.Response, model: str) -> dict[str, Any]:
    if not reply.ok:
        raise JudgeUnavailableError(
            f"the judge's model {model} answered with status {reply.status_code}:"
            f" {reply.text[:_QUOTED]}"
        )
    found = reply.json()
    if not isinstance(found, dict):
        raise ValueError("the answer is no object")
    return found


def _text(answer: Mapping[str, Any]) -> str:
    try:
        text = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        text = None
    return text if isinstance(text, str) else ""


def _without(text: str, secret: str) -> str:
    return text.replace(secret, "[REDACTED]") if secret else text
