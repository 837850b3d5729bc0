"""mini-swe-agent: the one JSON document that it writes with ``-o``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.result.agent_logs.lines import (
    amount,
    count,
    finished,
    items,
    mapping,
    metrics,
    when,
    whole_document,
    word,
)
from pytest_harbor.result.agent_logs.messages import Call, add_agent, add_message, chat_message
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.result.trajectory_builder import TrajectoryBuilder

_ACTION = re.compile(r"```(?:bash|mswea_bash_command)\n(.*?)\n?```", re.DOTALL)


def read_mini_swe_agent(data: bytes, *, name: str = "mini-swe-agent") -> Trajectory:
    """The trajectory of a run.

    Raises:
        TrajectoryFormatError: It is no document of a run.
    """
    document = whole_document(data)
    if document is None:
        raise TrajectoryFormatError(["expected one JSON object with messages"])
    info = mapping(document.get("info"))
    builder = TrajectoryBuilder(name, word(info.get("mini_version"), "unknown"), stamps=False)
    model = mapping(mapping(mapping(info.get("config")).get("model")))
    builder.model_name = word(model.get("model_name")) or None
    for one in map(mapping, items(document.get("messages"))):
        _add(builder, one)
    for key in ("exit_status", "submission"):
        if word(info.get(key)):
            builder.extra[key] = info[key]
    trajectory = finished(builder, "mini-swe-agent's file")
    cost = amount(mapping(info.get("model_stats")).get("instance_cost"))
    if not cost or trajectory.final_metrics is None:
        return trajectory  # A cost of 0 says that the price is not known.
    final = trajectory.final_metrics.model_copy(update={"total_cost_usd": cost})
    return trajectory.model_copy(update={"final_metrics": final})


def _add(builder: TrajectoryBuilder, one: Mapping[str, Any]) -> None:
    extra = mapping(one.get("extra"))
    message, time = chat_message(one), when(extra.get("timestamp"))
    if message.role != "agent":
        waiting = builder.calls_without_answer()
        if message.role == "user" and message.text and waiting and not message.results:
            # The older form: the answer to an action comes as words of the user's.
            builder.observe(message.text, call=waiting[0].tool_call_id)
        else:
            add_message(builder, message, timestamp=time)
        return
    if not message.calls and (action := _ACTION.search(message.text)):
        number = len(builder) + 1
        message.calls.append(Call(f"action-{number}", "bash", {"command": action[1]}))
    add_agent(builder, message, timestamp=time, metrics=_usage(extra))


def _usage(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    usage = mapping(mapping(extra.get("response")).get("usage"))
    details = mapping(usage.get("prompt_tokens_details"))
    return metrics(
        count(usage.get("prompt_tokens")),
        count(usage.get("completion_tokens")),
        count(details.get("cached_tokens")),
        amount(extra.get("cost")) or None,
    )
