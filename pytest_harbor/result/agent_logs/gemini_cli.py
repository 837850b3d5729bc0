"""gemini-cli: the files of its sessions, and ``--output-format stream-json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_harbor.result.agent_logs.lines import (
    arguments,
    count,
    finished,
    items,
    json_lines,
    mapping,
    metrics,
    text_of,
    total,
    when,
    whole_document,
    word,
)
from pytest_harbor.result.agent_logs.messages import Call, Message, Result, add_agent, add_result
from pytest_harbor.result.trajectory import FinalMetrics, Trajectory
from pytest_harbor.result.trajectory_builder import TrajectoryBuilder


def read_gemini_cli(
    data: bytes, *, instruction: str | None = None, name: str = "gemini-cli"
) -> Trajectory:
    """The trajectory of a run.

    Args:
        data: A session's file (JSONL, or one document as older versions write it), or the
            output of ``--output-format stream-json``.
        instruction: The prompt, where the output lacks it.
        name: The agent's.

    Raises:
        TrajectoryFormatError: Nothing of a run is in it.
    """
    builder = TrajectoryBuilder(name, stamps=False)
    document = whole_document(data)
    if document is not None and "messages" in document:
        _add_session(builder, document, map(mapping, items(document["messages"])))
        return finished(builder, "gemini-cli's log")
    lines = list(json_lines(data))
    if any(line.get("type") in ("init", "message") and "id" not in line for line in lines):
        return _Stream(builder, instruction).trajectory(lines)
    header: dict[str, Any] = {}
    messages: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        if isinstance(line.get("$set"), dict):
            header |= line["$set"]
        elif word(line.get("id")):
            # A later line of the same id takes the place of the earlier.
            messages[line["id"]] = line
        else:
            header |= line
    _add_session(builder, header, messages.values())
    return finished(builder, "gemini-cli's log")


def _add_session(
    builder: TrajectoryBuilder, header: Mapping[str, Any], messages: Iterable[Mapping[str, Any]]
) -> None:
    builder.session_id = word(header.get("sessionId")) or None
    for one in messages:
        time = when(one.get("timestamp"))
        text = text_of(one.get("content"))
        if one.get("type") == "gemini":
            _add_reply(builder, one, text, time)
        elif one.get("type") == "user" and text:
            builder.user(text, timestamp=time)


def _add_reply(
    builder: TrajectoryBuilder, one: Mapping[str, Any], text: str, time: str | None
) -> None:
    model = word(one.get("model")) or None
    builder.model_name = builder.model_name or model
    tools = [mapping(tool) for tool in items(one.get("toolCalls"))]
    calls = [_call(tool, number) for number, tool in enumerate(tools)]
    message = Message("agent", text, _thoughts(one.get("thoughts")), calls)
    usage = _usage(mapping(one.get("tokens")))
    add_agent(builder, message, timestamp=time, model_name=model, metrics=usage)
    for call, tool in zip(calls, tools, strict=True):
        if seen := _seen(tool):
            add_result(builder, Result(call.id, seen))


def _call(tool: Mapping[str, Any], number: int) -> Call:
    name = word(tool.get("name"), "tool")
    return Call(word(tool.get("id"), f"{name}-{number}"), name, arguments(tool.get("args")))


def _seen(tool: Mapping[str, Any]) -> str:
    responses = [mapping(mapping(one).get("functionResponse")) for one in items(tool.get("result"))]
    shown = [mapping(one.get("response")) for one in responses]
    texts = [text_of(one.get("output", one.get("error", dict(one)))) for one in shown if one]
    return "\n".join(texts) or text_of(tool.get("resultDisplay"))


def _thoughts(value: Any) -> str:
    thoughts = [mapping(one) for one in items(value)]
    pairs = ((word(one.get("subject")), word(one.get("description"))) for one in thoughts)
    return "\n".join(": ".join(part for part in pair if part) for pair in pairs)


def _usage(tokens: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is read includes what is cached; thoughts are counted beside the answer."""
    thoughts = count(tokens.get("thoughts"))
    return metrics(
        total(count(tokens.get("input")), count(tokens.get("tool"))),
        total(count(tokens.get("output")), thoughts),
        count(tokens.get("cached")),
        thoughts_tokens=thoughts,
    )


class _Stream:
    """Reads ``stream-json``: words come in pieces, tools between them."""

    def __init__(self, builder: TrajectoryBuilder, instruction: str | None) -> None:
        self._builder = builder
        self._instruction = instruction
        self._open: Message | None = None
        self._time: str | None = None
        self._final: dict[str, Any] | None = None

    def trajectory(self, lines: Iterable[Mapping[str, Any]]) -> Trajectory:
        for line in lines:
            self._take(line)
        self._close()
        trajectory = finished(self._builder, "gemini-cli's log")
        if self._final is None:
            return trajectory
        final = FinalMetrics(**self._final, total_steps=len(trajectory.steps))
        return trajectory.model_copy(update={"final_metrics": final})

    def _take(self, line: Mapping[str, Any]) -> None:
        kind, time = line.get("type"), when(line.get("timestamp"))
        if kind == "init":
            self._builder.session_id = word(line.get("session_id")) or None
            self._builder.model_name = word(line.get("model")) or None
        elif kind == "message" and line.get("role") == "user":
            self._close()
            self._instruction = None
            self._builder.user(text_of(line.get("content")), timestamp=time)
        elif kind == "message":
            self._reply(time).text += text_of(line.get("content"))
        elif kind == "tool_use":
            name = word(line.get("tool_name"), "tool")
            call = Call(word(line.get("tool_id"), name), name, arguments(line.get("parameters")))
            self._reply(time).calls.append(call)
        elif kind == "tool_result":
            self._close()
            seen = text_of(line.get("output", line.get("error")))
            add_result(self._builder, Result(word(line.get("tool_id")), seen))
        elif kind == "result":
            stats = mapping(line.get("stats"))
            self._final = {
                "total_prompt_tokens": count(stats.get("input_tokens")),
                "total_completion_tokens": count(stats.get("output_tokens")),
                "total_cached_tokens": count(stats.get("cached")),
            }

    def _reply(self, time: str | None) -> Message:
        if self._open is None:
            if self._instruction:
                self._builder.user(self._instruction)
                self._instruction = None
            self._open, self._time = Message("agent"), time
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            add_agent(self._builder, self._open, timestamp=self._time)
            self._open = None
