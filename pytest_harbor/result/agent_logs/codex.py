"""codex: ``codex exec --json`` and the JSONL of its sessions (``rollout-….jsonl``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_harbor.result.agent_logs.lines import (
    count,
    finished,
    items,
    json_lines,
    mapping,
    metrics,
    text_of,
    total,
    when,
    word,
)
from pytest_harbor.result.agent_logs.messages import (
    Call,
    Message,
    Result,
    add_agent,
    add_result,
    response_item,
)
from pytest_harbor.result.trajectory import FinalMetrics, Trajectory
from pytest_harbor.result.trajectory_builder import TrajectoryBuilder


def read_codex(data: bytes, *, instruction: str | None = None, name: str = "codex") -> Trajectory:
    """The trajectory of a run.

    Args:
        data: The output of ``codex exec --json``, or a session's file.
        instruction: The prompt, which the output does not repeat.
        name: The agent's.

    Raises:
        TrajectoryFormatError: Nothing of a run is in it.
    """
    reader = _Reader(name, instruction)
    for line in json_lines(data):
        reader.take(line)
    return reader.trajectory()


class _Reader:
    def __init__(self, name: str, instruction: str | None) -> None:
        self._builder = TrajectoryBuilder(name, stamps=False)
        self._instruction = instruction
        self._open: Message | None = None
        self._time: str | None = None
        self._totals: list[Mapping[str, Any]] = []
        self._turns: list[Mapping[str, Any]] = []

    def take(self, line: Mapping[str, Any]) -> None:
        kind, payload = word(line.get("type")), mapping(line.get("payload"))
        time = when(line.get("timestamp"))
        if kind == "session_meta":
            self._builder.session_id = word(payload.get("id")) or None
            self._builder.version = word(payload.get("cli_version"), self._builder.version)
        elif kind == "turn_context":
            self._builder.model_name = word(payload.get("model")) or self._builder.model_name
        elif kind == "response_item":
            self._take_message(response_item(payload), time)
        elif kind == "event_msg" and payload.get("type") == "token_count":
            self._take_count(mapping(payload.get("info")))
        elif kind == "thread.started":
            self._builder.session_id = word(line.get("thread_id")) or None
        elif kind == "item.completed":
            self._take_item(mapping(line.get("item")))
        elif kind == "turn.completed":
            self._turns.append(mapping(line.get("usage")))

    def trajectory(self) -> Trajectory:
        self._close()
        trajectory = finished(self._builder, "codex's log")
        usage = self._totals[-1] if self._totals else _summed(self._turns)
        known = _usage(usage)
        if known is None or trajectory.final_metrics is None:
            return trajectory
        final = FinalMetrics(
            total_prompt_tokens=known.get("prompt_tokens"),
            total_completion_tokens=known.get("completion_tokens"),
            total_cached_tokens=known.get("cached_tokens"),
            total_steps=trajectory.final_metrics.total_steps,
        )
        return trajectory.model_copy(update={"final_metrics": final})

    def _take_message(self, message: Message, time: str | None) -> None:
        """One item of the conversation: what the agent does in one go is one step."""
        if message.role == "agent":
            self._say(message, time)
            return
        self._close()
        for result in message.results:
            add_result(self._builder, result)
        if message.text:
            if message.role == "user":
                self._instruction = None
            self._builder.add(message.role, message.text, timestamp=time)

    def _say(self, message: Message, time: str | None) -> None:
        if message.is_empty:
            return
        if self._open is None:
            self._open, self._time = Message("agent"), time
        whole = self._open
        whole.text = "\n".join(text for text in (whole.text, message.text) if text)
        whole.reasoning = "\n".join(t for t in (whole.reasoning, message.reasoning) if t)
        whole.calls += message.calls

    def _close(self) -> None:
        if self._open is None:
            return
        if self._instruction:
            self._builder.user(self._instruction)
            self._instruction = None
        add_agent(self._builder, self._open, timestamp=self._time)
        self._open = None

    def _take_count(self, info: Mapping[str, Any]) -> None:
        totals, last = mapping(info.get("total_token_usage")), mapping(info.get("last_token_usage"))
        if not totals or (self._totals and self._totals[-1] == totals):
            return  # The same counts are told again, with news of the rate limits.
        self._totals.append(totals)
        self._close()
        step = self._builder.last()
        if step is not None and step.source == "agent" and step.metrics is None:
            self._builder.amend_last(metrics=_usage(last))

    def _take_item(self, item: Mapping[str, Any]) -> None:
        """One item of ``codex exec --json``: a deed and its outcome together."""
        kind, identity = word(item.get("type")), word(item.get("id"), "item")
        if kind == "reasoning":
            self._say(Message("agent", reasoning=word(item.get("text"))), None)
        elif kind == "agent_message":
            self._say(Message("agent", word(item.get("text"))), None)
        elif kind in _DEEDS:
            name, given, seen = _DEEDS[kind]
            shown = {key: item[key] for key in given if item.get(key) is not None}
            self._say(Message("agent", calls=[Call(identity, name, shown)]), None)
            self._close()
            outcome = next((text for key in seen if (text := text_of(item.get(key)))), "")
            add_result(self._builder, Result(identity, outcome))


_DEEDS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "command_execution": ("shell", ("command",), ("aggregated_output",)),
    "file_change": ("apply_patch", ("changes",), ("status",)),
    "mcp_tool_call": ("mcp_tool_call", ("server", "tool", "arguments"), ("result", "error")),
    "web_search": ("web_search", ("query",), ("status",)),
    "todo_list": ("update_plan", ("items",), ("status",)),
}
"""Kind of an item to the tool, the keys of its arguments, and those of what came of it."""


def _summed(turns: list[Mapping[str, Any]]) -> dict[str, int | None]:
    names = ("input_tokens", "cached_input_tokens", "output_tokens")
    return {name: total(*(count(turn.get(name)) for turn in items(turns))) for name in names}


def _usage(usage: Mapping[str, Any]) -> dict[str, Any] | None:
    return metrics(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        count(usage.get("cached_input_tokens")),
        reasoning_output_tokens=count(usage.get("reasoning_output_tokens")),
    )
