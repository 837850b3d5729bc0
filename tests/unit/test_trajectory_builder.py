"""Trajectories that agents write as they go, and what they come to in tokens and money."""

import threading
from typing import Any

import pytest

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.result.trajectory import Metrics, ToolCall, Trajectory
from pytest_harbor.result.trajectory_builder import TrajectoryBuilder
from pytest_harbor.result.trajectory_reader import parse_trajectory
from pytest_harbor.result.trajectory_usage import usage_of

CALL = {"tool_call_id": "1", "function_name": "bash", "arguments": {"command": "ls"}}


def built(builder: TrajectoryBuilder) -> dict[str, Any]:
    trajectory = builder.build()
    assert trajectory is not None
    return parse_trajectory(trajectory.to_json()).to_json()


def test_steps_are_numbered_and_summed() -> None:
    builder = TrajectoryBuilder("mine", "1.0", model_name="m", session_id="s", stamps=False)
    builder.user("Do it.")
    builder.agent("I look.", tool_calls=[CALL], metrics={"prompt_tokens": 10, "cost_usd": 0.5})
    builder.observe("a.txt", call="1")
    builder.agent("Done.", metrics=Metrics(prompt_tokens=20, completion_tokens=3, cost_usd=0.25))
    document = built(builder)
    assert [step["step_id"] for step in document["steps"]] == [1, 2, 3]
    assert document["agent"] == {"name": "mine", "version": "1.0", "model_name": "m"}
    assert document["steps"][1]["observation"] == {
        "results": [{"source_call_id": "1", "content": "a.txt"}]
    }
    assert document["final_metrics"] == {
        "total_prompt_tokens": 30,
        "total_completion_tokens": 3,
        "total_cost_usd": 0.75,
        "total_steps": 3,
    }


def test_nobody_used_it() -> None:
    assert TrajectoryBuilder().build() is None


def test_steps_have_the_time_at_which_they_were_added() -> None:
    builder = TrajectoryBuilder()
    builder.user("a")
    builder.user("b", timestamp="2026-01-05T10:00:00Z")
    first, second = built(builder)["steps"]
    assert first["timestamp"].endswith("+00:00")
    assert second["timestamp"] == "2026-01-05T10:00:00Z"


def test_models_of_the_format_and_plain_text_will_do() -> None:
    builder = TrajectoryBuilder(stamps=False)
    call = ToolCall(tool_call_id="1", function_name="bash", arguments={})
    builder.agent(tool_calls=[call], observation="seen at once")
    (step,) = built(builder)["steps"]
    assert step["observation"] == {"results": [{"content": "seen at once"}]}


def test_an_observation_finds_the_step_that_made_the_call() -> None:
    builder = TrajectoryBuilder(stamps=False)
    builder.agent("one", tool_calls=[CALL])
    builder.agent("two")
    builder.observe("late", call="1")
    builder.observe("of its own accord")
    first, second = built(builder)["steps"]
    assert first["observation"]["results"] == [{"source_call_id": "1", "content": "late"}]
    assert second["observation"]["results"] == [{"content": "of its own accord"}]


def test_a_broken_rule_is_told_at_once_and_adds_nothing() -> None:
    builder = TrajectoryBuilder()
    with pytest.raises(TrajectoryFormatError, match="metrics: accepted only where source"):
        builder.user("x", metrics={"prompt_tokens": 1})
    with pytest.raises(TrajectoryFormatError, match="there is no step"):
        builder.observe("x")
    builder.user("x")
    with pytest.raises(TrajectoryFormatError, match="no step has the tool call 'c'"):
        builder.observe("x", call="c")
    assert len(builder) == 1


def test_text_that_no_file_can_hold_is_made_such() -> None:
    builder = TrajectoryBuilder(stamps=False)
    builder.agent("bad \ud800", tool_calls=[{**CALL, "arguments": {"x": "\udfff"}}])
    (step,) = built(builder)["steps"]
    assert step["message"] == "bad ?"
    assert step["tool_calls"][0]["arguments"] == {"x": "?"}


def test_a_trajectory_that_was_handed_out_does_not_change() -> None:
    builder = TrajectoryBuilder()
    builder.agent(tool_calls=[CALL])
    early = builder.build()
    builder.observe("later", call="1")
    builder.user("more")
    assert early is not None
    assert len(early.steps) == 1
    assert early.steps[0].observation is None


def test_several_threads_may_add_steps() -> None:
    builder = TrajectoryBuilder()

    def work() -> None:
        for _ in range(50):
            builder.agent("x")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built(builder)["steps"]) == 200


def trajectory(*metrics: dict[str, Any], **fields: Any) -> Trajectory:
    steps = [
        {"step_id": number, "source": "agent", "message": "", **one}
        for number, one in enumerate(metrics, start=1)
    ]
    agent = {"name": "a", "version": "1", **fields.pop("agent", {})}
    return parse_trajectory({"agent": agent, "steps": steps, **fields})


TOKENS = {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 4}
COUNTS = {"n_input_tokens": 10, "n_output_tokens": 2, "n_cache_tokens": 4}


def test_what_the_agent_summed_comes_before_our_sums() -> None:
    final = {"total_prompt_tokens": 99, "total_steps": 7}
    usage = usage_of(trajectory({"metrics": {**TOKENS, "cost_usd": 1}}, final_metrics=final))
    assert usage == {**COUNTS, "n_input_tokens": 99, "cost_usd": 1, "n_steps": 7}


def test_counts_are_kept_apart_by_model() -> None:
    usage = usage_of(
        trajectory(
            {"model_name": "big", "metrics": {**TOKENS, "cost_usd": 0.5}},
            {"metrics": TOKENS},
            {"model_name": "big", "metrics": {**TOKENS, "cost_usd": 0.25}},
            agent={"model_name": "small"},
        )
    )
    assert usage["model_usage"] == {
        "big": {
            "n_input_tokens": 20,
            "n_cache_tokens": 8,
            "n_output_tokens": 4,
            "cost_usd": 0.75,
        },
        "small": {**COUNTS, "cost_usd": None},
    }
    assert "cost_usd" not in usage, "a sum that leaves steps out is no cost"


def test_totals_alone_belong_to_the_only_model() -> None:
    final = {"total_prompt_tokens": 5, "total_cost_usd": 0.1}
    usage = usage_of(trajectory({}, final_metrics=final, agent={"model_name": "m"}))
    assert usage["model_usage"] == {
        "m": {"n_input_tokens": 5, "n_cache_tokens": 0, "n_output_tokens": 0, "cost_usd": 0.1}
    }


def test_copied_steps_are_not_counted_and_embedded_trajectories_are() -> None:
    inner = trajectory({"metrics": TOKENS}).to_json() | {"trajectory_id": "t"}
    copied = {"metrics": TOKENS, "is_copied_context": True}
    usage = usage_of(trajectory(copied, {"metrics": TOKENS}, subagent_trajectories=[inner]))
    assert usage["n_input_tokens"] == 20
    assert usage["n_steps"] == 3


def test_numbers_that_count_nothing_are_left_out() -> None:
    final = {
        "total_prompt_tokens": 10**300,
        "total_completion_tokens": -5,
        "total_cost_usd": -1.0,
        "total_steps": 10**300,
    }
    assert usage_of(trajectory({}, final_metrics=final)) == {"n_steps": 1}
