"""One call of a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_harbor.errors import OptionError
from pytest_harbor.model_gateway.prices import Prices
from pytest_harbor.model_gateway.tokens import TokenCount, read_tokens
from pytest_harbor.verifier.endpoint import Endpoint, checked_url

OPENAI = "https://api.openai.com/v1"
API_KEY_ENV = "OPENAI_API_KEY"
"""The variable of a key, where none is named."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said.

    Attributes:
        text: The message.
        tokens: As the endpoint counted them; None where it did not.
        cost_usd: None where the price is not known.
        seconds: Length of the call, with its retries.
        stopped: Why it ended, where that is out of the ordinary; a refusal in its own words.
    """

    text: str
    tokens: TokenCount | None
    cost_usd: float | None
    seconds: float
    stopped: str = ""

    def record(self) -> dict[str, Any]:
        """What is written down of it."""
        found = {
            "answer": self.text,
            "input_tokens": self.tokens.input if self.tokens else None,
            "output_tokens": self.tokens.output if self.tokens else None,
            "cost_usd": self.cost_usd,
            "seconds": round(self.seconds, 3),
        }
        return found | ({"stopped": self.stopped} if self.stopped else {})


@dataclass(slots=True)
class ChatModel:
    """A model at an endpoint; calls that the endpoint asks to repeat are repeated.

    Attributes:
        model: Its name there; ``provider/name`` where prices are looked up by it.
        endpoint: Where it is asked.
        prices: The user's own, and those that are known.
    """

    model: str
    endpoint: Endpoint
    prices: Prices = field(default_factory=Prices)

    @classmethod
    def found(
        cls, model: str, base_url: str = "", api_key_env: str = API_KEY_ENV, prices: str = ""
    ) -> ChatModel:
        """The model of a judge's arguments, in the environment of this process.

        Args:
            model: Its name.
            base_url: Empty: ``OPENAI_BASE_URL``, else OpenAI's.
            api_key_env: Variable with the key.
            prices: File with prices.

        Raises:
            OptionError: A value is not accepted, the prices cannot be read, or there is no key
                where one is needed.
        """
        if not (isinstance(model, str) and model.strip()):
            raise OptionError(f"the judge's model: expected its name, got {model!r}")
        for name, value in {"base_url": base_url, "prices": prices}.items():
            if not isinstance(value, str):
                raise OptionError(f"the judge's {name}: expected text, got {value!r}")
        named = "the judge's base_url" if base_url else "OPENAI_BASE_URL"
        where = checked_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI, named)
        known = Prices.from_file(Path(prices)) if prices else Prices()
        return cls(model.strip(), Endpoint(where, _key(api_key_env, where)), known)

    def ask(
        self, messages: Sequence[Mapping[str, str]], *, timeout_sec: float | None = None
    ) -> Answer:
        """Ask once.

        Args:
            messages: Roles and contents.
            timeout_sec: For the answer, with all repeats and the waits between them.

        Raises:
            JudgeUnavailableError: No answer was to be had.
            VerifierTimeoutError: The endpoint was silent until the time was up.
            InterruptedCallError: The endpoint was stopped.
        """
        started = time.monotonic()
        body = {"model": self._name, "messages": [_sendable(one) for one in messages]}
        found = self.endpoint.post(body, timeout_sec)
        tokens = read_tokens("chat", found)
        text, stopped = map(self.endpoint.without_key, _said(found))
        return Answer(text, tokens, self._cost(tokens), time.monotonic() - started, stopped)

    @property
    def _name(self) -> str:
        provider, slash, name = self.model.partition("/")
        return name if slash and provider == "openai" else self.model

    def _cost(self, tokens: TokenCount | None) -> float | None:
        if tokens is None:
            return None
        if tokens.cost_usd is not None:
            return tokens.cost_usd
        provider, slash, name = self.model.partition("/")
        known = (provider, name) if slash else ("openai", self.model)
        price = self.prices.price(*known, is_official=self.endpoint.base_url == OPENAI)
        return price.cost(tokens) if price else None


def _key(variable: str, base_url: str) -> str:
    if not isinstance(variable, str) or not variable:
        raise OptionError(
            f"the judge's api_key_env: expected the name of a variable, got {variable!r}"
        )
    key = os.environ.get(variable, "").strip()
    if not key and (variable != API_KEY_ENV or base_url == OPENAI):
        raise OptionError(
            f"the judge needs a key for {base_url}, and {variable} is not set; set it, or name"
            " another variable with api_key_env, or another endpoint with base_url"
        )
    # A header would be refused with the key in the message.
    if not (key.isascii() and key.isprintable()):
        raise OptionError(
            f"{variable}: expected a key of printable ASCII characters, found others in it"
        )
    return key


def _sendable(message: Mapping[str, str]) -> dict[str, str]:
    """Halves of characters, which endpoints refuse, are marked."""
    return {key: one.encode("utf-8", "replace").decode() for key, one in message.items()}


def _said(answer: Mapping[str, Any]) -> tuple[str, str]:
    """The message's text, and what is out of the ordinary about its end."""
    choice = next(iter(answer["choices"]), None)
    choice = choice if isinstance(choice, dict) else {}
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    reason, refusal = choice.get("finish_reason"), message.get("refusal")
    stopped = "" if reason in (None, "stop", "end_turn", "eos") else str(reason)
    return _text(message.get("content")), f"refused: {refusal}" if refusal else stopped


def _text(content: Any) -> str:
    if isinstance(content, list):  # parts, as some endpoints answer
        parts = [one.get("text") for one in content if isinstance(one, dict)]
        return "".join(one for one in parts if isinstance(one, str))
    return content if isinstance(content, str) else ""


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
