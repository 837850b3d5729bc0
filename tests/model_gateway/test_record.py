"""The record holds every call, in bounded size and without secrets."""

import json

import pytest

from pytest_harbor.model_gateway import record
from pytest_harbor.model_gateway.history import History
from pytest_harbor.model_gateway.spool import IN_MEMORY, Spool
from pytest_harbor.task.network import network_policy
from tests.model_server import Turn, wires

from .conftest import PATHS, request


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("chat", "chat"),
        ("responses", "responses"),
        ("messages", "messages"),
        ("stream", "generate"),
    ],
)
def test_a_stream_is_recorded_as_the_answer_in_one_piece(rig, operation, kind):
    turn = Turn.tool("bash", text="let me look", command="ls -l", depth=2)
    r = rig(turn)
    r.call(operation, stream=True)
    recorded = r.lines()[0]["response"]
    wanted = wires.whole(kind, turn, "m")
    if kind == "chat":
        assert recorded["choices"] == wanted["choices"]
        assert recorded["usage"] == wanted["usage"]
    elif kind == "generate":
        assert recorded["candidates"][0]["content"] == wanted["candidates"][0]["content"]
    else:
        assert recorded == wanted


@pytest.mark.parametrize("operation", ["chat", "responses", "messages", "generate", "stream"])
@pytest.mark.parametrize("stream", [True, False])
def test_tokens_and_cost_are_recorded(rig, operation, stream):
    r = rig(Turn(input_tokens=1000, cached_tokens=400, output_tokens=50))
    r.call(operation, stream=stream)
    line = r.lines()[0]
    assert line["usage"] == {
        "n_input_tokens": 1000,
        "n_cache_tokens": 400,
        "n_output_tokens": 50,
        "is_complete": True,
    }
    assert line["cost_usd"] == pytest.approx((600 * 1.0 + 400 * 0.5 + 50 * 2.0) / 1e6)
    usage = r.session.usage
    assert (usage.calls, usage.input_tokens, usage.cached_tokens) == (1, 1000, 400)
    assert usage.by_model["m"].output_tokens == 50
    assert usage.harbor_usage()["n_input_tokens"] == 1000


def test_the_cost_of_one_model_without_a_price_leaves_the_sum_open(rig):
    r = rig()
    r.call("chat")
    r.call("chat", model="other")
    usage = r.session.usage
    assert usage.cost_usd is None
    assert usage.by_model["m"].cost_usd is not None
    assert usage.by_model["other"].cost_usd is None


def test_a_cut_stream_says_that_its_counts_are_not_all(rig):
    r = rig(Turn(text="a b c d", fault="cut"))
    with pytest.raises(OSError, match=r".*"):
        r.call("messages", stream=True)
    line = r.lines()[0]
    assert (line["outcome"], line["usage"]["is_complete"]) == ("cut", False)
    assert line["usage"]["n_input_tokens"] == 100
    assert line["cost_usd"] is None
    assert not r.session.usage.is_complete


def test_times_and_statuses_are_recorded(rig):
    r = rig(Turn.rate_limit("3"), Turn(text="a b", pause_sec=0.1))
    r.call("messages")
    r.call("messages", stream=True)
    refused, answered = r.lines()
    assert (refused["status"], refused["retry_after"], refused["outcome"]) == (429, "3", "refused")
    assert "slow down" in refused["error"]
    assert answered["first_byte_sec"] < answered["duration_sec"]
    assert answered["n"] == 2


def test_a_history_is_kept_once(rig):
    r = rig()
    system = "s" * 1000
    messages = [{"role": "user", "content": f"message {n} " + "x" * 500} for n in range(5)]
    for count in (1, 3, 5):
        r.call("messages", messages=messages[:count], system=system)
    first, second, third = (line["request"] for line in r.lines())
    assert first["messages"] == messages[:1]
    assert first["system"] == system
    assert second["messages"] == {"same_as": 1, "first": 1, "then": messages[1:3]}
    assert third["messages"] == {"same_as": 2, "first": 3, "then": messages[3:5]}
    assert third["system"] == {"same_as": 1}


