"""Trials as JSON lines with the fields of the verifiers library's ``results.jsonl``.

They are those of its versions 0.1.14 to 0.3.1. One difference: a trial without a valid reward has
``reward: null`` and an ``error``, where that library writes 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_harbor.report.data import outcome, plain
from pytest_harbor.report.detail import instruction_of
from pytest_harbor.report.files import UnreadableError, read_object, unlinked, write_lines
from pytest_harbor.report.limits import Limits
from pytest_harbor.report.trajectory import MAX_TRAJECTORY_BYTES, TRAJECTORY, content_text
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.values import items, mapping, text
from pytest_harbor.report.work import artifact_paths, work_folders

_MAX_CHARS = 4_000_000
_ROLES = {"user": "user", "system": "system", "agent": "assistant"}
_TRUNCATED = ("AgentTimeoutError", "ContextLengthExceededError", "OutputLengthExceededError")

Message = dict[str, Any]


def write_jsonl(path: Path, trials: Sequence[Trial]) -> None:
    """Write a line for each trial that has ended.

    Raises:
        OptionError: It cannot be written.
    """
    write_lines(path, jsonl_lines(trials))


def jsonl_lines(trials: Iterable[Trial]) -> Iterator[str]:
    """The lines; trials that have no result, or were run again, have none."""
    numbers: dict[str, int] = {}
    for trial in trials:
        if trial.category and not trial.superseded:
            number = numbers.setdefault(trial.task_key, len(numbers))
            yield json_line(plain(trace(trial, number)))


def json_line(value: Mapping[str, Any]) -> str:
    """An object as a line of JSON; halves of characters, which readers refuse, are marked."""
    written = json.dumps(value, allow_nan=False)
    if "\\ud" in written:
        whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
        written = json.dumps(json.loads(whole))
    return f"{written}\n"


def trace(trial: Trial, example: int) -> dict[str, Any]:
    """One trial.

    Args:
        trial: The trial.
        example: Number of its task.
    """
    prompt, completion = _messages(trial)
    fault = trial.fault or ("" if trial.category == "reward" else outcome(trial))
    line: dict[str, Any] = {
        "example_id": example,
        "task": trial.task,
        "prompt": prompt,
        "completion": completion,
        "reward": trial.score if trial.counts else None,
        "metrics": dict(trial.rewards),
        "artifacts": list(artifact_paths(trial)),
        "info": _info(trial),
        "error": _error(fault, trial.fault_message) if fault else None,
        "timing": _timing(trial),
        "is_completed": trial.counts,
        "is_truncated": trial.fault in _TRUNCATED,
        "stop_condition": fault or "agent_completed",
        "token_usage": {
            name: trial.usage[name]
            for name in ("input_tokens", "output_tokens")
            if name in trial.usage
        },
    }
    if error := line["error"]:
        line["error_chain"] = error["error_chain_repr"]
        line["long_error_chain"] = error["error_chain_str"]
    # The library repeats metrics at the top; none of them may take a field's place.
    return {key: value for key, value in trial.rewards.items() if key not in line} | line


def _info(trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.name,
        "task_path": trial.task_path,
        "agent": trial.agent,
        "model": trial.model or None,
        "attempt": trial.attempt or None,
        "selected": trial.selected,
        "category": trial.category,
        "passed": trial.passed,
        "threshold": trial.threshold,
        "cost_usd": trial.usage.get("cost_usd"),
        "integrity": list(trial.codes),
    }


def _error(name: str, message: str) -> dict[str, str]:
    return {
        "error": name,
        "error_chain_repr": f"{name}({message!r})",
        "error_chain_str": f"{name}: {message}" if message else name,
    }


def _timing(trial: Trial) -> dict[str, Any]:
    setup, scoring = _part(trial, "environment", "agent_setup"), _part(trial, "verifier")
    generation = _part(trial, "agent")
    total = scoring["end"] - generation["start"] if scoring["end"] else 0.0
    return {
        "start_time": trial.started or 0.0,
        "setup": setup,
        "generation": generation,
        "scoring": scoring,
        "total": total,
    }


def _part(trial: Trial, *phases: str) -> dict[str, float]:
    """When phases began and ended, and how long they took; zeros where none of them ran."""
    spans, begun = [one for one in trial.spans if one.phase in phases], trial.started or 0.0
    return {
        "start": min((begun + one.start for one in spans), default=0.0),
        "end": max((begun + one.start + one.seconds for one in spans), default=0.0),
        # Phases of a task with steps take turns: their length is less than end - start.
        "duration": sum((one.seconds for one in spans), 0.0),
    }


def _messages(trial: Trial) -> tuple[list[Message], list[Message]]:
    """What the agent was told before its first step, and everything after."""
    said = [message for steps in _trajectories(trial) for message in _said(steps)]
    first = next((n for n, one in enumerate(said) if one["role"] in ("assistant", "tool")), None)
    prompt = said if first is None else said[:first]
    if not prompt and (told := instruction_of(trial, "", Limits(log_bytes=_MAX_CHARS))):
        prompt = [{"role": "user", "content": told}]
    return prompt, [] if first is None else said[first:]


def _trajectories(trial: Trial) -> Iterator[Sequence[Any]]:
    for folder, _ in work_folders(trial):
        try:
            path = unlinked(folder / "agent") / TRAJECTORY
            yield items(read_object(path, MAX_TRAJECTORY_BYTES).get("steps"))
        except UnreadableError:
            continue


def _said(steps: Sequence[Any]) -> Iterator[Message]:
    for step in map(mapping, steps):
        role = _ROLES.get(text(step.get("source")), "user")
        message: Message = {
            "role": role,
            "content": content_text(step.get("message"), _MAX_CHARS),
        }
        if reasoning := text(step.get("reasoning_content"), _MAX_CHARS):
            message["reasoning_content"] = reasoning
        if calls := [_call(mapping(one)) for one in items(step.get("tool_calls"))]:
            message["tool_calls"] = calls
        yield message
        yield from _seen(mapping(step.get("observation")))


def _call(call: Mapping[str, Any]) -> str:
    """A tool call; the library writes each as a text of JSON."""
    return json.dumps(
        {
            "id": text(call.get("tool_call_id")),
            "name": text(call.get("function_name")),
            "arguments": json.dumps(call.get("arguments")),
        }
    )


def _seen(observation: Mapping[str, Any]) -> Iterator[Message]:
    for result in map(mapping, items(observation.get("results"))):
        yield {
            "role": "tool",
            "content": content_text(result.get("content"), _MAX_CHARS),
            "tool_call_id": text(result.get("source_call_id")),
        }
