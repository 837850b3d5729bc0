"""Calls of an OpenAI-compatible endpoint: in time, bounded, and repeated where that may help."""

from __future__ import annotations

import json
import math
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import requests
from requests.exceptions import ChunkedEncodingError, ContentDecodingError

from pytest_harbor.errors import JudgeUnavailableError, OptionError, VerifierTimeoutError

_AGAIN = (408, 409, 429, 500, 502, 503, 504, 529)
_OF_THE_REQUEST = (400, 413, 422)
"""Statuses that say nothing of what else may be asked: mostly a prompt that is too long."""
_WAITS_SEC = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_LONGEST_WAIT_SEC = 300.0
"""What an endpoint asks to wait beyond it is not waited for."""
_CONNECT_SEC = 20.0
_SILENT_SEC = 600.0
"""Without a byte of an answer, where the call has no limit of its own."""
_MAX_BYTES = 16 * 1024**2
_QUOTED = 300
_HIDDEN = "[REDACTED]"


class InterruptedCallError(Exception):
    """Nobody waits for the answer any more."""


class _LateError(Exception):
    """There was no answer in time."""


class _Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def quoted(self) -> str:
        return self.data[: 4 * _QUOTED].decode("utf-8", "replace")[:_QUOTED]

    @property
    def is_to_be_repeated(self) -> bool:
        # Some that are out of quota say so with a status that otherwise asks to come again.
        return self.status in _AGAIN and self.headers.get("x-should-retry") != "false"

    @property
    def wait_sec(self) -> float:
        """What it asks to wait."""
        found = _seconds(self.headers.get("retry-after-ms", "")) / 1000
        return found or _seconds(self.headers.get("retry-after", ""))


_Answers: TypeAlias = queue.SimpleQueue[_Reply | Exception]


