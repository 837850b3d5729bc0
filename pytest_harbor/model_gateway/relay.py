"""One call passed on: the request to the provider, the answer back, piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp import web
from yarl import URL

from pytest_harbor.model_gateway.answer import BodyReader, StreamReader
from pytest_harbor.model_gateway.call import Call
from pytest_harbor.model_gateway.headers import request_headers, response_headers
from pytest_harbor.model_gateway.masking import KeyMask, UsageFilter
from pytest_harbor.model_gateway.providers import Upstream
from pytest_harbor.model_gateway.refusal import Refusal
from pytest_harbor.model_gateway.session import RefusedError

CONNECT_SEC = 30.0
SILENCE_SEC = 900.0
"""Seconds without a byte after which an answer has stalled; models think for long."""
SLOW_CLIENT_SEC = 120.0
"""Seconds for which a client may leave an answer lying."""

_SHOWN_ERROR = 2000


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What goes to the provider.

    Attributes:
        upstream: Where to.
        method: The HTTP method.
        body: The body; None: none.
        hold_back_usage: Whether the client did not ask for the stream's counts.
        keys: What is masked in the answer.
    """

    upstream: Upstream
    method: str
    body: bytes | None
    hold_back_usage: bool
    keys: frozenset[str]


async def relay(
    client: aiohttp.ClientSession, request: web.BaseRequest, call: Call, outgoing: Outgoing
) -> web.StreamResponse:
    """Ask the provider, and pass its answer on.

    Nothing is tried again here: the client knows how, and reads the provider's own word on it.

    Raises:
        RefusedError: There is no answer to pass on.
    """
    try:
        answer = await _ask(client, request, call, outgoing)
    except TimeoutError:
        raise _failed(call, "stalled", 504, "the provider did not answer in time") from None
    except (aiohttp.ClientError, OSError) as error:
        # The kind alone: its text may hold the whole URL.
        message = f"the provider could not be reached ({type(error).__name__})"
        raise _failed(call, "unreachable", 502, message) from None
    try:
        if 300 <= answer.status < 400:
            raise _redirected(call, answer)
        return await _pass_on(request, call, outgoing, answer)
    finally:
        answer.close()


async def _ask(
    client: aiohttp.ClientSession, request: web.BaseRequest, call: Call, outgoing: Outgoing
) -> aiohttp.ClientResponse:
    agents = request_headers(request.headers)
    call.headers = tuple(agents.values())
    headers = {**agents, **outgoing.upstream.auth_headers()}
    if outgoing.body is not None:
        headers["content-type"] = "application/json"
    route = call.route
    url = outgoing.upstream.base_url + route.path + (f"?{route.query}" if route.query else "")
    return await client.request(
        outgoing.method,
        URL(url, encoded=True),
        data=outgoing.body,
        headers=headers,
        # A redirect would carry the key to wherever it points.
        allow_redirects=False,
        proxy=_proxy(url),
        skip_auto_headers=("User-Agent", "Accept"),
    )


async def _pass_on(
    request: web.BaseRequest, call: Call, outgoing: Outgoing, answer: aiohttp.ClientResponse
) -> web.StreamResponse:
    call.status = answer.status
    call.retry_after = answer.headers.get("Retry-After", "")
    call.is_stream = answer.content_type == "text/event-stream"
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    for name, value in response_headers(answer.headers.items()):
        response.headers.add(name, value)
    if not outgoing.hold_back_usage and "Content-Encoding" not in answer.headers:
        response.content_length = answer.content_length
    await response.prepare(request)
    try:
        async with aclosing(_pieces(call, outgoing, answer)) as pieces:
            async for piece in pieces:
                async with asyncio.timeout(SLOW_CLIENT_SEC):
                    await response.write(piece)
    except (TimeoutError, ConnectionError):
        _hang_up(request)  # a client that leaves its answer lying is as good as gone
        return response
    if call.outcome in ("cut", "stalled") and call.error:
        # The client has to see that this is not the end.
        _hang_up(request)
        return response
    await response.write_eof()
    return response


async def _pieces(
    call: Call,
    outgoing: Outgoing,
    answer: aiohttp.ClientResponse,
) -> AsyncGenerator[bytes, None]:
    """The answer's bytes for the client; the call knows afterwards how it ended."""
    mask = KeyMask(outgoing.keys)
    reader, held = _readers(call, outgoing)
    try:
        async for received in answer.content.iter_any():
            if call.first_byte_sec is None:
                call.note_first_byte()
                call.is_stream = call.is_stream or _looks_like_events(call, received)
                reader, held = _readers(call, outgoing)
            piece = mask.feed(received)
            call.response.write(piece)
            reader.feed(piece)
            if out := (held.feed(piece) if held else piece):
                yield out
    except TimeoutError:
        call.outcome, call.error = "stalled", "no byte came for too long"
        return
    except (aiohttp.ClientError, OSError) as error:
        call.outcome, call.error = "cut", f"the connection broke off ({type(error).__name__})"
        return
    finally:
        call.tokens = reader.answer.tokens
        if call.status < 400 and reader.answer.ending() == "ok":
            call.outcome = "ok"  # clients hang up once they have the model's last word
    rest = mask.finish()
    call.response.write(rest)
    reader.feed(rest)
    out = held.feed(rest) + held.finish() if held else rest
    if out:
        yield out
    _conclude(call, reader)


def _readers(
    call: Call, outgoing: Outgoing
) -> tuple[StreamReader | BodyReader, UsageFilter | None]:
    """What reads the answer, and what holds its counts back."""
    reader = (StreamReader if call.is_stream else BodyReader)(call.route.operation)
    call.answer = reader.answer
    return reader, UsageFilter() if outgoing.hold_back_usage and call.is_stream else None


def _looks_like_events(call: Call, piece: bytes) -> bool:
    """Whether this is a stream whatever its type says: clients go by what they asked for."""
    return call.streams and piece.lstrip().startswith((b"data:", b"event:", b":"))


def _conclude(call: Call, reader: StreamReader | BodyReader) -> None:
    """The answer came to its end; say how."""
    if call.status >= 400:
        call.outcome = "refused"
        call.error = call.response.read()[:_SHOWN_ERROR].decode(errors="replace").strip()
        return
    ending = reader.finish()
    is_page = not call.is_stream and call.response.read()[:200].lstrip().startswith(b"<")
    call.outcome = "not_json" if is_page else ending
    call.error = "an HTML page" if is_page else reader.answer.error
    call.tokens = reader.answer.tokens


def _hang_up(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _failed(call: Call, outcome: str, status: int, message: str) -> RefusedError:
    call.outcome, call.error = outcome, message  # type: ignore[assignment]
    refusal = Refusal(status, f"pytest-harbor: {message}", "harbor_upstream", is_final=False)
    return RefusedError(refusal)


def _redirected(call: Call, answer: aiohttp.ClientResponse) -> RefusedError:
    host = urlsplit(answer.headers.get("Location", "")).hostname or "an unknown place"
    message = (
        f"the provider redirects to {host[:200]}; redirects are not followed, since the key would "
        "go along. Set the provider's base URL to where it points"
    )
    return _failed(call, "redirect", 502, message)


def _proxy(url: str) -> str | None:
    """The proxy that the user's environment names.

    The library's own way would read ``.netrc`` as well, and put what it finds in the key's place.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("localhost", "127.0.0.1", "::1") or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)
