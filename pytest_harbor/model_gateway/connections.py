"""Connections from agents: so many, and none that never asks for anything.

The library knows no limit of connections, and none of the time that the first request
of one may take.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

HEADER_SEC = 30.0
"""Seconds within which a new connection has to send its first request."""

_MOST = 4096
_Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class GuardedServer(web.Server):
    """Makes the protocol of each connection, and counts them by the address they come from."""

    def __init__(self, handle: _Handle, **options: Any) -> None:
        """Answer with ``handle``; further options are those of the library's protocol."""
        # A client that is gone must not leave its call running: it is paid for.
        super().__init__(self._answer, handler_cancellation=True)
        self._handle = handle
        self._options = options
        self._open: Counter[str] = Counter()
        # Each call has a connection on either side, and the rest of the process has files.
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = (_MOST if files == resource.RLIM_INFINITY else min(files, _MOST)) // 4

    def __call__(self) -> RequestHandler:
        """The protocol of a new connection."""
        return _GuardedHandler(self, loop=asyncio.get_running_loop(), **self._options)

    def admit(self, address: str) -> bool:
        """Count a new connection; False: there are too many."""
        self._open[address] += 1
        return self._open[address] <= self._most and self._open.total() <= 2 * self._most

    def leave(self, address: str) -> None:
        """A connection is gone."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if isinstance(request.protocol, _GuardedHandler):
            request.protocol.has_asked = True
        return await self._handle(request)


class _GuardedHandler(RequestHandler):
    def __init__(self, server: GuardedServer, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._address = ""
        self.has_asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if peer else ""
        if not self._server.admit(self._address):
            self.force_close()
            return
        asyncio.get_running_loop().call_later(HEADER_SEC, self._close_if_silent)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._server.leave(self._address)
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        if not self.has_asked:
            self.force_close()
