"""Following the engine's long works, pulls and builds, with a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import requests
import urllib3.exceptions

from pytest_harbor.environment.docker.attach import Deadline, DeadlinePassedError
from pytest_harbor.environment.docker.client import ApiClient, Engine

_TIMEOUTS = (TimeoutError, requests.exceptions.Timeout, urllib3.exceptions.TimeoutError)


class ProgressStream:
    """The events of one long request; leaving it closes the connection, which ends the work.

    The SDK gives the events and hides the connection, so the response is caught on its
    way: without it a work that says nothing could not be cut off.
    """

    def __init__(self, engine: Engine, deadline: Deadline) -> None:
        self._api = engine.api
        self._deadline = deadline
        self._usual_timeout = engine.api.timeout
        self._response: requests.Response | None = None

    def __enter__(self) -> Self:
        self._api.hooks["response"].append(self._catch)
        # The first event may be long in coming: the engine sends no header before it.
        self._api.timeout = _at_least(self._deadline.remaining)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._api.hooks["response"].remove(self._catch)
        self._api.timeout = self._usual_timeout
        if self._response is not None:
            self._response.close()

    def events(
        self, request: Callable[[ApiClient], Iterator[dict[str, Any]]]
    ) -> Iterator[dict[str, Any]]:
        """Send the request and give its events as they come.

        Raises:
            DeadlinePassedError: Time is up.
        """
        if self._deadline.passed:
            raise DeadlinePassedError
        try:
            events = request(self._api)
            while not self._deadline.passed:
                self._limit_wait()
                event = next(events, None)
                if event is None:
                    return
                yield event
        except _TIMEOUTS as error:
            raise DeadlinePassedError from error
        raise DeadlinePassedError

    def _catch(self, response: requests.Response, **_: Any) -> None:
        self._response = response

    def _limit_wait(self) -> None:
        stream = getattr(getattr(self._response, "raw", None), "_fp", None)
        sock = getattr(getattr(getattr(stream, "fp", None), "raw", None), "_sock", None)
        if sock is not None:
            sock.settimeout(_at_least(self._deadline.remaining))


def _at_least(seconds: float | None) -> float | None:
    """No time left is not what 0 means to a socket."""
    return None if seconds is None else max(seconds, 0.001)