@dataclass(slots=True)
class Endpoint:
    """Where a model is asked.

    Attributes:
        base_url: Up to ``/chat/completions``.
        api_key: Empty: none is sent.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    _waiting: set[_Answers] = field(default_factory=set, repr=False)
    _is_over: threading.Event = field(default_factory=threading.Event, repr=False)

    def post(self, body: Mapping[str, Any], timeout_sec: float | None) -> dict[str, Any]:
        """Ask once, and again where it may help.

        Args:
            body: What is sent.
            timeout_sec: For the answer, with all repeats and the waits between them.

        Raises:
            JudgeUnavailableError: No answer was to be had.
            VerifierTimeoutError: It was silent until the time was up.
            InterruptedCallError: :meth:`stop` was called.
        """
        end = math.inf if timeout_sec is None else time.monotonic() + timeout_sec
        waits = iter(_WAITS_SEC)
        while True:
            asked = 0.0
            try:
                reply = self._within(end - time.monotonic(), self._sender(body, end))
                if not reply.is_to_be_repeated:
                    return self._object(reply)
                problem, asked = self._told(reply), reply.wait_sec
            except _LateError:
                text = f"the judge had no answer within {timeout_sec:.0f} s"
                raise VerifierTimeoutError(text) from None
            except _BROKEN as error:
                problem = f"{type(error).__name__}: {error}"
            except (requests.RequestException, ValueError) as error:
                raise self._unavailable(f"{type(error).__name__}: {error}") from None
            self._wait(next(waits, None), asked, end, problem)

    def stop(self) -> None:
        """End what waits for an answer, and ask no more."""
        self._is_over.set()
        for one in list(self._waiting):
            one.put(InterruptedCallError())

    def without_key(self, text: str) -> str:
        """The text without the key, wherever somebody repeats it."""
        return text.replace(self.api_key, _HIDDEN) if self.api_key else text

    def _wait(self, wait: float | None, asked: float, end: float, problem: str) -> None:
        if wait is None:
            raise self._unavailable(problem)
        wait = max(wait * random.uniform(1, 1.5), asked)
        if wait > _LONGEST_WAIT_SEC or time.monotonic() + wait >= end:
            told = f"; it asks to wait {asked:g} s" if asked else ""
            raise self._unavailable(f"{problem}{told}, and there is no time to ask again")
        if self._is_over.wait(wait):
            raise InterruptedCallError

    def _within(self, seconds: float, call: Callable[[], _Reply]) -> _Reply:
        """What a call gives, in time: an endpoint that sends a byte now and then has no more."""
        answers: _Answers = queue.SimpleQueue()

        def work() -> None:
            try:
                answers.put(call())
            except Exception as error:  # noqa: BLE001 - raised again by who waits
                answers.put(error)

        self._waiting.add(answers)
        try:
            if self._is_over.is_set():
                raise InterruptedCallError
            threading.Thread(target=work, name="pytest-harbor-judge", daemon=True).start()
            found = answers.get(timeout=None if seconds == math.inf else max(seconds, 0.0))
        except queue.Empty:
            raise _LateError from None
        finally:
            self._waiting.discard(answers)
        if isinstance(found, Exception):
            raise found
        return found

    def _sender(self, body: Mapping[str, Any], end: float) -> Callable[[], _Reply]:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        where = f"{self.base_url.rstrip('/')}/chat/completions"

        def send() -> _Reply:
            left = max(min(end - time.monotonic(), _SILENT_SEC), 0.001)
            limits = (min(left, _CONNECT_SEC), left)
            sent = requests.post(where, json=body, headers=headers, timeout=limits, stream=True)
            with sent as reply:
                data = bytearray()
                for piece in reply.iter_content(65536):
                    data += piece
                    if len(data) > _MAX_BYTES:
                        raise ValueError(f"an answer of more than {_MAX_BYTES // 1024**2} MiB")
            return _Reply(reply.status_code, reply.headers, bytes(data))

        return send

    def _object(self, reply: _Reply) -> dict[str, Any]:
        if not 200 <= reply.status < 300:
            raise self._unavailable(self._told(reply), reply.status in _OF_THE_REQUEST)
        try:
            found = json.loads(reply.data)
        except (ValueError, RecursionError):
            found = None
        # Some routers put a provider's error into an answer of status 200.
        if not isinstance(found, dict) or not isinstance(found.get("choices"), list):
            raise self._unavailable(f"an answer without choices: {reply.quoted}")
        return found

    def _told(self, reply: _Reply) -> str:
        return f"status {reply.status}: {reply.quoted}"

    def _unavailable(self, problem: str, is_refused: bool = False) -> JudgeUnavailableError:
        text = self.without_key(f"the judge's endpoint {self.base_url}: {problem}")
        error = JudgeUnavailableError(text)
        error.is_refused = is_refused
        return error


_BROKEN = (
    requests.ConnectionError,
    requests.Timeout,
    ChunkedEncodingError,
    ContentDecodingError,
)


def checked_url(url: str, name: str) -> str:
    """A base URL as it may be used.

    Args:
        url: The URL.
        name: Where it was given, for messages.

    Raises:
        OptionError: It is none, or has parts that do not belong there.
    """
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        raise OptionError(f"{name}: expected a URL, got one that cannot be read") from None
    if parts.username is not None or parts.password is not None:
        raise OptionError(
            f"{name}: expected a URL without a user's name and password, as it is written into"
            " files; name the variable that holds a key with api_key_env"
        )
    has_host = parts.scheme in ("http", "https") and parts.hostname and port_is_valid
    if not has_host or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise OptionError(
            f"{name}: expected http:// or https:// with a host, up to what stands before"
            f" /chat/completions, got {url!r}"
        )
    return url.rstrip("/")


def _seconds(value: str) -> float:
    """What ``Retry-After`` says: seconds, or a time; 0 where it says nothing of use."""
    try:
        found = float(value)
    except ValueError:
        try:
            found = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return max(found, 0.0) if math.isfinite(found) else 0.0
