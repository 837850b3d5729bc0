"""The side that agents see: whom to listen to, what to let through, how to refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp
from aiohttp import web

from pytest_harbor.model_gateway.call import Call
from pytest_harbor.model_gateway.providers import Provider, Upstream
from pytest_harbor.model_gateway.refusal import Refusal
from pytest_harbor.model_gateway.relay import Outgoing, relay
from pytest_harbor.model_gateway.request_body import (
    BodyError,
    Json,
    asks_for_usage,
    dump,
    parse_body,
    prepare_body,
    with_usage,
)
from pytest_harbor.model_gateway.session import MAX_BODIES, GatewaySession, RefusedError, digest
from pytest_harbor.model_gateway.wire import Route, Wire, credentials, find_route, likely_wire

MAX_BODY = 64 * 1024 * 1024
BODY_SEC = 60.0
"""Seconds that a request's body may take."""


class AgentServer:
    """Answers agents."""

    def __init__(self, sessions: Mapping[bytes, GatewaySession]) -> None:
        """Answer for these sessions, by their tokens' digests."""
        self._sessions = sessions
        self.client: aiohttp.ClientSession | None = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        target = request.raw_path
        wire = likely_wire(target, request.headers)
        if "websocket" in request.headers.get("Upgrade", "").lower():
            # At 426 clients fall back to plain HTTP at once; at 404 they try for seconds.
            return _refused(Refusal(426, "websockets are not spoken here", "no_websocket"), wire)
        if request.method in ("HEAD", "GET") and target == "/":
            return web.Response()
        session = self._session(target, request.headers)
        if session is None:
            message = "pytest-harbor: the token is not one of a running trial"
            return _refused(Refusal(401, message, "invalid_api_key"), wire)
        route = find_route(request.method, target, request.headers)
        if route is None:
            return self._refuse_path(session, request, wire)
        task = asyncio.current_task()
        assert task is not None
        session.watch(task)
        return await self._answer(session, request, route)

    def _session(self, target: str, headers: Mapping[str, str]) -> GatewaySession | None:
        offered = (self._sessions.get(digest(one)) for one in credentials(target, headers))
        found = {session for session in offered if session is not None}
        return found.pop() if len(found) == 1 else None

    def _refuse_path(
        self, session: GatewaySession, request: web.BaseRequest, wire: Wire
    ) -> web.Response:
        path = request.raw_path.partition("?")[0][:200]
        message = f"pytest-harbor: {request.method} {path} is not let through to the provider"
        call = session.new_call(Route(wire, "models", path))
        call.outcome, call.status, call.error = "gateway", 404, message
        session.write_down(call)
        return _refused(Refusal(404, message, "harbor_unknown_path"), wire)

    async def _answer(
        self, session: GatewaySession, request: web.BaseRequest, route: Route
    ) -> web.StreamResponse:
        call = session.new_call(route)
        reserved = 0
        try:
            reserved = _reserve(session, request)
            return await self._forward(session, request, call)
        except RefusedError as error:
            call.status = error.refusal.status
            if call.outcome == "client_gone":
                is_limit = error.refusal.code == "harbor_limit_reached"
                call.outcome, call.error = ("limit" if is_limit else "gateway"), str(error)
            return _refused(error.refusal, route.wire)
        except ConnectionError:
            raise  # the agent's side is gone
        except Exception as error:
            # Whatever broke here, it was not the agent.
            call.outcome = "unreachable"
            call.error = f"the gateway failed ({type(error).__name__})"
            raise
        finally:
            session.body_bytes -= reserved
            session.write_down(call)

    async def _forward(
        self, session: GatewaySession, request: web.BaseRequest, call: Call
    ) -> web.StreamResponse:
        provider, upstream = session.upstream(call.route)
        outgoing = await _outgoing(session, request, call, upstream)
        assert self.client is not None
        if not call.route.is_generation:
            call.provider = provider.name
            return await relay(self.client, request, call, outgoing)
        price = session.price(provider, upstream, call.model)
        await session.admit(call.model, price)
        call.provider = provider.name
        try:
            return await relay(self.client, request, call, outgoing)
        finally:
            call.cost_usd = _cost(session, provider, upstream, call)
            # Shielded, for the client may have gone and this task be cancelled.
            await asyncio.shield(session.release(call, price))


