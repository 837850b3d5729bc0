"""claude-code: ``--output-format=stream-json`` and the JSONL of its sessions.

qwen-code writes the same stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_harbor.result.agent_logs.lines import (
    amount,
    count,
    finished,
    json_lines,
    mapping,
    metrics,
    total,
    when,
    word,
)
from pytest_harbor.result.agent_logs.messages import (
    Message,
    add_agent,
    add_result,
    anthropic_message,
)
from pytest_harbor.result.trajectory import FinalMetrics, Trajectory
from pytest_harbor.result.trajectory_builder import TrajectoryBuilder

_NO_MODEL = "<synthetic>"
"""Stands for the model where the program speaks in its place, as on an API error."""


def read_claude_code(
    data: bytes, *, instruction: str | None = None, name: str = "claude-code"
) -> Trajectory:
    """The trajectory of a run.

    Args:
        data: The output of ``claude -p … --output-format=stream-json --verbose``, or a
            session's file.
        instruction: The prompt, which the stream does not repeat.
        name: The agent's.

    Raises:
        TrajectoryFormatError: Nothing of a run is in it.
    """
    reader = _Reader(name, instruction)
    for line in json_lines(data):
        reader.take(line)
    return reader.trajectory()


class _Reader:
    """Makes steps of lines; a reply spans several lines, which share a message id."""

    def __init__(self, name: str, instruction: str | None) -> None:
        self._main = TrajectoryBuilder(name, stamps=False)
        self._subagents: dict[str, TrajectoryBuilder] = {}
        self._instruction = instruction
        self._open: dict[str, tuple[str, Message, dict[str, Any]]] = {}
        self._result: Mapping[str, Any] = {}

    def take(self, line: Mapping[str, Any]) -> None:
        kind = line.get("type")
        if kind == "system" and line.get("subtype") == "init":
            self._main.model_name = word(line.get("model")) or None
        elif kind == "result":
            self._result = line
        elif kind in ("assistant", "user"):
            self._take_message(line)
        session = word(line.get("session_id")) or word(line.get("sessionId"))
        self._main.session_id = self._main.session_id or session or None
        version = word(line.get("claude_code_version")) or word(line.get("version"))
        self._main.version = version or self._main.version

    def trajectory(self) -> Trajectory:
        for whose in list(self._open):
            self._close(whose)
        self._main.subagents = [
            part.model_copy(update={"trajectory_id": whose})
            for whose, builder in self._subagents.items()
            if (part := builder.build())
        ]
        trajectory = finished(self._main, "claude-code's log")
        final = _final_metrics(self._result)
        if final is None:
            return trajectory
        total_steps = trajectory.final_metrics.total_steps if trajectory.final_metrics else None
        known = final.model_dump(exclude_none=True) | {"total_steps": total_steps}
        return trajectory.model_copy(update={"final_metrics": FinalMetrics(**known)})

    def _take_message(self, line: Mapping[str, Any]) -> None:
        whose = word(line.get("parent_tool_use_id"))
        if line.get("isSidechain") is True:
            whose = whose or word(line.get("agentId"), "sidechain")
        builder = self._builder(whose)
        inner = mapping(line.get("message"))
        message = anthropic_message(line.get("type"), inner.get("content"))
        if line.get("type") == "assistant":
            self._say(whose, builder, inner, message, when(line.get("timestamp")))
            return
        self._close(whose)
        for result in message.results:
            ref = [{"trajectory_id": result.call}] if result.call in self._subagents else None
            add_result(builder, result, subagent_trajectory_ref=ref)
        if message.text and line.get("isMeta") is not True:
            if not whose:
                self._instruction = None
            builder.user(message.text, timestamp=when(line.get("timestamp")))

    def _builder(self, whose: str) -> TrajectoryBuilder:
        if not whose:
            return self._main
        if whose not in self._subagents:
            self._subagents[whose] = TrajectoryBuilder("subagent", stamps=False)
        return self._subagents[whose]

    def _say(
        self,
        whose: str,
        builder: TrajectoryBuilder,
        inner: Mapping[str, Any],
        message: Message,
        time: str | None,
    ) -> None:
        identity, fields = word(inner.get("id")), _fields(inner, time)
        if whose in self._open and identity and self._open[whose][0] == identity:
            earlier, known = self._open[whose][1:]
            _merge(earlier, message)
            # The counts of a reply's last line are those of the whole of it.
            if known.get("llm_call_count") != 0:
                known["metrics"] = fields["metrics"]
            return
        self._close(whose)
        if not whose and self._instruction and not len(builder):
            builder.user(self._instruction)
        self._open[whose] = (identity, message, fields)

    def _close(self, whose: str) -> None:
        if whose in self._open:
            _, message, fields = self._open.pop(whose)
            if fields.get("llm_call_count") == 0:
                message.reasoning = ""
            add_agent(self._builder(whose), message, **fields)


def _fields(inner: Mapping[str, Any], time: str | None) -> dict[str, Any]:
    model = word(inner.get("model"))
    if model == _NO_MODEL:
        return {"timestamp": time, "llm_call_count": 0, "metrics": None}
    usage = _usage(mapping(inner.get("usage")))
    return {"timestamp": time, "model_name": model or None, "metrics": usage}


def _merge(earlier: Message, later: Message) -> None:
    known = {call.id for call in earlier.calls}
    earlier.calls += [call for call in later.calls if call.id not in known]
    earlier.text = "\n".join(text for text in (earlier.text, later.text) if text)
    earlier.reasoning = "\n".join(t for t in (earlier.reasoning, later.reasoning) if t)


def _usage(usage: Mapping[str, Any]) -> dict[str, Any] | None:
    cached = count(usage.get("cache_read_input_tokens"))
    written = count(usage.get("cache_creation_input_tokens"))
    return metrics(
        total(count(usage.get("input_tokens")), cached, written),
        count(usage.get("output_tokens")),
        cached,
        cache_creation_input_tokens=written,
    )


def _final_metrics(result: Mapping[str, Any]) -> FinalMetrics | None:
    """The program's own sums, which hold its side calls too."""
    cost = amount(result.get("total_cost_usd"))
    models = [mapping(one) for one in mapping(result.get("modelUsage")).values()]
    found: dict[str, Any] = {}
    if models:
        cached = total(*(count(one.get("cacheReadInputTokens")) for one in models))
        written = total(*(count(one.get("cacheCreationInputTokens")) for one in models))
        plain = total(*(count(one.get("inputTokens")) for one in models))
        found["total_prompt_tokens"] = total(plain, cached, written)
        found["total_cached_tokens"] = cached
        found["total_completion_tokens"] = total(
            *(count(one.get("outputTokens")) for one in models)
        )
    elif usage := _usage(mapping(result.get("usage"))):
        found["total_prompt_tokens"] = usage.get("prompt_tokens")
        found["total_cached_tokens"] = usage.get("cached_tokens")
        found["total_completion_tokens"] = usage.get("completion_tokens")
    if not found and cost is None:
        return None
    return FinalMetrics(total_cost_usd=cost, **found)
