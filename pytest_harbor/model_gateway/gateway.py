"""The gateway of one process: a thread with an event loop, and a thread that writes records."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from pytest_harbor.errors import OptionError
from pytest_harbor.model_gateway.connections import GuardedServer
from pytest_harbor.model_gateway.limits import SessionLimits
from pytest_harbor.model_gateway.prices import Prices
from pytest_harbor.model_gateway.providers import Provider, Providers
from pytest_harbor.model_gateway.relay import CONNECT_SEC, SILENCE_SEC
from pytest_harbor.model_gateway.server import AgentServer
from pytest_harbor.model_gateway.session import GatewaySession, digest
from pytest_harbor.task.network import NetworkPolicy

_HEADER_BYTES = 64 * 1024
_CLOSE_SEC = 1.0
_T = TypeVar("_T")

# What hostile clients send is no news for the user's log.
_quiet = logging.getLogger("pytest_harbor.model_gateway.http")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class ModelGateway:
    """The gateway of this process; any number of trials use it at once.

    Attributes:
        port: The port that it listens on; 0 before ``start``.
    """

    def __init__(
        self,
        providers: Providers,
        bind: str = "127.0.0.1",
        port: int = 0,
        prices: Prices | None = None,
    ) -> None:
        """Prepare a gateway; nothing runs before ``start`` or the first session.

        Args:
            providers: Who answers.
            bind: The address to listen on.
            port: The port to listen on; 0: any that is free.
            prices: What models cost.
        """
        self.port = port
        self._providers = providers
        self._bind = bind
        self._prices = prices or Prices()
        self._sessions: dict[bytes, GatewaySession] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._server = AgentServer(self._sessions)
        self._listener: asyncio.Server | None = None
        self._web: GuardedServer | None = None

    def __enter__(self) -> ModelGateway:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self) -> None:
        """Listen; does nothing where it does already.

        Raises:
            OptionError: The address cannot be listened on.
        """
        with self._lock:
            if self._thread is None:
                self._start()

    def open_session(
        self,
        *,
        model: str | None,
        record: Path,
        limits: SessionLimits | None = None,
        policy: NetworkPolicy | None = None,
        redact: Callable[[str], str] = str,
        on_limit: Callable[[str], None] | None = None,
    ) -> GatewaySession:
        """Let one trial in.

        Args:
            model: ``provider/name``; None: any provider whose key is set.
            record: The file of its calls, a line of JSON each.
            limits: What it may spend.
            policy: What its agent may reach; where that is not all, tools that providers run
                themselves are taken out.
            redact: Takes the caller's secrets out of a text; keys and tokens go anyway.
            on_limit: Called once when the agent asks for more than its limits, so that it can
                be stopped.

        Raises:
            OptionError: There is no provider or no key for the model, or its cost is limited
                and its price not known. Said before anything runs.
        """
        limits = limits or SessionLimits()
        providers = self._answering(model, limits)
        self.start()
        assert self._loop is not None
        assert self._writer is not None
        session = GatewaySession(
            model=model,
            providers=providers,
            limits=limits,
            prices=self._prices,
            record=record,
            policy=policy or NetworkPolicy(),
            redact=redact,
            port=self.port,
            loop=self._loop,
            writer=self._writer,
            on_limit=on_limit,
            forget=self._forget,
        )
        self._sessions[digest(session.token)] = session
        return session

    def close(self) -> None:
        """Close what is open, and stop."""
        for session in list(self._sessions.values()):
            session.close()
        with self._lock:
            if self._thread is not None:
                self._run(self._stop())
                self._end_threads()

    def _answering(self, model: str | None, limits: SessionLimits) -> list[Provider]:
        if model is None:
            found = self._providers.available()
            if not found:
                raise OptionError(
                    "no key of any provider is set on this machine. Export one before the run, "
                    "as ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY"
                )
            return found
        provider, name = self._providers.for_model(model)
        if limits.max_cost_usd is not None:
            self._require_price(provider, name)
        return [provider]

    def _require_price(self, provider: Provider, name: str) -> None:
        is_official = any(one.is_official for one in provider.upstreams.values())
        if self._prices.price(provider.name, name, is_official=is_official) is None:
            raise OptionError(
                f"the cost is limited, and no price is known for {provider.name}/{name}. "
                "Give its price in a table of your own (--harbor-prices), or limit calls or tokens"
            )

    def _forget(self, session: GatewaySession) -> None:
        self._sessions.pop(digest(session.token), None)

    # -- the thread ---------------------------------------------------------------

    def _start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="model-gateway", daemon=True
        )
        self._thread.start()
        self._writer = ThreadPoolExecutor(1, "model-gateway-record")
        try:
            self._run(self._listen())
        except OSError as error:
            self._end_threads()
            raise OptionError(
                f"the model gateway cannot listen on {self._bind}:{self.port}: {error}"
            ) from None

    def _end_threads(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        assert self._writer is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._writer.shutdown()
        self._thread = self._loop = self._writer = None

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._web = GuardedServer(
            self._server.handle,
            access_log=None,
            logger=_quiet,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
            lingering_time=2.0,
            keepalive_timeout=60.0,
            auto_decompress=False,
        )
        self._listener = await loop.create_server(self._web, self._bind, self.port, backlog=512)
        self.port = self._listener.sockets[0].getsockname()[1]
        self._server.client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_SEC, sock_read=SILENCE_SEC
            ),
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )

    async def _stop(self) -> None:
        assert self._listener is not None
        assert self._web is not None
        assert self._server.client is not None
        self._listener.close()
        await self._web.shutdown(_CLOSE_SEC)
        await self._server.client.close()
        await asyncio.sleep(0)
