"""The gateway's record of calls as a trajectory: what it folded is unfolded again."""

import json
from typing import Any

import pytest

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.model_gateway.history import History
from pytest_harbor.result.agent_logs.gateway_record import read_gateway_record, recorded_calls
from pytest_harbor.result.trajectory_reader import parse_trajectory
from pytest_harbor.result.trajectory_usage import usage_of

SYSTEM = "Be good. " * 50
TOOLS = [{"name": "Bash", "description": "x" * 300}]


def requests(turns: int) -> list[dict[str, Any]]:
    """The requests of a conversation, each with the whole history."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Write ok."}]
    bodies = []
    for number in range(turns):
        body = {"model": "m", "system": SYSTEM, "tools": TOOLS, "messages": list(messages)}
        bodies.append(body)
        use = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {}}
        seen = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"seen {number}"}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [seen]}]
    return bodies


def record(bodies: list[dict[str, Any]]) -> list[bytes]:
    history = History()
    lines = []
    for number, body in enumerate(bodies, start=1):
        use = {"type": "tool_use", "id": f"t{number - 1}", "name": "Bash", "input": {}}
        entry = {
            "n": number,
            "started_at": "2026-01-05T10:00:00+00:00",
            "operation": "messages",
            "model": "m",
            "outcome": "ok",
            "usage": {"n_input_tokens": 10, "n_cache_tokens": 4, "n_output_tokens": 2},
            "cost_usd": 0.5,
            "request": history.fold(number, body)[0],
            "response": {"content": [use]},
        }
        lines.append(json.dumps(entry).encode() + b"\n")
    return lines


def test_folded_requests_are_whole_again() -> None:
    bodies = requests(60)
    lines = record(bodies)
    assert sum(map(len, lines)) < len(json.dumps(bodies)) / 5, "nothing was folded"
    assert [call.request for call in recorded_calls(lines)] == bodies


def test_a_record_becomes_a_trajectory() -> None:
    trajectory = read_gateway_record(record(requests(3)), name="any", session_id="s")
    document = parse_trajectory(trajectory.to_json()).to_json()
    assert [step["source"] for step in document["steps"]] == ["system", "user", *["agent"] * 3]
    seen = [step["observation"]["results"][0]["content"] for step in document["steps"][2:4]]
    assert seen == ["seen 0", "seen 1"]
    usage = usage_of(trajectory)
    assert (usage["n_input_tokens"], usage["n_cache_tokens"], usage["cost_usd"]) == (30, 12, 1.5)


def test_lines_that_are_no_calls_are_passed_over() -> None:
    whole = record(requests(2))
    others = [
        b"\n",
        b'{"n": 9, "operation": "count", "request": {}}\n',
        b'{"n": 9, "operation": "messages", "request": {"text": "no JSON"}, "response": null}\n',
        b'{"n": 9, "operation": "messages", "request": {"messages": {"same_as": 77}}}\n',
        b'{"n": 3, "operation": "mess',
    ]
    noisy = read_gateway_record([*whole, *others])
    assert noisy.to_json() == read_gateway_record(whole).to_json()


def test_a_record_without_answers_is_no_trajectory() -> None:
    with pytest.raises(TrajectoryFormatError, match="no call that a model answered"):
        read_gateway_record([])
