"""Agents that do not keep to the rules get no further than the gateway."""

import gzip
import json
import socket

import pytest
import requests

from pytest_harbor.model_gateway import connections, server
from pytest_harbor.model_gateway.wire import find_route
from pytest_harbor.task.network import network_policy

from .conftest import PATHS, request


def exchange(rig, data, timeout=5.0):
    """Send bytes as they are; give all that comes back until the connection ends."""
    with socket.create_connection(("127.0.0.1", rig.gateway.port), timeout=timeout) as client:
        client.sendall(data)
        received = b""
        try:
            while piece := client.recv(65536):
                received += piece
        except (TimeoutError, ConnectionError):
            pass
    return received


def head(rig, line, *headers):
    lines = [line, "Host: gw", f"x-api-key: {rig.session.token}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("token", ["", "wrong", "sk-ant-x", "é"])
@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/v1/chat/completions", {"error": {"type": "authentication_error"}}),
        ("/v1/messages", {"type": "error", "error": {"type": "authentication_error"}}),
        ("/v1beta/models/m:generateContent", {"error": {"status": "UNAUTHENTICATED"}}),
    ],
)
def test_a_wrong_token_is_refused_in_the_providers_form(rig, token, path, form):
    r = rig()
    headers = {"Authorization": f"Bearer {token}".encode()}
    answer = requests.post(r.root + path, json={"model": "m"}, headers=headers, timeout=20)
    assert answer.status_code == 401
    assert answer.headers["x-should-retry"] == "false"
    body = answer.json()
    assert body.get("type") == form.get("type")
    assert form["error"].items() <= body["error"].items()
    assert r.model.received == []


def test_tokens_of_two_trials_at_once_are_refused(rig, tmp_path):
    r = rig()
    other = r.gateway.open_session(model="scripted/m", record=tmp_path / "other")
    answer = r.post(PATHS["messages"], request("messages"), **{"x-api-key": other.token})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "target",
    [
        "/v1/files",
        "/v1/messages/batches",
        "/v1/messages/../files",
        "/v1/messages/%2e%2e/files",
        "/v1%2fmessages",
        "/v1//messages",
        "//v1/messages",
        "/v1/messages/",
        "/v1/messages;a=b",
        "/v1/Messages",
        "/v1/mess%61ges",
        "\\v1\\messages",
        "http://evil.example/v1/messages",
        "/v1beta/models/../m:generateContent",
        "/v1beta/models/m/../../x:generateContent",
        "/v1beta/models/m%2f..%2fx:generateContent",
        "/v1beta/models/m:batchGenerateContent",
        "/v1beta/cachedContents",
        "/v1/models",
        *(
            f"/v1/{name}"
            for name in (
                "batches", "containers", "conversations", "vector_stores", "assistants", "threads",
                "skills", "agents", "sessions", "environments", "completions", "embeddings",
                "realtime", "responses/compact", "responses/resp_1/cancel", "images/generations",
                "fine_tuning/jobs", "organizations/api_keys", "search", "mcp",
            )
        ),
        "/v1beta/interactions",
        "/v1beta/files",
        "/upload/v1beta/files",
        "/v1beta/tunedModels/m:generateContent",
        "/v1beta/models/m:asyncBatchEmbedContent",
        "/v1beta/models/m:predictLongRunning",
        "/v1beta/corpora",
    ],
)  # fmt: skip
def test_other_paths_are_refused(rig, target):
    r = rig()
    data = head(r, f"POST {target} HTTP/1.1", "Content-Length: 2") + b"{}"
    answer = exchange(r, data)
    assert answer.split(b" ")[1] in (b"400", b"404")
    assert r.model.received == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "CONNECT", "PATCH", "TRACE"])
def test_other_methods_are_refused(rig, method):
    r = rig()
    assert exchange(r, head(r, f"{method} /v1/messages HTTP/1.1")).split(b" ")[1] in (
        b"400",
        b"404",
        b"405",
    )
    assert r.model.received == []


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 2", "Transfer-Encoding: chunked"),
        ("Content-Length: 2", "Content-Length: 3"),
        ("Content-Length: +2",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding : chunked",),
        ("Content-Length: 2", "X: a\r\n\tfolded"),
        ("Content-Length: 2", "Bad\x00Name: a"),
    ],
)
def test_smuggled_requests_are_refused(rig, headers):
    r = rig()
    second = head(r, "GET /v1/models HTTP/1.1")
    answer = exchange(r, head(r, "POST /v1/messages HTTP/1.1", *headers) + b"{}" + second)
    assert answer.split(b" ")[1] == b"400"
    assert r.model.received == []


def test_headers_without_end_are_refused(rig):
    r = rig()
    answer = exchange(r, head(r, "GET /v1/models HTTP/1.1", "X: " + "a" * 200_000))
    assert answer.split(b" ")[1] == b"400"


