"""The server: real HTTP on a port of this machine, in a thread of its own."""

import asyncio
import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from . import wires
from .script import Script, Step, Turn

_OPERATIONS = (
    (r".*/chat/completions", "openai", "chat"),
    (r".*/responses", "openai", "responses"),
    (r".*/messages", "anthropic", "messages"),
    (r".*:(stream)?[gG]enerateContent", "gemini", "generate"),
)
_HTML = "<html><body>Please sign in</body></html>"


@dataclass(frozen=True)
class Received:
    """One request as it came; names of headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class ModelServer:
    """Serves a script until it is closed.

    Attributes:
        received: Every request, in order.
        hung_up: Calls whose client was gone before their end.
        port: Where it listens.
    """

    def __init__(
        self,
        turns: Sequence[Step] = (),
        *,
        default: Turn | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.script = Script(turns, default=default)
        self.received: list[Received] = []
        self.hung_up = 0
        self.port = 0
        self._host = host
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def root(self) -> str:
        """The base URL without a version; OpenAI's clients want ``/v1`` behind it."""
        return f"http://{self._host}:{self.port}"

    @property
    def calls(self) -> list[Received]:
        """The calls of a model among what was received."""
        return [one for one in self.received if _operation(one.path)[1]]

    async def _listen(self) -> None:
        server = web.Server(self._answer, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        chunks = [piece async for piece in request.content.iter_any()]
        body = _json(b"".join(chunks))
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append(Received(request.method, request.raw_path, headers, body))
        wire, operation = _operation(request.raw_path)
        if not operation:
            return self._answer_other(request)
        turn = self.script.next(body)
        try:
            return await self._say(request, wire, operation, turn, body)
        except asyncio.CancelledError:
            self.hung_up += 1
            raise

    def _answer_other(self, request: web.BaseRequest) -> web.Response:
        if "count" in request.raw_path or "input_tokens" in request.raw_path:
            return web.json_response({"input_tokens": 7, "totalTokens": 7})
        if "/models" in request.raw_path:
            return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})
        return web.json_response({"error": {"message": "no such path"}}, status=404)

    async def _say(
        self, request: web.BaseRequest, wire: str, operation: str, turn: Turn, body: Any
    ) -> web.StreamResponse:
        if turn.fault == "reset":
            assert request.transport is not None
            request.transport.abort()
            await asyncio.sleep(3600)
        if turn.fault == "html":
            return web.Response(text=_HTML, content_type="text/html")
        if turn.status != 200:
            answer = wires.error_body(wire, turn)
            return web.json_response(answer, status=turn.status, headers=dict(turn.headers))
        model = _model(request.raw_path, body)
        if "stream" in request.raw_path or (isinstance(body, dict) and body.get("stream")):
            options = body.get("stream_options") or {}
            stream = wires.events(
                operation, turn, model, with_usage=bool(options.get("include_usage"))
            )
            return await _stream(request, wire, turn, stream)
        await asyncio.sleep(turn.pause_sec)
        text = json.dumps(wires.whole(operation, turn, model))
        return await _in_one_piece(request, turn, text.encode())


async def _in_one_piece(request: web.BaseRequest, turn: Turn, data: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", **turn.headers})
    response.content_length = len(data)
    await response.prepare(request)
    if turn.fault in ("cut", "hang"):
        await response.write(data[: len(data) // 2])
        await _break_off(request, turn)
    await response.write(data)
    return response


async def _stream(
    request: web.BaseRequest, wire: str, turn: Turn, stream: list[bytes]
) -> web.StreamResponse:
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", **turn.headers}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    middle = max(len(stream) // 2, 1)
    for index, event in enumerate(stream):
        if index == middle and turn.fault in ("cut", "hang"):
            await response.write(event[: len(event) // 2])
            await _break_off(request, turn)
        if index == middle and turn.fault in ("early_end", "error_event"):
            if turn.fault == "error_event":
                await response.write(wires.error_event(wire))
            break
        if index == middle and turn.fault == "malformed":
            await response.write(b'data: {"broken": \n\n')
        else:
            await response.write(event)
        if turn.pause_sec:
            await asyncio.sleep(turn.pause_sec)
    await response.write_eof()
    return response


async def _break_off(request: web.BaseRequest, turn: Turn) -> None:
    await asyncio.sleep(0.05)  # what was written has left by then
    if turn.fault == "cut":
        assert request.transport is not None
        request.transport.abort()
    await asyncio.sleep(3600)


def _operation(target: str) -> tuple[str, str]:
    path = target.partition("?")[0]
    for pattern, wire, operation in _OPERATIONS:
        if re.fullmatch(pattern, path):
            return wire, operation
    return "", ""


def _model(target: str, body: Any) -> str:
    match = re.search(r"/models/([^:/?]+):", target)
    if match:
        return match[1]
    return str(body.get("model", "")) if isinstance(body, dict) else ""


def _json(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode(errors="replace")
