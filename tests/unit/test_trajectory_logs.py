"""What agents leave behind about their work, read into trajectories."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.result.agent_logs.claude_code import read_claude_code
from pytest_harbor.result.agent_logs.codex import read_codex
from pytest_harbor.result.agent_logs.gemini_cli import read_gemini_cli
from pytest_harbor.result.agent_logs.mini_swe_agent import read_mini_swe_agent
from pytest_harbor.result.agent_logs.model_calls import ModelCall, read_model_calls
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.result.trajectory_reader import parse_trajectory
from pytest_harbor.result.trajectory_usage import usage_of

READERS: dict[str, Callable[[bytes], Trajectory]] = {
    "claude-code": read_claude_code,
    "codex": read_codex,
    "gemini-cli": read_gemini_cli,
    "mini-swe-agent": read_mini_swe_agent,
}


def lines(*objects: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in objects)


def checked(trajectory: Trajectory) -> dict[str, Any]:
    """The document, which must be valid by the rules of the format."""
    return parse_trajectory(trajectory.to_json()).to_json()


def outline(document: dict[str, Any]) -> list[Any]:
    """Each step as its source, its words, its tools, and what was seen."""
    return [
        (
            step["source"],
            step["message"],
            [call["function_name"] for call in step.get("tool_calls", ())],
            [one.get("content") for one in step.get("observation", {}).get("results", ())],
        )
        for step in document["steps"]
    ]


WORK = [
    ("user", "Write ok.", [], []),
    ("agent", "I write it.", ["Bash"], ["written"]),
    ("agent", "Done.", [], []),
]


def named(tool: str) -> list[Any]:
    return [(source, words, [tool] * len(tools), seen) for source, words, tools, seen in WORK]


# -- claude-code ----------------------------------------------------------------------


def assistant(identity: str, block: dict[str, Any], usage: dict[str, Any], **more: Any) -> Any:
    message = {"id": identity, "model": "claude-x", "role": "assistant", "content": [block]}
    return {"type": "assistant", "message": {**message, "usage": usage}, **more}


def tool_result(identity: str, content: Any, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": identity, "content": content}
    return {"type": "user", "message": {"role": "user", "content": [block]}, **more}


USAGE = {"input_tokens": 5, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 2}
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "echo ok"}}
STREAM = (
    {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-x", "tools": []},
    assistant("m1", {"type": "thinking", "thinking": "easy"}, {**USAGE, "output_tokens": 1}),
    assistant("m1", {"type": "text", "text": "I write it."}, {**USAGE, "output_tokens": 1}),
    assistant("m1", TOOL_USE, {**USAGE, "output_tokens": 8}),
    tool_result("toolu_1", [{"type": "text", "text": "written"}]),
    {"type": "system", "subtype": "api_retry", "attempt": 1},
    assistant("m2", {"type": "text", "text": "Done."}, {"input_tokens": 30, "output_tokens": 4}),
)
RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "total_cost_usd": 0.125,
    "usage": {"input_tokens": 35, "output_tokens": 12},
    "modelUsage": {
        "claude-x": {"inputTokens": 35, "outputTokens": 12, "cacheReadInputTokens": 10},
        "claude-small": {"inputTokens": 7, "outputTokens": 1, "cacheCreationInputTokens": 2},
    },
}


def test_claude_code_stream() -> None:
    read = read_claude_code(lines(*STREAM, RESULT), instruction="Write ok.")
    document = checked(read)
    assert outline(document) == WORK
    assert document["session_id"] == "s-1"
    assert document["steps"][1]["reasoning_content"] == "easy"
    assert document["steps"][1]["metrics"] == {
        "prompt_tokens": 17,
        "completion_tokens": 8,
        "cached_tokens": 10,
        "extra": {"cache_creation_input_tokens": 2},
    }
    usage = usage_of(read)
    assert (usage["n_input_tokens"], usage["n_output_tokens"]) == (54, 13), "side calls count"
    assert usage["cost_usd"] == 0.125


def test_claude_code_session_file() -> None:
    stamped = {"timestamp": "2026-01-05T10:00:00.000Z", "sessionId": "s-2", "version": "2.1.197"}
    prompt = {"type": "user", "message": {"role": "user", "content": "Write ok."}}
    noise = {"type": "queue-operation", "operation": "enqueue"}
    spoken = [{**line, **stamped} for line in (prompt, *STREAM[1:5], STREAM[6])]
    document = checked(read_claude_code(lines(noise, *spoken), instruction="not said twice"))
    assert outline(document) == WORK
    assert document["agent"]["version"] == "2.1.197"
    assert document["steps"][0]["timestamp"] == stamped["timestamp"]


def test_claude_code_subagents_are_embedded() -> None:
    inner = {"parent_tool_use_id": "toolu_1"}
    log = lines(
        *STREAM[:4],
        {"type": "user", "message": {"content": "look around"}, **inner},
        assistant("m9", {"type": "text", "text": "looked"}, {"output_tokens": 2}, **inner),
        *STREAM[4:],
    )
    document = checked(read_claude_code(log))
    (part,) = document["subagent_trajectories"]
    assert [step["message"] for step in part["steps"]] == ["look around", "looked"]
    (seen,) = document["steps"][0]["observation"]["results"]
    assert seen["subagent_trajectory_ref"] == [{"trajectory_id": part["trajectory_id"]}]


def test_what_claude_code_says_in_the_models_place_is_no_call_of_it() -> None:
    said = assistant("m1", {"type": "text", "text": "API Error: 401"}, {"output_tokens": 0})
    said["message"]["model"] = "<synthetic>"
    (step,) = checked(read_claude_code(lines(said)))["steps"]
    assert step["llm_call_count"] == 0
    assert "metrics" not in step


# -- codex ----------------------------------------------------------------------------


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": f"item_{kind}", "type": kind, **fields}}


EXEC = (
    {"type": "thread.started", "thread_id": "t-1"},
    {"type": "turn.started"},
    item("reasoning", text="easy"),
    item("agent_message", text="I write it."),
    item("command_execution", command="echo ok", aggregated_output="written", exit_code=0),
    {**item("agent_message", text="Done.")},
    {
        "type": "turn.completed",
        "usage": {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 9},
    },
)


def test_codex_exec() -> None:
    read = read_codex(lines(*EXEC), instruction="Write ok.")
    document = checked(read)
    assert outline(document) == named("shell")
    assert document["session_id"] == "t-1"
    assert document["steps"][1]["reasoning_content"] == "easy"
    usage = usage_of(read)
    assert usage["n_input_tokens"] == 100
    assert usage["n_cache_tokens"] == 60


def response(**payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-05T10:00:00Z", "type": "response_item", "payload": payload}


def token_count(total: dict[str, int], last: dict[str, int]) -> dict[str, Any]:
    info = {"total_token_usage": total, "last_token_usage": last}
    return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return response(type="message", role=role, content=[{"type": kind, "text": text}])


FIRST = {"input_tokens": 40, "cached_input_tokens": 0, "output_tokens": 5}
SECOND = {"input_tokens": 60, "cached_input_tokens": 40, "output_tokens": 4}
BOTH = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 9}
ROLLOUT = (
    {"type": "session_meta", "payload": {"id": "s-3", "cli_version": "0.171.0", "cwd": "/app"}},
    said("user", "Write ok."),
    {"type": "turn_context", "payload": {"model": "gpt-x", "effort": "high"}},
    response(type="reasoning", summary=[{"type": "summary_text", "text": "easy"}]),
    said("assistant", "I write it."),
    response(type="function_call", name="exec_command", call_id="c", arguments='{"cmd":"echo"}'),
    token_count(FIRST, FIRST),
    response(type="function_call_output", call_id="c", output="written"),
    token_count(FIRST, FIRST),
    said("assistant", "Done."),
    token_count(BOTH, SECOND),
)


def test_codex_session_file() -> None:
    read = read_codex(lines(*ROLLOUT))
    document = checked(read)
    assert outline(document) == named("exec_command")
    assert document["agent"] == {"name": "codex", "version": "0.171.0", "model_name": "gpt-x"}
    assert document["steps"][1]["tool_calls"][0]["arguments"] == {"cmd": "echo"}
    assert document["steps"][1]["metrics"]["prompt_tokens"] == 40
    assert document["steps"][2]["metrics"]["prompt_tokens"] == 60
    assert usage_of(read)["n_input_tokens"] == 100


# -- gemini-cli -----------------------------------------------------------------------

TOOL = {
    "id": "run-1",
    "name": "run_shell_command",
    "args": {"command": "echo ok"},
    "result": [{"functionResponse": {"id": "run-1", "response": {"output": "written"}}}],
    "status": "success",
}
TOKENS = {"input": 50, "output": 6, "cached": 20, "thoughts": 3, "tool": 0, "total": 59}
MESSAGES = (
    {"id": "1", "timestamp": "2026-01-05T10:00:00Z", "type": "user", "content": "Write ok."},
    {
        "id": "2",
        "type": "gemini",
        "content": "I write it.",
        "thoughts": [{"subject": "Plan", "description": "easy"}],
        "tokens": TOKENS,
        "model": "gemini-x",
        "toolCalls": [TOOL],
    },
    {"id": "3", "type": "gemini", "content": "Done.", "model": "gemini-x", "tokens": TOKENS},
)
HEADER = {"sessionId": "s-4", "projectHash": "abc", "startTime": "2026-01-05T10:00:00Z"}


@pytest.mark.parametrize(
    "data",
    [
        lines(
            HEADER,
            MESSAGES[0],
            {"id": "2", "type": "gemini", "content": "I wr"},
            {"$set": {"lastUpdated": "2026-01-05T10:00:01Z"}},
            *MESSAGES[1:],
        ),
        json.dumps({**HEADER, "messages": MESSAGES}).encode(),
    ],
    ids=["jsonl", "document"],
)
def test_gemini_cli_session(data: bytes) -> None:
    read = read_gemini_cli(data)
    document = checked(read)
    assert outline(document) == named("run_shell_command")
    assert document["session_id"] == "s-4"
    assert document["steps"][1]["reasoning_content"] == "Plan: easy"
    assert document["steps"][1]["metrics"]["completion_tokens"] == 9, "thoughts are paid for"
    assert usage_of(read)["n_cache_tokens"] == 40


def test_gemini_cli_stream() -> None:
    words = {"type": "message", "role": "assistant", "delta": True}
    log = lines(
        {"type": "init", "session_id": "s-5", "model": "gemini-x"},
        {"type": "message", "role": "user", "content": "Write ok."},
        {**words, "content": "I write"},
        {**words, "content": " it."},
        {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "r", "parameters": {}},
        {"type": "tool_result", "tool_id": "r", "status": "success", "output": "written"},
        {**words, "content": "Done."},
        {"type": "result", "status": "success", "stats": {"input_tokens": 9, "output_tokens": 2}},
    )
    read = read_gemini_cli(log, instruction="not said twice")
    assert outline(checked(read)) == named("run_shell_command")
    assert usage_of(read)["n_input_tokens"] == 9


# -- mini-swe-agent -------------------------------------------------------------------


def mini(*messages: dict[str, Any]) -> bytes:
    info = {
        "exit_status": "Submitted",
        "submission": "",
        "mini_version": "2.4.6",
        "model_stats": {"instance_cost": 0.03, "api_calls": 2},
        "config": {"model": {"model_name": "openai/gpt-x"}},
    }
    document = {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}
    return json.dumps(document, indent=2).encode()


def test_mini_swe_agent_with_tool_calls() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 5}
    function = {"name": "Bash", "arguments": '{"command": "echo ok"}'}
    read = read_mini_swe_agent(
        mini(
            {"role": "system", "content": "You are helpful."},
            {"role": "user", "content": "Write ok."},
            {
                "role": "assistant",
                "content": "I write it.",
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
                "extra": {"response": {"usage": usage}, "cost": 0.03, "timestamp": 1767600000.5},
            },
            {"role": "tool", "tool_call_id": "c1", "content": "written", "extra": {}},
            {"role": "assistant", "content": "Done."},
            {"role": "exit", "content": "", "extra": {"exit_status": "Submitted"}},
        )
    )
    document = checked(read)
    assert outline(document) == [("system", "You are helpful.", [], []), *WORK]
    assert document["agent"]["model_name"] == "openai/gpt-x"
    assert document["extra"] == {"exit_status": "Submitted"}
    assert usage_of(read)["cost_usd"] == 0.03
    assert usage_of(read)["n_input_tokens"] == 20


def test_mini_swe_agent_with_actions_in_its_words() -> None:
    said = "I write it.\n```bash\necho ok\n```"
    document = checked(
        read_mini_swe_agent(
            mini(
                {"role": "user", "content": "Write ok."},
                {"role": "assistant", "content": said},
                {"role": "user", "content": "written"},
            )
        )
    )
    assert outline(document)[1:] == [("agent", said, ["bash"], ["written"])]
    assert document["steps"][1]["tool_calls"][0]["arguments"] == {"command": "echo ok"}


# -- hostile and broken logs ----------------------------------------------------------

WHOLE = {
    "claude-code": lines(*STREAM, RESULT),
    "codex": lines(*ROLLOUT),
    "gemini-cli": lines(HEADER, *MESSAGES),
}


@pytest.mark.parametrize("agent", WHOLE)
def test_a_cut_last_line_costs_only_itself(agent: str) -> None:
    whole = checked(READERS[agent](WHOLE[agent]))
    cut = checked(READERS[agent](WHOLE[agent] + b'{"type": "assistant", "mess'))
    assert cut == whole


@pytest.mark.parametrize("agent", READERS)
@pytest.mark.parametrize("data", [b"", b"not json\n", b"\xff\xfe\n", b"[1]\n{}\n", b"{" * 100_000])
def test_a_log_of_nothing_is_said_to_be_one(agent: str, data: bytes) -> None:
    with pytest.raises(TrajectoryFormatError):
        READERS[agent](data)


def damaged(value: Any, draw: st.DrawFn) -> Any:
    """A value of which any part may have become something else."""
    if draw(st.integers(0, 9)) == 0:
        odd = st.none() | st.integers() | st.text(max_size=3) | st.just([]) | st.just({})
        return draw(odd | st.just([None, 1, "x", {}]) | st.just({"type": "text"}))
    if isinstance(value, dict):
        return {key: damaged(one, draw) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [damaged(one, draw) for one in value]
    return value


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from([(*STREAM, RESULT), ROLLOUT, EXEC, (HEADER, *MESSAGES)]))
def test_whatever_a_log_holds_it_is_read_or_refused(data: st.DataObject, log: Any) -> None:
    broken = lines(*(damaged(one, data.draw) for one in log))
    for read in READERS.values():
        try:
            checked(read(broken))
        except TrajectoryFormatError as error:
            assert "holds no step" in str(error) or "expected one JSON object" in str(error)  # noqa: PT017


# -- calls of a model -----------------------------------------------------------------


def test_calls_in_the_form_of_anthropic() -> None:
    opening = [{"role": "user", "content": [{"type": "text", "text": "Write ok."}]}]
    answer = {"role": "assistant", "content": [{"type": "text", "text": "I write it."}, TOOL_USE]}
    seen = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "written"}
    history = [*opening, answer, {"role": "user", "content": [seen]}]
    done = {"content": [{"type": "text", "text": "Done."}], "usage": {"input_tokens": 9}}
    first = {"id": "m1", **answer, "usage": {**USAGE, "output_tokens": 3}}
    title = [{"role": "user", "content": "Give a title."}]
    started = datetime(2026, 1, 5, tzinfo=UTC)

    def call(messages: list[Any], response: dict[str, Any], **more: Any) -> ModelCall:
        request = {"model": "claude-x", "system": "Be good.", "messages": messages}
        return ModelCall(request=request, response=response, kind="anthropic", **more)

    read = read_model_calls(
        [
            call(title, {"content": [{"type": "text", "text": "Ok"}]}, cost_usd=0.5),
            call(opening, {"type": "error"}),
            call(opening, first, started_at=started, cost_usd=0.25),
            call(history, done, cost_usd=0.25),
        ]
    )
    document = checked(read)
    assert outline(document) == [("system", "Be good.", [], []), *WORK]
    assert document["steps"][2]["metrics"]["prompt_tokens"] == 17
    (side,) = document["subagent_trajectories"]
    assert [step["message"] for step in side["steps"]][1:] == ["Give a title.", "Ok"]
    assert usage_of(read)["n_input_tokens"] == 26


def chat_call(messages: list[Any], response: dict[str, Any]) -> ModelCall:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    body = {"model": "gpt-x", "choices": [{"message": response}], "usage": usage}
    request = {"model": "gpt-x", "messages": messages}
    return ModelCall(request=request, response=body, kind="openai-chat", cost_usd=0.5)


def test_calls_in_the_form_of_chat_completions() -> None:
    function = {"name": "Bash", "arguments": '{"command": "echo ok"}'}
    calls = [{"id": "c1", "type": "function", "function": function}]
    opening = [{"role": "user", "content": "Write ok."}]
    answer = {"role": "assistant", "content": "I write it.", "tool_calls": calls}
    history = [*opening, answer, {"role": "tool", "tool_call_id": "c1", "content": "written"}]
    done = {"role": "assistant", "content": "Done."}
    read = read_model_calls([chat_call(opening, answer), chat_call(history, done)])
    assert outline(checked(read)) == WORK
    assert usage_of(read) == {
        "n_input_tokens": 20,
        "n_cache_tokens": 8,
        "n_output_tokens": 4,
        "cost_usd": 1.0,
        "n_steps": 3,
        "model_usage": {
            "gpt-x": {
                "n_input_tokens": 20,
                "n_cache_tokens": 8,
                "n_output_tokens": 4,
                "cost_usd": 1.0,
            }
        },
    }


def test_a_turn_that_no_model_gave_is_marked_as_copied() -> None:
    history = [
        {"role": "user", "content": "Context."},
        {"role": "assistant", "content": "Got it."},
        {"role": "user", "content": "Write ok."},
    ]
    document = checked(read_model_calls([chat_call(history, {"content": "Done."})]))
    copied, real = document["steps"][1], document["steps"][3]
    assert (copied["message"], copied["is_copied_context"]) == ("Got it.", True)
    assert real["message"] == "Done."


@pytest.mark.parametrize("stored", [False, True], ids=["whole history", "previous_response_id"])
def test_calls_in_the_form_of_responses(stored: bool) -> None:
    prompt = {"role": "user", "content": [{"type": "input_text", "text": "Write ok."}]}
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "easy"}]},
        {"type": "message", "role": "assistant", "content": [{"text": "I write it."}]},
        {"type": "function_call", "call_id": "c", "name": "Bash", "arguments": "{}"},
    ]
    seen = {"type": "function_call_output", "call_id": "c", "output": "written"}
    usage = {"input_tokens": 5, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 2}}
    done = [{"type": "message", "role": "assistant", "content": [{"text": "Done."}]}]
    second = {"input": [seen], "previous_response_id": "r1"} if stored else {}
    read = read_model_calls(
        ModelCall(request=request, response=response, kind="openai-responses")
        for request, response in (
            ({"input": [prompt]}, {"id": "r1", "output": output, "usage": usage}),
            (
                {"input": [prompt, *output, seen], **second},
                {"id": "r2", "output": done, "usage": usage},
            ),
        )
    )
    document = checked(read)
    assert outline(document) == WORK
    assert document["steps"][1]["reasoning_content"] == "easy"
    assert usage_of(read)["n_cache_tokens"] == 4


def test_calls_in_the_form_of_gemini_whose_tool_calls_have_no_names() -> None:
    opening = [{"role": "user", "parts": [{"text": "Write ok."}]}]
    run = {"functionCall": {"name": "Bash", "args": {"command": "echo ok"}}}
    answer = {"role": "model", "parts": [{"text": "I write it."}, run]}
    seen = {"functionResponse": {"name": "Bash", "response": {"output": "written"}}}
    history = [*opening, answer, {"role": "user", "parts": [seen]}]
    counts = {"promptTokenCount": 8, "candidatesTokenCount": 2, "thoughtsTokenCount": 1}

    def call(contents: list[Any], content: dict[str, Any]) -> ModelCall:
        body = {"candidates": [{"content": content}], "usageMetadata": counts}
        return ModelCall(request={"contents": contents}, response=body, kind="gemini", model="g")

    read = read_model_calls(
        [call(opening, answer), call(history, {"role": "model", "parts": [{"text": "Done."}]})]
    )
    assert outline(checked(read)) == WORK
    assert usage_of(read)["n_output_tokens"] == 6


def test_calls_that_nobody_answered_are_no_trajectory() -> None:
    with pytest.raises(TrajectoryFormatError):
        read_model_calls([])
