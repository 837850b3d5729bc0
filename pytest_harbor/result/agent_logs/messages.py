"""One message of a conversation with a model, whichever provider's form it came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_harbor.result.agent_logs.lines import arguments, items, mapping, text_of, word
from pytest_harbor.result.trajectory_builder import TrajectoryBuilder

Role = Literal["system", "user", "agent"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "assistant": "agent",
    "model": "agent",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the model asked for."""

    id: str
    name: str
    arguments: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As ATIF has it."""
        return {
            "tool_call_id": self.id,
            "function_name": self.name,
            "arguments": self.arguments,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's answer."""

    call: str
    content: str


@dataclass(slots=True)
class Message:
    """What one side said.

    Attributes:
        role: Who.
        text: The words.
        reasoning: The thoughts beside them.
        calls: Tools that were asked for.
        results: Tools' answers, which come in a message of the user's.
    """

    role: Role = "user"
    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said."""
        return not (self.text or self.reasoning or self.calls or self.results)


def add_message(builder: TrajectoryBuilder, message: Message, **fields: Any) -> None:
    """Add a message as a step; tools' answers go to the step that asked for them."""
    for result in message.results:
        add_result(builder, result)
    if message.role == "agent":
        add_agent(builder, message, **fields)
    elif message.text:
        builder.add(message.role, message.text, **fields)


def add_agent(builder: TrajectoryBuilder, message: Message, **fields: Any) -> None:
    """Add a step of the agent's."""
    builder.agent(
        message.text,
        reasoning_content=message.reasoning or None,
        tool_calls=[call.to_json() for call in message.calls] or None,
        **fields,
    )


def add_result(builder: TrajectoryBuilder, result: Result, **fields: Any) -> None:
    """Add a tool's answer, whose call may have been lost."""
    if builder.has_call(result.call):
        builder.observe(result.content, call=result.call, **fields)
    elif len(builder):
        builder.observe(result.content, **fields)
    else:
        builder.user(result.content)


def role_of(value: Any) -> Role:
    """Who speaks; tools' answers are the user's."""
    return _ROLES.get(value, "user") if isinstance(value, str) else "user"


def anthropic_message(role: Any, content: Any) -> Message:
    """A message in the form of Anthropic's Messages API."""
    message = Message(role_of(role))
    if isinstance(content, str):
        message.text = content
        return message
    texts, thoughts = [], []
    for block in map(mapping, items(content)):
        kind = block.get("type")
        if kind in ("thinking", "redacted_thinking"):
            thoughts.append(word(block.get("thinking")))
        elif kind in ("tool_use", "server_tool_use"):
            name = word(block.get("name"), "tool")
            call = Call(word(block.get("id"), name), name, arguments(block.get("input")))
            message.calls.append(call)
        elif word(kind).endswith("tool_result"):
            content = text_of(block.get("content"))
            message.results.append(Result(word(block.get("tool_use_id")), content))
        else:
            texts.append(text_of(dict(block)))
    message.text, message.reasoning = _joined(texts), _joined(thoughts)
    return message


def chat_message(value: Mapping[str, Any]) -> Message:
    """A message in the form of OpenAI's chat completions."""
    role = value.get("role")
    content = text_of(value.get("content"))
    if role in ("tool", "function"):
        return Message(results=[Result(word(value.get("tool_call_id")), content)])
    message = Message(role_of(role), content)
    thoughts = value.get("reasoning_content") or value.get("reasoning")
    message.reasoning = word(thoughts)
    for number, one in enumerate(map(mapping, items(value.get("tool_calls")))):
        function = mapping(one.get("function") or one.get("custom"))
        name = word(function.get("name"), "tool")
        given = function.get("arguments", function.get("input"))
        call = Call(word(one.get("id"), f"{name}-{number}"), name, arguments(given))
        message.calls.append(call)
    if not message.text:
        message.text = word(value.get("refusal"))
    return message


def response_item(item: Mapping[str, Any]) -> Message:
    """An item in the form of OpenAI's Responses API."""
    kind = word(item.get("type"), "message")
    if kind == "message":
        return Message(role_of(item.get("role")), text_of(item.get("content")))
    if kind == "reasoning":
        thoughts = item.get("summary") or item.get("content")
        return Message("agent", reasoning=text_of(thoughts))
    if kind.endswith("_output"):
        return Message(results=[Result(word(item.get("call_id")), text_of(item.get("output")))])
    if kind.endswith("_call"):
        name = word(item.get("name"), kind.removesuffix("_call"))
        given = item.get("arguments", item.get("input", item.get("action")))
        call = Call(word(item.get("call_id") or item.get("id"), name), name, arguments(given))
        return Message("agent", calls=[call])
    return Message("agent")


class GeminiMessages:
    """Messages in the form of Gemini's API, whose tool calls often have no ids.

    They get some by their order, so that a history that is sent again gets the same.
    """

    def __init__(self, calls: int = 0) -> None:
        """Reads on.

        Args:
            calls: Tool calls that the history has before.
        """
        self._calls = calls
        self._open: dict[str, list[str]] = {}

    def message(self, content: Mapping[str, Any]) -> Message:
        """The next message of the history."""
        message = Message(role_of(content.get("role")))
        texts, thoughts = [], []
        for part in map(mapping, items(content.get("parts"))):
            if call := mapping(part.get("functionCall")):
                message.calls.append(self._call(call))
            elif answer := mapping(part.get("functionResponse")):
                message.results.append(self._result(answer))
            elif part.get("thought") is True:
                thoughts.append(word(part.get("text")))
            else:
                texts.append(text_of(dict(part)) if part else "")
        message.text, message.reasoning = _joined(texts), _joined(thoughts)
        return message

    def _call(self, call: Mapping[str, Any]) -> Call:
        self._calls += 1
        name = word(call.get("name"), "tool")
        identity = word(call.get("id"), f"{name}-{self._calls}")
        self._open.setdefault(name, []).append(identity)
        return Call(identity, name, arguments(call.get("args")))

    def _result(self, answer: Mapping[str, Any]) -> Result:
        waiting = self._open.get(word(answer.get("name")), [])
        identity = word(answer.get("id")) or (waiting[0] if waiting else "")
        if identity in waiting:
            waiting.remove(identity)
        response = answer.get("response")
        content = mapping(response).get("output", response)
        return Result(identity, text_of(content))


def _joined(texts: list[str]) -> str:
    return "\n".join(text for text in texts if text)
