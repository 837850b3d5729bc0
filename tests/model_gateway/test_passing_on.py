"""Calls pass through unchanged, but for credentials."""

import json
import socket
import time

import pytest
import requests

from pytest_harbor.model_gateway.gateway import ModelGateway
from pytest_harbor.model_gateway.providers import Providers
from tests.model_server import ModelServer, Turn, wires

from .conftest import KEY, PATHS, data_of, request, scripted_provider

STREAMS = [
    ("chat", {"stream": True, "stream_options": {"include_usage": True}}),
    ("responses", {"stream": True}),
    ("messages", {"stream": True}),
    ("stream", {}),
]
WHOLE = ["chat", "responses", "messages", "generate"]


@pytest.mark.parametrize("operation", WHOLE)
def test_an_answer_in_one_piece_is_byte_exact(rig, operation):
    turn = Turn.tool("bash", command="ls")
    r = rig(turn)
    answer = r.call(operation)
    assert answer.status_code == 200
    assert answer.content == json.dumps(wires.whole(operation, turn, "m")).encode()


@pytest.mark.parametrize(("operation", "body"), STREAMS)
def test_a_stream_is_byte_exact(rig, operation, body):
    turn = Turn.tool("bash", text="let me look", command="ls")
    r = rig(turn)
    answer = r.call(operation, **body)
    kind = "generate" if operation == "stream" else operation
    assert answer.content == b"".join(wires.events(kind, turn, "m", with_usage=True))
    assert answer.headers["Content-Type"] == "text/event-stream"


def test_events_arrive_while_the_model_still_speaks(rig):
    r = rig(Turn(text="one two three", pause_sec=0.2))
    body = request("messages", stream=True)
    headers = {"x-api-key": r.session.token}
    with requests.post(
        r.root + PATHS["messages"], json=body, headers=headers, stream=True, timeout=20
    ) as answer:
        first = next(answer.iter_content(None))
    assert b"message_start" in first
    assert b"message_stop" not in first


@pytest.mark.parametrize(
    "place",
    [
        {"Authorization": "Bearer {}"},
        {"x-api-key": "{}"},
        {"x-goog-api-key": "{}"},
        {"Authorization": "Bearer other", "x-api-key": "{}"},
    ],
)
def test_the_token_is_found_wherever_clients_put_it(rig, place):
    r = rig()
    headers = {name: value.format(r.session.token) for name, value in place.items()}
    answer = requests.post(
        r.root + PATHS["chat"], json=request("chat"), headers=headers, timeout=20
    )
    assert answer.status_code == 200


def test_a_token_in_the_query_goes_no_further(rig):
    r = rig()
    path = f"/v1beta/models/m:streamGenerateContent?key={r.session.token}&alt=sse"
    assert requests.post(r.root + path, json=request("stream"), timeout=20).status_code == 200
    assert r.model.calls[0].path == "/v1beta/models/m:streamGenerateContent?alt=sse"
    assert r.lines()[0]["status"] == 200
    assert r.session.token not in r.record.read_text()


@pytest.mark.parametrize(
    ("operation", "header"),
    [("chat", "authorization"), ("messages", "x-api-key"), ("generate", "x-goog-api-key")],
)
def test_the_provider_gets_the_real_key_and_no_token(rig, operation, header):
    r = rig()
    r.call(operation)
    sent = r.model.calls[0]
    assert KEY in sent.headers[header]
    assert r.session.token not in json.dumps(sent.headers) + sent.path


def test_what_identifies_the_client_stays_behind(rig):
    r = rig()
    headers = {"x-codex-turn-metadata": "id", "Cookie": "a=b", "anthropic-beta": "x-1"}
    r.post(PATHS["messages"], request("messages"), **headers)
    sent = r.model.calls[0].headers
    assert "x-codex-turn-metadata" not in sent
    assert "cookie" not in sent
    assert sent["anthropic-beta"] == "x-1"
    assert sent["accept-encoding"] == "identity"


def test_the_query_goes_along(rig):
    r = rig()
    r.post(PATHS["messages"] + "?beta=true&access_token=x&$httpHeaders=a", request("messages"))
    assert r.model.calls[0].path == "/v1/messages?beta=true"


def test_a_body_under_a_public_policy_is_sent_as_it_came(rig):
    r = rig()
    body = b'{ "model":"m",  "messages": [], "unknown": 1.50 }'
    r.post(PATHS["messages"], body)
    assert r.lines()[0]["request"] == json.loads(body)
    assert r.model.calls[0].body == json.loads(body)


def test_counts_that_only_the_gateway_wants_are_held_back(rig):
    turn = Turn(text="a b c")
    r = rig(turn)
    answer = r.call("chat", stream=True)
    assert answer.content == b"".join(wires.events("chat", turn, "m", with_usage=False))
    assert r.model.calls[0].body["stream_options"] == {"include_usage": True}
    assert r.session.usage.input_tokens == 100


@pytest.mark.parametrize(
    ("status", "headers"),
    [(429, {"Retry-After": "7", "x-ratelimit-remaining-requests": "0"}), (529, {}), (500, {})],
)
def test_a_refusal_is_passed_on_with_its_headers(rig, status, headers):
    r = rig(Turn(status=status, headers=headers, error="no"))
    answer = r.call("messages")
    assert answer.status_code == status
    assert answer.json()["error"]["message"] == "no"
    assert headers.items() <= dict(answer.headers).items()
    assert len(r.model.calls) == 1  # the client tries again, not the gateway


