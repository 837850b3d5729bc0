"""A trajectory as messages of a chat, as services take them for fine-tuning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_harbor.result.trajectory import (
    Content,
    ObservationResult,
    Step,
    TextPart,
    ToolCall,
    Trajectory,
)

Message = dict[str, Any]

_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


class NoChatError(ValueError):
    """A conversation that is no valid chat, and cannot be made one without a loss; says why."""


def chat_messages(trajectory: Trajectory) -> list[Message]:
    """What was said, called and answered, up to the agent's last word.

    What was seen after that word is left out: there is nothing of the agent's after it.

    Raises:
        NoChatError: It is no valid chat.
    """
    messages = [message for step in trajectory.steps for message in _messages(step)]
    while messages and messages[-1]["role"] != "assistant":
        messages.pop()
    if problem := chat_problem(messages):
        raise NoChatError(problem[1])
    return messages


def chat_tools(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The tools that the agent had, as functions; those of another form are left out."""
    found = map(function_of_tool, trajectory.agent.tool_definitions or ())
    return [{"type": "function", "function": tool} for tool in found if tool is not None]


def chat_problem(messages: Sequence[Mapping[str, Any]]) -> tuple[int, str] | None:
    """What keeps messages from being a valid chat, and which of them; None: nothing does.

    The agent's last message may end with calls: that they were made is what a model learns.
    """
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return number, "an answer without a tool call"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return number, "a tool call without an answer"
        open_calls = [one["id"] for one in message.get("tool_calls") or ()]
        if not all(open_calls) or len(set(open_calls)) < len(open_calls):
            return number, "tool calls that no id tells apart"
    if not any(message["role"] == "assistant" for message in messages):
        return 0, "no message of the agent"
    if open_calls and messages[-1]["role"] != "assistant":
        return len(messages) - 1, "a tool call without an answer"
    return None


def _messages(step: Step) -> Iterator[Message]:
    results = step.observation.results if step.observation else []
    calls = step.tool_calls or []
    content = _words(step.message)
    # An agent's step may be nothing but what it saw, or thoughts that a chat has no place for.
    if content or calls or step.source != "agent":
        message: Message = {"role": _ROLES[step.source], "content": content}
        if calls:
            message["tool_calls"] = [_call(one) for one in calls]
        yield message
    if calls:
        yield from _answers(calls, results)
    else:
        # Without calls, as of an agent that types into a terminal, what is seen is told.
        yield from ({"role": "user", "content": _seen(one)} for one in results)


def _answers(calls: Sequence[ToolCall], results: Sequence[ObservationResult]) -> Iterator[Message]:
    """One message for each call that has an answer, in the order of the calls."""
    answers: dict[str, list[str]] = {}
    if results and all(result.source_call_id is None for result in results):
        # As of keys typed one after the other: what is seen then is what came of them all.
        answers = {call.tool_call_id: [] for call in calls}
        answers[calls[-1].tool_call_id] = [_seen(result) for result in results]
    else:
        for result in results:
            if result.source_call_id is None:
                raise NoChatError("an answer without a tool call")
            answers.setdefault(result.source_call_id, []).append(_seen(result))
    for one in calls:
        if one.tool_call_id in answers:
            told = "\n".join(answers[one.tool_call_id])
            yield {"role": "tool", "tool_call_id": one.tool_call_id, "content": told}


def _seen(result: ObservationResult) -> str:
    if result.content is None and result.subagent_trajectory_ref:
        raise NoChatError("an answer that only another agent's trajectory has")
    return _words(result.content)


def _words(content: Content | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not all(isinstance(part, TextPart) for part in content):
        raise NoChatError("an image or a recording")
    return "\n".join(part.text for part in content if isinstance(part, TextPart))


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {
        "id": call.tool_call_id,
        "type": "function",
        "function": {"name": call.function_name, "arguments": arguments},
    }


def function_of_tool(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    """A tool's definition as a function's; None where it has another form."""
    function = definition.get("function", definition)
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None
    known = {key: function[key] for key in ("name", "description", "strict") if function.get(key)}
    parameters = function.get("parameters", function.get("input_schema"))
    return known | ({"parameters": parameters} if isinstance(parameters, dict) else {})
