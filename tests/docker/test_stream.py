"""Taking the engine's stream and the wrapper's marks apart; no engine needed."""

import itertools
import socket
import struct
import threading
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.environment.docker.attach import (
    AttachedStream,
    Deadline,
    FrameReader,
    Output,
    Tail,
)
from pytest_harbor.environment.docker.command import MarkFilter, StartedProcess, new_mark
from pytest_harbor.environment.docker.process import DockerProcess

STAT = "17 (a) b) R 1 17 17 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0"


def frame(stream: int, data: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(data)) + data


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40))),
    st.lists(st.integers(0, 10_000), max_size=20),
)
def test_frames_come_back_however_they_are_cut(frames: list[tuple[int, bytes]], places: list[int]):
    wire = b"".join(itertools.starmap(frame, frames))
    reader = FrameReader()
    got: dict[int, bytes] = {1: b"", 2: b""}
    for part in cut(wire, places):
        for stream, data in reader.feed(part):
            got[stream] += data
    for stream in (1, 2):
        assert got[stream] == b"".join(data for number, data in frames if number == stream)


@given(
    st.binary(max_size=100),
    st.binary(max_size=100),
    st.lists(st.integers(0, 10_000), max_size=20),
)
def test_marks_are_taken_out_however_they_are_cut(before: bytes, after: bytes, places: list[int]):
    mark = new_mark()
    wire = mark + f" start {STAT}\n".encode() + before + mark + b" end 3\n" + after
    marks = MarkFilter(mark)
    clean = b"".join(marks.feed(part) for part in cut(wire, places)) + marks.finish()
    assert clean == before + after
    assert marks.process == StartedProcess(17, 4242)
    assert marks.exit_code == 3


@given(st.binary(max_size=200), st.lists(st.integers(0, 10_000), max_size=20))
def test_output_without_marks_passes_whole(data: bytes, places: list[int]):
    marks = MarkFilter(new_mark())
    clean = b"".join(marks.feed(part) for part in cut(data, places)) + marks.finish()
    assert clean == data
    assert marks.process is None


def test_a_mark_that_never_ends_is_not_held_back_for_ever():
    mark = new_mark()
    marks = MarkFilter(mark)
    assert len(marks.feed(mark + bytes(5000))) == len(mark) + 5000


@given(st.lists(st.binary(max_size=300), max_size=30))
def test_a_tail_keeps_the_end(parts: list[bytes]):
    tail = Tail(100)
    for part in parts:
        tail.add(part)
    whole = b"".join(parts)
    assert tail.total == len(whole)
    assert whole.decode(errors="replace").endswith(tail.text) or len(whole) > 100


def test_a_tail_begins_with_a_whole_character():
    tail = Tail(4)
    tail.add("aäöü".encode())
    assert tail.text == "öü"
    tail.add(b"x")
    assert tail.text == "üx"


def test_streams_share_the_sink_in_order_of_arrival():
    import io

    sink = io.BytesIO()
    output = Output(sink)
    for stream, data in ((1, b"a"), (2, b"b"), (1, b"c")):
        output.add(stream, data)
    assert sink.getvalue() == b"abc"
    assert (output.stdout.text, output.stderr.text) == ("ac", "b")


def test_a_deadline_without_limit_never_passes():
    never = Deadline(None)
    assert (never.passed, never.remaining, never.within(5)) == (False, None, 5)


def test_a_deadline_of_no_time_has_passed():
    now = Deadline(0)
    assert now.passed
    assert now.remaining == 0
    assert now.within(5) <= 0


def test_output_that_overtakes_the_mark_does_not_keep_a_process_from_beginning() -> None:
    # The engine carries the two streams side by side, and promises no order between them.
    mark, flood = new_mark(), b"y\n" * 2**20
    ours, engines = socket.socketpair()
    frames = frame(1, flood), frame(2, mark + f" start {STAT}\n".encode())
    sending = threading.Thread(target=engines.sendall, args=(b"".join(frames),))
    sending.start()
    body = ours.makefile("rb")
    response = SimpleNamespace(raw=SimpleNamespace(_fp=SimpleNamespace(fp=body)), close=ours.close)
    process = DockerProcess(AttachedStream(response), mark, lambda _process: None, None)
    try:
        assert process.begin(10) is None
        got = b""
        while len(got) < len(flood):
            got += process.read(10) or b""
        assert got == flood
    finally:
        sending.join()
        engines.close()
        process.close(0)
        body.close()