@pytest.mark.parametrize("stream", [True, False])
def test_a_cut_answer_looks_cut(rig, stream):
    r = rig(Turn(text="a b c d", fault="cut"))
    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        r.call("messages", stream=stream)


def test_a_provider_that_is_down_is_worth_another_try(rig):
    r = rig(root="http://127.0.0.1:1")
    answer = r.call("messages")
    assert answer.status_code == 502
    assert answer.json()["error"]["type"] == "api_error"
    assert answer.headers["x-should-retry"] == "true"


def test_a_redirect_is_not_followed(rig):
    with ModelServer() as elsewhere:
        turn = Turn(status=307, headers={"Location": elsewhere.root + "/v1/messages"})
        r = rig(turn)
        answer = r.call("messages")
        assert answer.status_code == 502
        assert "redirects to 127.0.0.1" in answer.json()["error"]["message"]
        assert elsewhere.received == []


def test_a_client_that_hangs_up_ends_the_call(rig):
    r = rig(Turn(fault="hang"))
    body = json.dumps(request("messages", stream=True)).encode()
    with socket.create_connection(("127.0.0.1", r.gateway.port)) as client:
        head = f"x-api-key: {r.session.token}\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\n" + head.encode() + body)
        assert b"200" in client.recv(100)
    _eventually(lambda: r.model.hung_up == 1)
    _eventually(lambda: r.lines() and r.lines()[0]["outcome"] == "client_gone")
    assert r.session.usage.calls == 1
    assert not r.session.usage.is_complete


@pytest.mark.parametrize("operation", ["chat", "messages"])
def test_a_client_that_hangs_up_after_the_last_word_was_answered(rig, operation):
    r = rig(Turn(text="a b"))
    headers = {"x-api-key": r.session.token}
    body = request(operation, stream=True)
    received = b""
    with requests.post(
        r.root + PATHS[operation], json=body, headers=headers, stream=True, timeout=20
    ) as answer:
        for piece in answer.iter_content(1):
            received += piece
            if received.endswith((b"[DONE]", b'"message_stop"')):
                break
    _eventually(lambda: len(r.lines()) == 1)
    assert r.lines()[0]["outcome"] == "ok"
    assert r.session.usage.output_tokens == 20


def test_what_came_before_a_client_hung_up_is_counted(rig):
    r = rig(Turn(text="a b c d", pause_sec=0.1))
    headers = {"x-api-key": r.session.token}
    with requests.post(
        r.root + PATHS["messages"],
        json=request("messages", stream=True),
        headers=headers,
        stream=True,
        timeout=20,
    ) as answer:
        next(answer.iter_content(None))
    _eventually(lambda: len(r.lines()) == 1)
    line = r.lines()[0]
    assert (line["outcome"], line["usage"]["n_input_tokens"]) == ("client_gone", 100)
    assert not line["usage"]["is_complete"]


def test_closing_a_session_ends_its_calls_and_its_token(rig):
    r = rig(Turn(fault="hang"))
    headers = {"x-api-key": r.session.token}
    body = request("messages", stream=True)
    with requests.post(
        r.root + PATHS["messages"], json=body, headers=headers, stream=True, timeout=20
    ) as answer:
        next(answer.iter_content(1))
        r.session.close()
        _eventually(lambda: r.model.hung_up == 1)
    assert json.loads(r.record.read_text())["outcome"] == "client_gone"
    assert r.call("messages").status_code == 401


def test_trials_are_apart(tmp_path):
    with ModelServer() as model, ModelGateway(Providers({}, scripted_provider(model.root))) as one:
        first, second = (
            one.open_session(model="scripted/m", record=tmp_path / f"{name}.jsonl") for name in "ab"
        )
        headers = {"x-api-key": first.token}
        url = f"{first.base_url('anthropic', '127.0.0.1')}/v1/messages"
        assert requests.post(url, json=request("messages"), headers=headers, timeout=20).ok
        first.settle()  # a call is counted when its answer has been passed on
        assert (first.usage.calls, second.usage.calls) == (1, 0)
        first.close()
        second.close()
        assert not (tmp_path / "b.jsonl").exists()


def test_base_urls_have_the_form_that_clients_expect(rig):
    r = rig()
    port = r.gateway.port
    assert r.session.base_url("openai", "gw") == f"http://gw:{port}/v1"
    assert r.session.base_url("anthropic", "gw") == f"http://gw:{port}"
    assert r.session.base_url("gemini", "::1") == f"http://[::1]:{port}"


def test_models_and_counts_are_no_calls(rig):
    r = rig()
    token = {"Authorization": f"Bearer {r.session.token}"}
    assert requests.get(r.root + "/v1/models", headers=token, timeout=20).ok
    assert r.post("/v1/messages/count_tokens", request("messages")).json()["input_tokens"] == 7
    assert r.session.usage.calls == 0
    assert r.session.verdict().kind == "never_called"


@pytest.mark.parametrize("at", [3, 30])
def test_a_key_that_a_provider_repeats_is_masked(rig, at):
    r = rig(Turn(text=f"{'x' * at} {KEY[:9]} {KEY} end"))
    answer = r.call("chat", stream=True)
    text = "".join(
        choice["delta"].get("content", "")
        for data in data_of(answer.content)
        if data != "[DONE]"
        for choice in json.loads(data)["choices"]
    )
    assert KEY not in answer.text
    assert text.endswith(f" {KEY[:9]} {'x' * len(KEY)} end")
    assert KEY not in r.record.read_text()


def _eventually(holds):
    for _ in range(200):
        if holds():
            return
        time.sleep(0.05)
    pytest.fail("still not so after ten seconds")
