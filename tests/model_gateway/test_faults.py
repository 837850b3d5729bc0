"""What goes wrong between the gateway and a provider is told from an agent's lack of skill."""

import gzip
import json
import socket
from contextlib import suppress

import pytest

from pytest_harbor.model_gateway import gateway
from tests.model_server import ModelServer, ToolCall, Turn, wires

from .conftest import RawProvider, raw_answer

OPERATIONS = ["chat", "responses", "messages", "stream"]
EVENTS = "text/event-stream"
TURN = Turn(text="one two three", tools=(ToolCall("bash", {"command": "ls"}),))
USAGE = {"stream_options": {"include_usage": True}}


def wire_of(operation):
    return "generate" if operation == "stream" else operation


def stream_of(operation):
    return b"".join(wires.events(wire_of(operation), TURN, "m", with_usage=True))


def whole_of(operation):
    return json.dumps(wires.whole(wire_of(operation), TURN, "m")).encode()


def call(rig, operation, *pieces, stream=True):
    """One call of a provider that sends these bytes: the client's answer, and the rig."""
    with RawProvider(*pieces) as provider:
        r = rig(root=provider.root)
        operation = "generate" if operation == "stream" and not stream else operation
        more = USAGE if stream and operation == "chat" else {}
        return r.call(operation, stream=stream, **more), r


def verdict_of(r, outcome):
    assert [line["outcome"] for line in r.lines()] == [outcome]
    return r.session.verdict()


# -- refusals ---------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (401, "AgentAuthenticationError"),
        (403, "AgentAuthenticationError"),
        (429, "ApiRateLimitError"),
        (500, "ApiInternalServerError"),
        (503, "ApiInternalServerError"),
        (529, "ApiOverloadedError"),
    ],
)
def test_a_refusal_reaches_the_client_and_is_no_lack_of_skill(rig, operation, status, fault):
    r = rig(default=Turn(status=status))
    assert r.call(operation, stream=True).status_code == status
    assert verdict_of(r, "refused").fault == fault
    assert r.session.usage.calls == 0


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_redirect_is_no_lack_of_skill(rig, operation):
    r = rig(Turn(status=302, headers={"Location": "http://login.example/"}))
    assert r.call(operation).status_code == 502
    assert verdict_of(r, "redirect").is_unable


# -- no connection ----------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_name_that_is_not_found_is_no_lack_of_skill(rig, operation, monkeypatch):
    look_up = socket.getaddrinfo

    def without_one(host, *rest, **more):
        if host == "model.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", without_one)
    r = rig(root="http://model.example")
    assert r.call(operation).status_code == 502
    assert verdict_of(r, "unreachable").fault == "NetworkConnectionError"


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n"]
)
def test_something_that_speaks_no_http_is_no_lack_of_skill(rig, operation, answer):
    answered, r = call(rig, operation, answer)
    assert answered.status_code == 502
    assert verdict_of(r, "unreachable").fault == "NetworkConnectionError"


def test_a_certificate_that_is_none_is_no_lack_of_skill(rig):
    with ModelServer() as provider:
        r = rig(root=provider.root.replace("http:", "https:"))
        assert r.call("messages").status_code == 502
    assert verdict_of(r, "unreachable").fault == "NetworkConnectionError"


# -- answers that are none --------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (b"", "not_json"),
        (b"null", "not_json"),
        (b"[]", "not_json"),
        (b'"done"', "not_json"),
        (b'{"choices": [', "not_json"),
        (b"upstream timed out", "not_json"),
        (b"<!doctype html><p>Sign in", "not_json"),
        (b'{"id": "1"}', "cut"),
        (b'{"error": {"message": "out of memory"}}', "error_event"),
    ],
)
def test_a_body_that_is_no_answer_is_no_lack_of_skill(rig, operation, body, outcome):
    answered, r = call(rig, operation, raw_answer(body), stream=False)
    assert (answered.status_code, answered.content) == (200, body)
    assert verdict_of(r, outcome).is_unable


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "body", [b"", b": ping\n\n", b'{"error": "no"}', b"data: {}\n\n", b"event: ping\ndata: {}\n\n"]
)
def test_a_stream_without_an_answer_is_no_lack_of_skill(rig, operation, body):
    _, r = call(rig, operation, raw_answer(body, kind=EVENTS))
    assert verdict_of(r, "cut").is_unable


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_stream_that_stalls_is_no_lack_of_skill(rig, operation, monkeypatch):
    monkeypatch.setattr(gateway, "SILENCE_SEC", 0.2)
    with RawProvider(raw_answer(stream_of(operation)[:200], kind=EVENTS), 5.0) as provider:
        r = rig(root=provider.root)
        with suppress(OSError):
            r.call(operation, stream=True)
        assert verdict_of(r, "stalled").fault == "ApiResponseStalledError"


# -- answers in an odd form -------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/octet-stream"])
def test_a_stream_is_one_whatever_its_type_says(rig, operation, kind):
    answered, r = call(rig, operation, raw_answer(stream_of(operation), kind=kind))
    assert answered.content == stream_of(operation)
    assert verdict_of(r, "ok").kind == "worked"
    assert r.lines()[0]["usage"]["n_input_tokens"] == 100


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_provider_of_http_1_0_is_understood(rig, operation, stream):
    body = stream_of(operation) if stream else whole_of(operation)
    head = b"HTTP/1.0 200 OK\r\nContent-Type: %s\r\n\r\n"
    kind = EVENTS.encode() if stream else b"application/json"
    answered, r = call(rig, operation, head % kind + body, stream=stream)
    assert answered.content == body
    assert verdict_of(r, "ok").kind == "worked"


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_compressed_answer_arrives_in_the_clear(rig, operation, stream):
    body = stream_of(operation) if stream else whole_of(operation)
    kind = EVENTS if stream else "application/json"
    packed = raw_answer(gzip.compress(body), "Content-Encoding: gzip", kind=kind)
    answered, r = call(rig, operation, packed, stream=stream)
    assert answered.content == body
    assert "Content-Encoding" not in answered.headers
    assert verdict_of(r, "ok").kind == "worked"


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "made-up"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_answer_whose_compression_is_broken_is_no_lack_of_skill(rig, operation, encoding):
    packed = raw_answer(b"\x00\x01 no such thing", f"Content-Encoding: {encoding}")
    with RawProvider(packed) as provider:
        r = rig(root=provider.root)
        with suppress(OSError):  # what was cut looks cut
            r.call(operation)
        assert r.session.verdict().is_unable


@pytest.mark.parametrize("operation", OPERATIONS)
def test_signs_of_life_in_a_long_silence_pass_and_are_no_answer(rig, operation, monkeypatch):
    monkeypatch.setattr(gateway, "SILENCE_SEC", 0.5)
    alive = [b": still thinking\n\n", 0.2] * 4
    answered, r = call(rig, operation, raw_answer(b"", kind=EVENTS), *alive, stream_of(operation))
    assert answered.content == b": still thinking\n\n" * 4 + stream_of(operation)
    assert verdict_of(r, "ok").kind == "worked"
