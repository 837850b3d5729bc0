"""Streams are read the same however the network cuts them."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pytest_harbor.model_gateway as package
from pytest_harbor.errors import OptionError
from pytest_harbor.model_gateway.answer import StreamReader
from pytest_harbor.model_gateway.assemble import assemble
from pytest_harbor.model_gateway.events import EVENT_LIMIT, EventSplitter
from pytest_harbor.model_gateway.masking import KeyMask, UsageFilter
from tests.model_server import ToolCall, Turn, wires

OPERATIONS = ["chat", "responses", "messages", "generate"]
TURN = Turn(text="ein zwei drei", tools=(ToolCall("bash", {"command": "ls"}),))
CUTS = st.lists(st.integers(1, 40), min_size=1, max_size=30)
KEY = "sk-sk-key"


def pieces(data, cuts):
    """The data, cut at lengths that are taken in turns."""
    start = 0
    while start < len(data):
        for length in cuts:
            yield data[start : start + length]
            start += length


def stream(operation, turn=TURN):
    return b"".join(wires.events(operation, turn, "m", with_usage=True))


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=40, deadline=None)
@given(cuts=CUTS, newline=st.sampled_from([b"\n", b"\r\n"]))
def test_an_answer_is_read_the_same_in_any_pieces(operation, cuts, newline):
    reader = StreamReader(operation)
    for piece in pieces(stream(operation).replace(b"\n", newline), cuts):
        reader.feed(piece)
    assert reader.finish() == "ok"
    answer = reader.answer
    assert (answer.model, answer.asks_for_tool) == ("m", True)
    assert (answer.tokens.input, answer.tokens.cached, answer.tokens.output) == (100, 40, 20)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_answer_without_a_tool_asks_for_none(operation):
    reader = StreamReader(operation)
    reader.feed(stream(operation, Turn(text="done")))
    assert reader.finish() == "ok"
    assert not reader.answer.asks_for_tool


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=60, deadline=None)
@given(share=st.floats(0, 0.95))
def test_a_stream_that_stops_anywhere_is_cut(operation, share):
    data = stream(operation)
    reader = StreamReader(operation)
    reader.feed(data[: int(len(data) * share)])
    # Chat says that it is finished before it tells its counts.
    is_told = (
        operation == "chat" and b'"finish_reason": "tool_calls"' in data[: int(len(data) * share)]
    )
    assert reader.finish() in (("ok", "cut") if is_told else ("cut",))


@settings(max_examples=100, deadline=None)
@given(
    text=st.lists(st.sampled_from([KEY, "sk-", "sk-sk-", "s", "x", "key", "\n"]), max_size=12),
    cuts=CUTS,
)
def test_a_key_is_masked_in_any_pieces_and_nothing_else(text, cuts):
    data = "".join(text).encode()
    mask = KeyMask([KEY])
    masked = b"".join(mask.feed(piece) for piece in pieces(data, cuts)) + mask.finish()
    assert KEY.encode() not in masked
    assert masked == data.replace(KEY.encode(), b"x" * len(KEY))


@settings(max_examples=40, deadline=None)
@given(cuts=CUTS)
def test_the_counts_are_held_back_in_any_pieces(cuts):
    held = UsageFilter()
    out = b"".join(held.feed(piece) for piece in pieces(stream("chat"), cuts)) + held.finish()
    assert out == b"".join(wires.events("chat", TURN, "m", with_usage=False))


def test_what_follows_a_long_event_is_read_again():
    splitter = EventSplitter()
    data = b"event: big\ndata: " + b"x" * (3 * EVENT_LIMIT) + b"end\n\ndata: next\n\n"
    events = [event for piece in pieces(data, [50_000]) for event in splitter.feed(piece)]
    assert [(event.name, event.is_whole) for event in events] == [("big", False), ("", True)]
    assert events[0].data.endswith(b"end")
    assert len(events[0].data) < 2 * EVENT_LIMIT
    assert not splitter.is_within_event


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=60, deadline=None)
@given(data=st.lists(st.sampled_from([b"data: ", b"{", b"}", b"[]", b"\n\n", b'"choices":', b"1"])))
def test_any_bytes_are_read_without_an_error(operation, data):
    reader = StreamReader(operation)
    reader.feed(b"".join(data))
    assert reader.finish() in ("cut", "malformed", "ok", "error_event")
    assemble(operation, b"".join(data))


def test_the_gateway_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(OptionError, match=r"pip install 'pytest-harbor\[agents\]'"):
        package.load()


def test_the_gateway_knows_neither_pytest_nor_docker():
    script = (
        "import sys; import pytest_harbor.model_gateway as g; g.load();"
        "print(sorted({'pytest', 'docker'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
