"""The trajectory format: every rule of it, hostile input, and what is written read again."""

import copy
import json
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.result.trajectory import AUDIO_ALIASES, VERSIONS
from pytest_harbor.result.trajectory_reader import MAX_BYTES, MAX_PROBLEMS, read_trajectory

DOCUMENT: dict[str, Any] = {
    "schema_version": "ATIF-v1.8",
    "session_id": "s-1",
    "agent": {"name": "demo", "version": "0.1", "model_name": "m"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "List files"},
        {
            "step_id": 2,
            "source": "agent",
            "message": "",
            "tool_calls": [
                {"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}
            ],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
            "metrics": {"prompt_tokens": 30, "completion_tokens": 6},
        },
    ],
    "final_metrics": {"total_prompt_tokens": 30, "total_completion_tokens": 6, "total_steps": 2},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The document with another value at a path such as ``steps.1.message``."""
    document = copy.deepcopy(DOCUMENT)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = document
    for part in parents:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return document


def read(document: Any) -> dict[str, Any]:
    return read_trajectory(json.dumps(document).encode()).to_json()


def refusal(document: Any) -> str:
    with pytest.raises(TrajectoryFormatError) as caught:
        read(document)
    return str(caught.value)


def embedded(*identities: str | None) -> dict[str, Any]:
    parts = []
    for identity in identities:
        part = copy.deepcopy(DOCUMENT)
        if identity is not None:
            part["trajectory_id"] = identity
        parts.append(part)
    return changed("subagent_trajectories", parts)


IMAGE = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
AUDIO = {
    "type": "audio",
    "source": {"media_type": "audio/wav", "path": "a.wav", "duration_sec": 1.5},
}
TEXT = {"type": "text", "text": "words"}


@pytest.mark.parametrize(
    "document",
    [
        DOCUMENT,
        changed("session_id", ...),
        changed("final_metrics", ...),
        changed("notes", "n"),
        changed("extra", {"deep": [{"none": None}]}),
        changed("continued_trajectory_ref", "next.json"),
        changed("trajectory_id", "t"),
        changed("agent.tool_definitions", [{"type": "function", "function": {"name": "bash"}}]),
        changed("steps.0.message", [TEXT, IMAGE, AUDIO]),
        changed("steps.0.source", "system"),
        changed("steps.0.observation", {"results": [{"content": [TEXT]}]}),
        changed("steps.0.is_copied_context", True),
        changed("steps.0.llm_call_count", 0),
        changed("steps.1.llm_call_count", 2),
        changed("steps.1.timestamp", "2026-01-05T10:00:00Z"),
        changed("steps.1.reasoning_effort", "high"),
        changed("steps.1.reasoning_effort", 0.5),
        changed("steps.1.reasoning_content", "hm"),
        changed("steps.1.tool_calls.0.arguments", {"none": None}),
        changed("steps.1.tool_calls.0.extra", {"a": 1}),
        changed("steps.1.metrics", {"prompt_token_ids": [1], "logprobs": [-0.5], "extra": {}}),
        changed(
            "steps.1.observation.results.0.subagent_trajectory_ref",
            [{"trajectory_id": "t"}, {"trajectory_path": "t.json", "session_id": "s"}],
        ),
        embedded("a", "b"),
    ],
)
def test_what_is_read_is_written_again(document: dict[str, Any]) -> None:
    assert read(document) == document


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_read(version: str) -> None:
    assert read(changed("schema_version", version))["schema_version"] == version


def test_nulls_are_left_out_where_the_format_has_a_field_and_kept_in_what_is_the_agents() -> None:
    document = changed("steps.0.metrics", None)
    document["steps"][0]["message"] = [{**TEXT, "source": None}]
    document["steps"][1]["tool_calls"][0]["arguments"] = {"limit": None}
    written = read(document)
    assert "metrics" not in written["steps"][0]
    assert written["steps"][0]["message"] == [TEXT]
    assert written["steps"][1]["tool_calls"][0]["arguments"] == {"limit": None}


@pytest.mark.parametrize("alias", [*AUDIO_ALIASES, "Audio/X-Wav"])
def test_other_names_of_media_types_become_the_usual_ones(alias: str) -> None:
    part = {"type": "audio", "source": {"media_type": alias, "path": "a"}}
    (written,) = read(changed("steps.0.message", [part]))["steps"][0]["message"]
    assert written["source"]["media_type"] == AUDIO_ALIASES[alias.lower()]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema_version", "ATIF-v2.0", "schema_version: expected 'ATIF-v1.0', *got 'ATIF-v2.0'*"),
        ("agent", ..., "agent: is required"),
        ("agent.name", ..., "agent.name: is required"),
        ("agent.version", 1, "agent.version: expected text, got 1"),
        ("agent.color", "red", "agent.color: is not a field of ATIF; *"),
        ("color", "red", "color: is not a field*"),
        ("steps", [], "steps: expected at least one, got none"),
        ("steps", {}, "steps: expected a list, got an object"),
        ("steps.0.step_id", 2, "steps[[]0].step_id: expected 1,*got 2"),
        ("steps.1.step_id", 0, "steps[[]1].step_id: expected 1 or more, got 0"),
        ("steps.1.step_id", "2", "steps[[]1].step_id: expected a whole number, got '2'"),
        ("steps.1.source", "assistant", "steps[[]1].source: expected 'system', 'user' or 'agent'*"),
        ("steps.1.message", ..., "steps[[]1].message: is required"),
        ("steps.1.message", None, "steps[[]1].message: expected text or a list of content*null"),
        ("steps.1.timestamp", "noon", "steps[[]1].timestamp: expected an ISO 8601*'noon'"),
        ("steps.1.mood", 1, "steps[[]1].mood: is not a field*"),
        (
            "steps.0.model_name",
            "m",
            "steps[[]0].model_name: accepted only where source is 'agent'*",
        ),
        ("steps.0.reasoning_effort", 1, "steps[[]0].reasoning_effort: accepted only*'user'"),
        ("steps.0.reasoning_content", "", "steps[[]0].reasoning_content: accepted only*"),
        ("steps.0.tool_calls", [], "steps[[]0].tool_calls: accepted only*"),
        ("steps.0.metrics", {}, "steps[[]0].metrics: accepted only*"),
        ("steps.1.llm_call_count", 0, "steps[[]1].metrics: not accepted*llm_call_count is 0"),
        ("steps.1.llm_call_count", -1, "steps[[]1].llm_call_count: expected 0 or more, got -1"),
        ("steps.1.is_copied_context", "yes", "*is_copied_context: expected true or false*"),
        (
            "steps.1.tool_calls.0.arguments",
            "ls",
            "steps[[]1].tool_calls[[]0].arguments: expected an object, got 'ls'",
        ),
        ("steps.1.tool_calls.0.function_name", ..., "*function_name: is required"),
        ("steps.1.tool_calls.0.tool_call_id", ..., "*tool_call_id: is required"),
        (
            "steps.1.observation.results.0.source_call_id",
            "c2",
            "steps[[]1].observation.results[[]0].source_call_id: expected*('c1'), got 'c2'",
        ),
        (
            "steps.0.observation",
            {"results": [{"source_call_id": "c1"}]},
            "steps[[]0].observation.results[[]0].source_call_id: expected*(none), got 'c1'",
        ),
        ("steps.1.observation", {}, "steps[[]1].observation.results: is required"),
        (
            "steps.1.observation.results.0.subagent_trajectory_ref",
            [{"session_id": "s"}],
            "*subagent_trajectory_ref[[]0]: expected trajectory_id or trajectory_path*",
        ),
        ("steps.1.metrics.prompt_tokens", 1.5, "*prompt_tokens: expected a whole number, got 1.5"),
        ("steps.1.metrics.prompt_tokens", True, "*prompt_tokens: expected a whole*got true"),
        ("final_metrics.total_steps", -1, "final_metrics.total_steps: expected 0 or more, got -1"),
        ("steps.0.message", [{"type": "video"}], "*message[[]0]: expected a content part*'video'"),
        ("steps.0.message", ["words"], "*message[[]0]: expected a content part*'words'"),
        ("steps.0.message", [{"type": "text"}], "*message[[]0].text: is required"),
        ("steps.0.message", [{**TEXT, **IMAGE}], "*message[[]0].text: expected null or nothing*"),
        ("steps.0.message", [{**IMAGE, **TEXT}], "*message[[]0].source: expected null*"),
        (
            "steps.0.message",
            [{"type": "image", "source": {"media_type": "image/bmp", "path": "a"}}],
            "*source.media_type: expected 'image/jpeg'*got 'image/bmp'*",
        ),
        (
            "steps.0.message",
            [{"type": "audio", "source": {**AUDIO["source"], "duration_sec": -1}}],
            "*duration_sec: expected 0 or more, got -1",
        ),
    ],
)
def test_a_broken_rule_is_named_with_its_place(path: str, value: Any, message: str) -> None:
    text = refusal(changed(path, value))
    assert fnmatchcase(text, message), text


def test_embedded_trajectories_have_names_of_their_own() -> None:
    where = "subagent_trajectories[{}].trajectory_id: "
    assert refusal(embedded(None)).startswith(where.format(0) + "is required")
    assert refusal(embedded("a", "a")).startswith(where.format(1) + "expected one that no other")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected JSON: *"),
        (b'{"steps": [', "expected JSON: *line 1 column 12*"),
        (b"\xff\xfe", "expected UTF-8, got the byte 0xff at 0"),
        (b"[1]", "expected an object, got [[]1]"),
        (b"null", "expected an object, got null"),
        (b'{"a": NaN}', "expected JSON, which has no NaN"),
        (b'{"a": -Infinity}', "expected JSON, which has no -Infinity"),
        (b'{"a": 1e999}', "expected numbers that a float can hold, got a larger one"),
        (
            b'{"a": ' + b"9" * 100_000 + b"}",
            "expected numbers of at most 4300 digits, got a longer one",
        ),
        (b"[" * 200_000, "is nested deeper than 100 levels*"),
        (b'{"a":' * 150 + b"1" + b"}" * 150, "is nested deeper than 100 levels*"),
        (b"[" + b"{}," * 160_000 + b"1]", "has more than 150000 objects and lists*"),
        (b'{"a": "' + b"{" * 2_000_001 + b'"}', "has more than 2000000 '{'*"),
        (b" " * (MAX_BYTES + 1), "larger than 64 MiB*"),
    ],
    ids=lambda value: value[:12].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_hostile_bytes_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(TrajectoryFormatError) as caught:
        read_trajectory(data)
    assert fnmatchcase(str(caught.value), message)


def test_many_problems_and_long_ones_stay_readable() -> None:
    steps = [{"step_id": n, "source": "x" * 10_000, "message": 1} for n in range(1000)]
    text = refusal(changed("steps", steps))
    assert len(text) < 500 * MAX_PROBLEMS
    assert "more" in text
    assert "\x1b" not in refusal(changed("\x1b[2J", 1))


def test_neither_links_nor_pipes_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(json.dumps(DOCUMENT))
    assert read_trajectory(secret).to_json() == DOCUMENT
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(secret)
    os.mkfifo(pipe)
    for path in (link, pipe, tmp_path, tmp_path / "missing"):
        with pytest.raises(TrajectoryFormatError):
            read_trajectory(path)


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
MAPS = st.dictionaries(TEXTS, JSON, max_size=3)
COUNTS = st.integers(0, 2**60)
CONTENT = TEXTS | st.lists(st.sampled_from([TEXT, IMAGE, AUDIO]), max_size=3)


def optional(required: dict[str, Any], **fields: Any) -> Any:
    return st.fixed_dictionaries(required, optional=fields)


@st.composite
def steps(draw: st.DrawFn, number: int) -> dict[str, Any]:
    common = {
        "is_copied_context": st.booleans(),
        "extra": MAPS,
        "timestamp": st.datetimes().map(lambda moment: moment.isoformat()),
        "llm_call_count": st.integers(1, 5),
    }
    base = {"step_id": st.just(number), "message": CONTENT}
    if draw(st.booleans()):
        source = st.sampled_from(["system", "user"])
        return draw(optional({**base, "source": source}, **common))
    call = optional({"tool_call_id": TEXTS, "function_name": TEXTS, "arguments": MAPS}, extra=MAPS)
    counts = {"prompt_tokens": COUNTS, "completion_tokens": COUNTS, "cost_usd": st.floats(0, 1e6)}
    fields = {
        **common,
        "model_name": TEXTS,
        "reasoning_content": TEXTS,
        "reasoning_effort": TEXTS | st.floats(0, 1),
        "metrics": optional({}, **counts, logprobs=st.lists(st.floats(-9, 0), max_size=2)),
    }
    step = draw(optional({**base, "source": st.just("agent")}, **fields))
    if draw(st.booleans()):
        step["tool_calls"] = draw(st.lists(call, min_size=1, max_size=3))
        known = st.sampled_from([one["tool_call_id"] for one in step["tool_calls"]])
        result = optional({}, source_call_id=known, content=CONTENT, extra=MAPS)
        step["observation"] = {"results": draw(st.lists(result, max_size=3))}
    return step


@st.composite
def documents(draw: st.DrawFn, depth: int = 1) -> dict[str, Any]:
    number = draw(st.integers(1, 3))
    agent = optional({"name": TEXTS, "version": TEXTS}, model_name=TEXTS, extra=MAPS)
    document = draw(
        optional(
            {"schema_version": st.sampled_from(VERSIONS), "agent": agent},
            session_id=TEXTS,
            notes=TEXTS,
            extra=MAPS,
            final_metrics=optional({}, total_steps=COUNTS, total_cost_usd=st.floats(0, 1e6)),
        )
    )
    document["steps"] = [draw(steps(one)) for one in range(1, number + 1)]
    if depth and draw(st.booleans()):
        inner = draw(documents(depth - 1))
        document["subagent_trajectories"] = [{**inner, "trajectory_id": "t"}]
    return document


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_any_valid_document_survives(document: dict[str, Any]) -> None:
    assert read(document) == document


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_refused_in_our_own_words(data: bytes) -> None:
    with pytest.raises(TrajectoryFormatError):
        read_trajectory(data)
