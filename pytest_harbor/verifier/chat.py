"""One call of a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from pytest_harbor.errors import JudgeUnavailableError, OptionError, VerifierTimeoutError
from pytest_harbor.model_gateway.prices import Prices
from pytest_harbor.model_gateway.tokens import TokenCount, read_tokens

OPENAI = "https://api.openai.com/v1"
_AGAIN = (408, 409, 429, 500, 502, 503, 504, 529)
_WAITS_SEC = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_CONNECT_SEC = 20.0
_LEAST_SEC = 0.001
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

    def record(self) -> dict[str, Any]:
        """What is written down of it."""
        return {
            "answer": self.text,
            "input_tokens": self.tokens.input if self.tokens else None,
            "output_tokens": self.tokens.output if self.tokens else None,
            "cost_usd": self.cost_usd,
            "seconds": round(self.seconds, 3),
        }


@dataclass(slots=True)
class ChatModel:
    """A model at an endpoint; calls that the endpoint asks to repeat are repeated.

    Attributes:
        model: Its name there; ``provider/name`` where prices are looked up by it.
        base_url: The endpoint, up to ``/chat/completions``.
        api_key: Empty: none is sent.
        retries: How often a call is repeated, up to six times.
        prices: The user's own, as a file.
    """

    model: str
    base_url: str = OPENAI
    api_key: str = field(default="", repr=False)
    retries: int = 4
    prices: Path | None = None

    @classmethod
    def found(
        cls, model: str, base_url: str = "", api_key_env: str = "", prices: str = ""
    ) -> ChatModel:
        """The model of a judge's arguments, in the environment of this process.

        Args:
            model: Its name.
            base_url: Empty: ``OPENAI_BASE_URL``, else OpenAI's.
            api_key_env: Variable with the key.
            prices: File with prices.
        """
        return cls(
            model=model,
            base_url=base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI,
            api_key=os.environ.get(api_key_env, ""),
            prices=Path(prices) if prices else None,
        )

    def ask(
        self, messages: Sequence[Mapping[str, str]], *, timeout_sec: float | None = None
    ) -> Answer:
        """Ask once.

        Args:
            messages: Roles and contents.
            timeout_sec: For the answer, with all repeats and the waits between them.

        Raises:
            JudgeUnavailableError: No answer was to be had.
            VerifierTimeoutError: None within the time.
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
        end = math.inf if timeout_sec is None else time.monotonic() + timeout_sec
        waits = iter(_WAITS_SEC[: self.retries])
        while True:
            try:
                reply = self._send(body, end - time.monotonic())
                wait = next(waits, None) if reply.status_code in _AGAIN else None
                if wait is None:
                    return _checked(reply, self.model)
            except (requests.ConnectionError, requests.Timeout) as error:
                wait = next(waits, None)
                if wait is None and time.monotonic() < end:
                    raise self._unavailable(error) from None
            except (requests.RequestException, ValueError) as error:
                raise self._unavailable(error) from None
            wait = (wait or 0) * random.uniform(1, 1.5)
            if time.monotonic() + wait >= end:
                raise VerifierTimeoutError(f"the judge had no answer within {timeout_sec:.0f} s")
            time.sleep(wait)

    def _send(self, body: Mapping[str, Any], left: float) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        where = f"{self.base_url.rstrip('/')}/chat/completions"
        left = max(left, _LEAST_SEC)
        limits = (min(left, _CONNECT_SEC), None if left == math.inf else left)
        return requests.post(where, json=body, headers=headers, timeout=limits)

    def _unavailable(self, error: Exception) -> JudgeUnavailableError:
        return JudgeUnavailableError(
            f"the judge's model {self.model} at {self.base_url}: {type(error).__name__}:"
            f" {_without(str(error), self.api_key)}"
        )

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


def checked_votes(votes: Any) -> int:
    """How often a judge is asked.

    Raises:
        OptionError: It is no number from 1.
    """
    if isinstance(votes, bool) or not isinstance(votes, int) or votes < 1:
        raise OptionError(f"the judge's votes: expected a whole number from 1, got {votes!r}")
    return votes


def last_object(text: str) -> dict[str, Any]:
    """The JSON object that ends an answer and is in no other; empty where there is none.

    It may stand in a fenced block.
    """
    text = text.strip().removesuffix("```").rstrip()
    decoder, start = json.JSONDecoder(), text.find("{")
    while start >= 0:
        try:
            found, end = decoder.raw_decode(text, start)
        except RecursionError:
            break
        except ValueError:
            end = start + 1
        else:
            if end == len(text):
                return dict(found)
        start = text.find("{", end)
    return {}