def test_large_headers_of_real_clients_pass(rig):
    r = rig()
    headers = {"x-codex-turn-metadata": "a" * 30_000}
    assert r.post(PATHS["messages"], request("messages"), **headers).status_code == 200


def test_a_body_that_says_it_is_too_large_is_not_read(rig):
    r = rig()
    size = server.MAX_BODY + 1
    answer = exchange(r, head(r, "POST /v1/messages HTTP/1.1", f"Content-Length: {size}") + b"{")
    assert answer.split(b" ")[1] == b"413"
    assert b"request_too_large" in answer


def test_a_body_that_turns_out_too_large_is_refused(rig, monkeypatch):
    monkeypatch.setattr(server, "MAX_BODY", 1000)
    r = rig()
    chunks = b"400\r\n" + b"x" * 1024 + b"\r\n"
    data = head(r, "POST /v1/messages HTTP/1.1", "Transfer-Encoding: chunked") + chunks
    assert exchange(r, data).split(b" ")[1] == b"413"


def test_too_many_bytes_at_once_are_asked_to_wait(rig, monkeypatch):
    monkeypatch.setattr(server, "MAX_BODIES", 10)
    answer = rig().call("messages")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")


def test_a_body_that_never_comes_is_given_up(rig, monkeypatch):
    monkeypatch.setattr(server, "BODY_SEC", 0.2)
    r = rig()
    answer = exchange(r, head(r, "POST /v1/messages HTTP/1.1", "Content-Length: 10") + b"{")
    assert answer.split(b" ")[1] == b"408"


def test_a_connection_that_asks_for_nothing_is_closed(rig, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SEC", 0.2)
    r = rig()
    assert exchange(r, b"POST /v1/mess", timeout=10) == b""


def test_connections_are_limited(rig, monkeypatch):
    monkeypatch.setattr(connections, "_MOST", 16)  # four for each address
    r = rig()
    open_ones = [socket.create_connection(("127.0.0.1", r.gateway.port)) for _ in range(4)]
    try:
        assert exchange(r, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n") == b""
    finally:
        for one in open_ones:
            one.close()


def test_a_hosted_tool_in_chunks_is_seen_all_the_same(rig):
    r = rig(policy=network_policy("no-network"))
    body = b'{"model": "m", "input": "a", "tools": [{"type": "web_search"}]}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    odd = ("Transfer-Encoding: chunked", "Content-Type: application/json; charset=utf-16")
    answer = exchange(r, head(r, "POST /v1/responses?tools=web_search HTTP/1.1", *odd) + chunks)
    assert answer.split(b" ")[1] == b"200"
    (call,) = r.model.calls
    assert call.body == {"model": "m", "input": "a"}
    assert call.path == "/v1/responses"
    assert call.headers["content-type"] == "application/json"


def test_two_encodings_are_not_undone_behind_the_look(rig):
    r = rig(policy=network_policy("no-network"))
    body = gzip.compress(b'{"model": "m", "input": "a", "tools": [{"type": "web_search"}]}')
    encodings = ("Content-Encoding: identity", "Content-Encoding: gzip")
    line = head(r, "POST /v1/responses HTTP/1.1", f"Content-Length: {len(body)}", *encodings)
    assert exchange(r, line + body).split(b" ")[1] in (b"400", b"415")
    assert r.model.received == []


def test_a_compressed_body_is_refused(rig):
    r = rig()
    answer = r.post(PATHS["messages"], b"\x1f\x8b", **{"Content-Encoding": "gzip"})
    assert answer.status_code == 415
    assert r.model.received == []


def test_websockets_are_refused_at_once(rig):
    r = rig()
    answer = exchange(
        r, head(r, "GET /v1/responses HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade")
    )
    assert answer.split(b" ")[1] == b"426"
    assert r.model.received == []


def test_a_look_at_the_root_is_no_alarm(rig):
    r = rig()
    assert requests.head(r.root + "/", timeout=20).status_code == 200
    assert r.lines() == []


def test_a_client_that_waits_for_leave_to_send_gets_it(rig):
    r = rig()
    body = json.dumps(request("messages")).encode()
    line = head(
        r, "POST /v1/messages HTTP/1.1", f"Content-Length: {len(body)}", "Expect: 100-continue"
    )
    with socket.create_connection(("127.0.0.1", r.gateway.port), timeout=5) as client:
        client.sendall(line)
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        client.sendall(body)
        assert client.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/v1/messages?beta=true", "/v1/messages", "beta=true"),
        ("/messages", "/v1/messages", ""),
        ("/chat/completions", "/chat/completions", ""),
        ("/v1/responses?key=secret", "/responses", ""),
        (
            "/v1beta/models/gemini-2.5-pro%3AstreamGenerateContent?alt=sse&$httpHeaders=x",
            "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
            "alt=sse",
        ),
    ],
)
def test_routes(target, path, query):
    route = find_route("POST", target, {})
    assert (route.path, route.query) == (path, query)