def test_a_history_that_was_marked_for_a_cache_is_the_same():
    history = History()
    item = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    marked = {
        "role": "user",
        "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
    }
    history.fold(1, {"messages": [marked]})
    folded, _ = history.fold(2, {"messages": [item, item]})
    assert folded["messages"] == {"same_as": 1, "first": 1, "then": [item]}


@pytest.mark.parametrize("secret", ["top-secret", '"quoted"\\', "2024", "ключ"])
def test_secrets_are_taken_out_and_the_record_stays_json(rig, secret):
    forms = {secret, json.dumps(secret)[1:-1]}

    def redact(text):
        for form in forms:
            text = text.replace(form, "[REDACTED]")
        return text

    r = rig(Turn(text=f"split {secret} here"), redact=redact)
    body = request("messages", stream=True, max_tokens=2024)
    body["messages"][0]["content"] = f"say {secret}"
    r.post(PATHS["messages"], body)
    line = r.lines()[0]
    assert line["request"]["messages"][0]["content"] == "say [REDACTED]"
    assert line["response"]["content"][0]["text"] == "split [REDACTED] here"
    assert line["request"]["max_tokens"] == 2024


def test_keys_and_tokens_never_reach_the_record(rig):
    r = rig()
    body = request("messages")
    body["messages"][0]["content"] = f"my token is {r.session.token}"
    r.post(PATHS["messages"], body)
    text = r.record.read_text()
    assert r.session.token not in text
    assert "my token is [REDACTED]" in text


def test_a_flood_of_refusals_does_not_fill_the_record(rig, monkeypatch):
    monkeypatch.setattr(record, "REFUSALS_RECORDED", 3)
    r = rig()
    for _ in range(6):
        assert r.post("/v1/files", {}).status_code == 404
    assert len(r.lines()) == 3


def test_a_full_record_leaves_bodies_out(rig, monkeypatch):
    r = rig()
    r.call()
    r.lines()
    monkeypatch.setattr(record, "RECORD_CAP", 1)
    r.call()
    assert "request" in r.lines()[0]
    assert "request" not in r.lines()[1]
    assert r.lines()[1]["usage"]["n_output_tokens"] == 20


@pytest.mark.parametrize("depth", [200, 330, 480, 900])
def test_a_call_that_is_nested_deeply_is_recorded_all_the_same(rig, depth):
    r = rig(policy=network_policy("no-network"))
    deep = b'{"cache_control": ' * depth + b"1" + b"}" * depth
    r.post(PATHS["messages"], b'{"model": "m", "messages": [], "metadata": ' + deep + b"}")
    (line,) = r.lines()
    assert line["outcome"] in ("ok", "gateway")
    assert r.session.verdict().kind == ("worked" if line["outcome"] == "ok" else "never_called")


def test_a_record_that_cannot_be_written_says_so_and_calls_count(rig):
    r = rig(Turn(status=401))
    r.record.parent.write_text("a file in the folder's place")
    r.call()
    assert r.session.verdict().fault == "AgentAuthenticationError"
    assert "calls are missing" in r.session.record_fault


def test_a_long_body_is_kept_in_part_and_says_so():
    spool = Spool(cap=IN_MEMORY + 100)
    for _ in range(3):
        spool.write(b"x" * IN_MEMORY)
    assert len(spool.read()) == IN_MEMORY + 100
    assert spool.dropped == 2 * IN_MEMORY - 100
    spool.close()
    assert spool.read() == b""


def test_an_answer_longer_than_what_is_read_whole_still_has_its_counts(rig):
    text = 'lies: "usage": {"prompt_tokens": 1} ' * 60_000
    r = rig(default=Turn(text=text))
    for operation in ("chat", "responses", "messages", "generate"):
        r.call(operation)
    assert [line["usage"]["n_input_tokens"] for line in r.lines()] == [100] * 4
    assert [line["outcome"] for line in r.lines()] == ["ok"] * 4


def test_one_long_event_still_has_its_counts(rig):
    r = rig(Turn(text="x" * 600_000))
    r.call("responses", stream=True)
    line = r.lines()[0]
    assert (line["outcome"], line["usage"]["n_input_tokens"]) == ("ok", 100)
