"""A trajectory as a report shows it: taken step by step, whatever else is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_harbor.report.diffs import edit_of_call
from pytest_harbor.report.files import UnreadableError, read_object
from pytest_harbor.report.limits import Limits
from pytest_harbor.report.values import cut, finite, items, mapping, text

TRAJECTORY = "trajectory.json"
MAX_TRAJECTORY_BYTES = 32 * 1024**2
_MAX_CALLS = 50


def trajectory_json(agent_dir: Path, limits: Limits) -> dict[str, Any] | None:
    """The trajectory in an agent's folder; None where there is none."""
    path = agent_dir / TRAJECTORY
    if not path.exists():
        return None
    try:
        found = read_object(path, MAX_TRAJECTORY_BYTES)
    except UnreadableError as error:
        return {"steps": [], "left_out": 0, "problem": str(error)}
    steps = items(found.get("steps"))
    shown, left_out = _ends(steps, limits.steps)
    agents = len(items(found.get("subagent_trajectories")))
    return {
        "steps": [_step(mapping(one), limits) for one in shown],
        "left_out": left_out,
        "left_out_after": len(shown) // 2 if left_out else 0,
        "agents": agents,
        "problem": "" if steps else f"{TRAJECTORY}: expected steps, found none",
    }


def first_message(trajectory: Mapping[str, Any] | None) -> str:
    """What the agent was told."""
    steps = trajectory["steps"] if trajectory else ()
    return next((step["text"] for step in steps if step["source"] == "user"), "")


def content_text(value: Any, limit: int) -> str:
    """A message's content: text, or parts of which images and sounds are named alone."""
    if isinstance(value, str):
        return cut(value, limit)
    parts = [mapping(one) for one in items(value)]
    return cut("\n".join(text(one.get("text"), limit) or _named(one) for one in parts), limit)


def _named(part: Mapping[str, Any]) -> str:
    source = mapping(part.get("source"))
    return f"[{text(part.get('type'), 20) or 'part'}: {text(source.get('path'), 200)}]"


def _ends(steps: Sequence[Any], most: int) -> tuple[Sequence[Any], int]:
    if len(steps) <= most:
        return steps, 0
    half = most // 2
    return [*steps[:half], *steps[-half:]], len(steps) - 2 * half


def _step(step: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    metrics = mapping(step.get("metrics"))
    found = {
        "number": finite(step.get("step_id")),
        "source": text(step.get("source"), 20),
        "time": text(step.get("timestamp"), 40),
        "model": text(step.get("model_name"), 100),
        "text": content_text(step.get("message"), limits.message_chars),
        "reasoning": text(step.get("reasoning_content"), limits.message_chars),
        "calls": [_call(mapping(c), limits) for c in items(step.get("tool_calls"))[:_MAX_CALLS]],
        "results": _results(mapping(step.get("observation")), limits),
        "read": finite(metrics.get("prompt_tokens")),
        "written": finite(metrics.get("completion_tokens")),
        "cost": finite(metrics.get("cost_usd")),
    }
    return {key: value for key, value in found.items() if value not in (None, "", [])} | {
        "source": found["source"],
        "text": found["text"],
    }


def _call(call: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    arguments = call.get("arguments")
    written = json.dumps(arguments, indent=1, ensure_ascii=False)
    # A command is read more easily as it is than as JSON.
    if isinstance(arguments, dict) and len(arguments) == 1:
        written = next((one for one in arguments.values() if isinstance(one, str)), written)
    found = {
        "name": text(call.get("function_name"), 100),
        "arguments": cut(written, limits.message_chars),
    }
    edit = edit_of_call(mapping(arguments), limits.message_chars)
    return found | ({"edit": edit} if edit else {})


def _results(observation: Mapping[str, Any], limits: Limits) -> list[str]:
    results = items(observation.get("results"))[:_MAX_CALLS]
    return [content_text(mapping(r).get("content"), limits.message_chars) for r in results]
