"""A gateway before a scripted model, both on real sockets."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from pytest_harbor.model_gateway.gateway import ModelGateway
from pytest_harbor.model_gateway.limits import SessionLimits
from pytest_harbor.model_gateway.prices import Price, Prices
from pytest_harbor.model_gateway.providers import Provider, Providers, Upstream
from pytest_harbor.model_gateway.session import GatewaySession
from pytest_harbor.task.network import NetworkPolicy
from tests.model_server import ModelServer, Turn
from tests.model_server.script import Step

KEY = "sk-real-key-that-stays-outside"
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "generate": "/v1beta/models/m:generateContent",
    "stream": "/v1beta/models/m:streamGenerateContent?alt=sse",
}
PRICES = Prices({"m": Price(input=1.0, cached=0.5, output=2.0)})


@dataclass
class Rig:
    """A trial's gateway, the model behind it, and an agent's way to call."""

    model: ModelServer
    gateway: ModelGateway
    session: GatewaySession
    record: Path
    limits_hit: list[str] = field(default_factory=list)
    limit_event: threading.Event = field(default_factory=threading.Event)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}"

    def call(self, operation: str = "chat", **body: Any) -> requests.Response:
        """Call as an agent does."""
        return self.post(PATHS[operation], request(operation, **body))

    def post(self, path: str, body: Any, **headers: str) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.session.token}", **headers}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            return requests.post(self.root + path, data=data, headers=headers, timeout=20)
        finally:
            self.session.settle()

    def lines(self) -> list[dict[str, Any]]:
        """The record, once everything is in it."""
        self.session.settle()
        if not self.record.exists():
            return []
        return [json.loads(line) for line in self.record.read_text().splitlines()]


def request(operation: str, **body: Any) -> dict[str, Any]:
    """The least that a protocol asks for."""
    if operation in ("generate", "stream"):
        return {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], **body}
    if operation == "responses":
        return {"model": "m", "input": "hi", **body}
    least = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    return {**least, "max_tokens": 100, **body}


def scripted_provider(root: str, key: str = KEY) -> Provider:
    """A provider that speaks every protocol at one address."""
    return Provider(
        "scripted",
        {
            "openai": Upstream("openai", f"{root}/v1", key),
            "anthropic": Upstream("anthropic", root, key),
            "gemini": Upstream("gemini", root, key),
        },
    )


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Callable[..., Rig]]:
    """Make a rig from a script; ``root`` points the gateway elsewhere."""
    with ExitStack() as stack:

        def make(
            *turns: Step,
            default: Turn | None = None,
            limits: SessionLimits | None = None,
            policy: NetworkPolicy | None = None,
            redact: Callable[[str], str] = str,
            prices: Prices = PRICES,
            root: str | None = None,
        ) -> Rig:
            model = stack.enter_context(ModelServer(turns, default=default))
            providers = Providers({}, scripted_provider(root or model.root))
            gateway = stack.enter_context(ModelGateway(providers, prices=prices))
            hit: list[str] = []
            event = threading.Event()

            def on_limit(limit: str) -> None:
                hit.append(limit)
                event.set()

            record = tmp_path / "trial" / "model-calls.jsonl"
            session = gateway.open_session(
                model="scripted/m",
                record=record,
                limits=limits,
                policy=policy,
                redact=redact,
                on_limit=on_limit,
            )
            return Rig(model, gateway, session, record, hit, event)

        yield make


class RawProvider:
    """Answers every request with the same bytes, and ends the connection."""

    def __init__(self, *pieces: bytes | float) -> None:
        """Send these bytes; a number is a pause in seconds."""
        self._pieces = pieces
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._over = threading.Event()

    def __enter__(self) -> "RawProvider":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        while not self._over.is_set():
            client, _ = self._listener.accept()
            with client, suppress(OSError):
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            if not (piece := client.recv(65536)):
                return
            received += piece
        head, _, body = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        while len(body) < length:
            body += client.recv(65536)
        for piece in self._pieces:
            if isinstance(piece, bytes):
                client.sendall(piece)
            else:
                self._over.wait(piece)


def raw_answer(body: bytes, *headers: str, kind: str = "application/json") -> bytes:
    """An answer without a length: its end is the connection's."""
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def data_of(stream: bytes) -> Sequence[str]:
    """The data of a stream's events."""
    return [line[6:] for line in stream.decode().splitlines() if line.startswith("data: ")]