async def _outgoing(
    session: GatewaySession, request: web.BaseRequest, call: Call, upstream: Upstream
) -> Outgoing:
    """The request as it may go on; the call knows afterwards what was asked."""
    if request.method != "POST":
        return Outgoing(upstream, request.method, None, False, session.keys)
    data = await _read(request)
    call.request.write(data)
    try:
        body = parse_body(data)
        _describe(call, body)
        changed, call.changes = prepare_body(
            call.route, body, session.policy, filters_hold=upstream.is_official
        )
        hold_back = not asks_for_usage(call.route, changed)
        if hold_back:
            changed = with_usage(changed)
        is_same = changed is body and _may_be_read_twice(session)
        sent = data if is_same else dump(changed)
    except BodyError as error:
        raise RefusedError(Refusal(400, f"pytest-harbor: {error}", "harbor_refused")) from None
    return Outgoing(upstream, request.method, sent, hold_back, session.keys)


def _may_be_read_twice(session: GatewaySession) -> bool:
    """Under a restriction there must be one reading of a body: no key twice, no odd text."""
    limits = session.limits
    return session.policy.is_open and limits.models is None and limits.max_cost_usd is None


def _describe(call: Call, body: Json) -> None:
    model = body.get("model")
    if call.route.model is None and isinstance(model, str):
        call.model = model[:200]
    call.streams = call.route.streams or bool(body.get("stream"))


def _reserve(session: GatewaySession, request: web.BaseRequest) -> int:
    """Hold room for a request's body.

    Raises:
        RefusedError: It is too large, or too many are under way.
    """
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise RefusedError(Refusal(415, "pytest-harbor: send the body as it is", "harbor_encoded"))
    size = request.content_length
    if size is not None and size > MAX_BODY:
        raise _too_large()
    wanted = size if size is not None else (MAX_BODY // 8 if request.can_read_body else 0)
    if session.body_bytes + wanted > MAX_BODIES:
        message = "pytest-harbor: too many large requests at once"
        raise RefusedError(Refusal(429, message, "harbor_busy", is_final=False, retry_after_sec=1))
    session.body_bytes += wanted
    return wanted


async def _read(request: web.BaseRequest) -> bytes:
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    pieces = bytearray()
    try:
        async with asyncio.timeout(BODY_SEC):
            async for piece in request.content.iter_any():
                pieces += piece
                if len(pieces) > MAX_BODY:
                    raise _too_large()
    except TimeoutError:
        message = "pytest-harbor: the request's body took too long"
        raise RefusedError(Refusal(408, message, "harbor_slow_body", is_final=False)) from None
    return bytes(pieces)


def _too_large() -> RefusedError:
    message = f"pytest-harbor: the request's body is larger than {MAX_BODY // 2**20} MiB"
    return RefusedError(Refusal(413, message, "harbor_too_large"))


def _cost(
    session: GatewaySession, provider: Provider, upstream: Upstream, call: Call
) -> float | None:
    """What a call cost; the provider's own word comes first."""
    if call.tokens is None or not call.was_accepted:
        return None
    if call.tokens.cost_usd is not None:
        return call.tokens.cost_usd
    for model in (call.answer.model, call.model):
        price = session.price(provider, upstream, model) if model else None
        if price is not None:
            return price.cost(call.tokens)
    return None


def _refused(refusal: Refusal, wire: Wire) -> web.Response:
    response = web.Response(
        status=refusal.status, body=refusal.body(wire), headers=refusal.headers()
    )
    if refusal.status in (408, 413, 415, 426):
        response.force_close()
    return response
