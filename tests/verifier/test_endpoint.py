"""A judge's endpoint: slow, broken, hostile, or talkative about keys."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_harbor.errors import JudgeUnavailableError, OptionError, VerifierTimeoutError
from pytest_harbor.registry import make_verifier
from pytest_harbor.selection.find import find_selector
from pytest_harbor.verifier import endpoint
from pytest_harbor.verifier.chat import ChatModel
from pytest_harbor.verifier.endpoint import Endpoint, InterruptedCallError
from tests.model_server.script import Turn
from tests.model_server.server import ModelServer

KEY = "sk-of-the-judge"
ASKED = [{"role": "user", "content": "Well?"}]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def model(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> ChatModel:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(endpoint, "_WAITS_SEC", (0.0,) * 6)
    return ChatModel.found("m", f"{server.root}/v1")


@pytest.fixture
def raw() -> Iterator[Callable[[bytes, bytes], str]]:
    """A server that says some bytes, then others again and again; gives its base URL."""
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(first: bytes, rest: bytes) -> None:
        try:
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(first)
                    while rest and not over.wait(0.02):
                        connection.sendall(rest)
        except OSError:
            return

    def start(first: bytes, rest: bytes) -> str:
        threading.Thread(target=serve, args=(first, rest), daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

    yield start
    over.set()
    listening.close()


@pytest.mark.parametrize("fault", ["reset", "cut"])
def test_a_call_that_breaks_off_is_repeated(
    server: ModelServer, model: ChatModel, fault: Any
) -> None:
    server.script.refill([Turn(fault=fault), Turn(text="yes")])
    assert model.ask(ASKED, timeout_sec=60).text == "yes"
    assert len(server.calls) == 2


def test_the_wait_is_what_the_endpoint_asks_for(
    server: ModelServer, model: ChatModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    class Event:
        def wait(self, seconds: float) -> bool:
            waited.append(seconds)
            return False

        def is_set(self) -> bool:
            return False

    model.endpoint._is_over = Event()  # type: ignore[assignment]
    in_ms = Turn(status=429, headers={"retry-after-ms": "2500"})
    server.script.refill([Turn.rate_limit("7"), in_ms, Turn.rate_limit("soon"), Turn(text="yes")])
    assert model.ask(ASKED, timeout_sec=600).text == "yes"
    assert waited == [7.0, 2.5, 0.0]


def test_a_quota_that_is_used_up_is_not_asked_for_again(
    server: ModelServer, model: ChatModel
) -> None:
    server.script.refill([Turn(status=429, headers={"x-should-retry": "false"}, error="quota")])
    with pytest.raises(JudgeUnavailableError, match=r"status 429: .*quota"):
        model.ask(ASKED)
    assert len(server.calls) == 1


def test_an_endpoint_that_drips_has_no_more_time_than_others(
    raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    with pytest.raises(VerifierTimeoutError, match="no answer within"):
        Endpoint(raw(head, b" ")).post({}, 0.5)


def test_an_endless_answer_is_not_held_in_memory(raw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_MAX_BYTES", 1000)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
    with pytest.raises(JudgeUnavailableError, match="an answer of more than"):
        Endpoint(raw(head, b" " * 70_000)).post({}, 60)


def test_who_waits_for_an_answer_can_be_called_off(server: ModelServer, model: ChatModel) -> None:
    server.script.default = Turn(fault="hang")

    def stop_once_it_is_asked() -> None:
        while not server.calls:
            threading.Event().wait(0.01)
        model.endpoint.stop()

    threading.Thread(target=stop_once_it_is_asked, daemon=True).start()
    with pytest.raises(InterruptedCallError):
        model.ask(ASKED, timeout_sec=600)
    with pytest.raises(InterruptedCallError):
        model.ask(ASKED, timeout_sec=600)
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "turn",
    [
        Turn(status=401, error=f"Incorrect API key provided: {KEY}"),
        Turn(status=500, error=f"no model for {KEY}"),
    ],
)
def test_an_endpoint_that_repeats_the_key_tells_nobody(
    server: ModelServer, model: ChatModel, turn: Turn
) -> None:
    server.script.default = turn
    with pytest.raises(JudgeUnavailableError, match="REDACTED") as caught:
        model.ask(ASKED)
    assert KEY not in str(caught.value)
    server.script.default = Turn(text=f"your key is {KEY}")
    assert model.ask(ASKED).text == "your key is [REDACTED]"


def test_a_key_of_other_characters_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-odd\nsecond")
    with pytest.raises(OptionError, match="OPENAI_API_KEY: expected a key") as caught:
        ChatModel.found("m")
    assert "sk-odd" not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-fine\n")
    assert ChatModel.found("m").endpoint.api_key == "sk-fine"


@pytest.mark.parametrize(
    ("status", "refused"), [(400, True), (413, True), (401, False), (404, False)]
)
def test_a_prompt_that_is_refused_is_no_outage(
    server: ModelServer, model: ChatModel, status: int, refused: bool
) -> None:
    server.script.default = Turn(status=status)
    with pytest.raises(JudgeUnavailableError) as caught:
        model.ask(ASKED)
    assert caught.value.is_refused is refused


@pytest.mark.parametrize(
    ("answer", "text", "stopped"),
    [
        ({"content": None, "refusal": "I will not."}, "", "refused: I will not."),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", ""),
        ({"content": 7}, "", ""),
        (None, "", ""),
    ],
)
def test_odd_answers_are_taken_for_what_they_are(
    raw: Any, answer: Any, text: str, stopped: str
) -> None:
    body = json.dumps({"choices": [{"message": answer, "finish_reason": "stop"}]}).encode()
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    found = ChatModel("m", Endpoint(raw(head + body, b""))).ask(ASKED, timeout_sec=60)
    assert (found.text, found.stopped) == (text, stopped)
    assert ("stopped" in found.record()) is bool(stopped)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"error": {"code": 429}}', b'{"choices": 1}'])
def test_an_answer_without_choices_is_no_vote(raw: Any, body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with pytest.raises(JudgeUnavailableError, match="an answer without choices: "):
        ChatModel("m", Endpoint(raw(head + body, b""))).ask(ASKED, timeout_sec=60)


def test_halves_of_characters_are_not_sent(server: ModelServer, model: ChatModel) -> None:
    model.ask([{"role": "user", "content": "a\ud800b"}], timeout_sec=60)
    assert server.calls[0].body["messages"][0]["content"] == "a?b"


WRONG = [
    ({"model": 5}, "model: expected its name, got 5"),
    ({"base_url": "api.example.com"}, "base_url: expected http:// or https:// with a host"),
    ({"base_url": "http://h/v1?key=1"}, "base_url: expected http:// or https:// with a host"),
    ({"base_url": "http://me:word@h/v1"}, "without a user's name and password"),
    ({"base_url": "http://h:port/v1"}, "base_url: expected a URL"),
    ({"prices": "nowhere.toml"}, "nowhere.toml: the prices cannot be read"),
    ({"prices": 3}, "prices: expected text, got 3"),
    ({"api_key_env": "NO_SUCH_KEY"}, "NO_SUCH_KEY is not set"),
    ({"api_key_env": 5}, "api_key_env: expected the name of a variable, got 5"),
    ({"base_url": ""}, "needs a key for https://api.openai.com/v1, and OPENAI_API_KEY is not set"),
    ({"criteria": ""}, "criteria: expected text, got ''"),
    ({"files": {"a": 1}}, "files: expected a path or a list of paths"),
    ({"files": ["a", 2]}, "files: expected a path or a list of paths"),
    ({"votes": True}, "votes: expected a whole number from 1, got True"),
    ({"max_file_bytes": "many"}, "max_file_bytes: expected a whole number from 1, got 'many'"),
]


@pytest.mark.parametrize(("kwargs", "words"), WRONG)
def test_a_judge_is_refused_before_any_work_is_done(
    kwargs: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    known = {"model": "m", "base_url": "http://127.0.0.1:9/v1"} | kwargs
    for make in (find_selector, lambda name, kwargs: make_verifier(name, kwargs=kwargs)):
        with pytest.raises(OptionError) as caught:
            make("judge", known)
        assert words in str(caught.value)
        assert "word@" not in str(caught.value)
