"""Trials as JSON lines with the fields of the verifiers library's ``results.jsonl``.

They are those of its versions 0.1.14 to 0.3.1. One difference: a trial without a valid reward has
``reward: null`` and an ``error``, where that library writes 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.report.chat import function_of_tool
from pytest_harbor.report.data import outcome, plain
from pytest_harbor.report.detail import instruction_of
from pytest_harbor.report.files import write_lines
from pytest_harbor.report.limits import Limits
from pytest_harbor.report.trajectory import MAX_TRAJECTORY_BYTES, content_text
from pytest_harbor.report.trajectory_files import Broken, trajectories
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.values import items, mapping
from pytest_harbor.report.work import artifact_paths, work_folders
from pytest_harbor.result.trajectory_reader import load_json

_MAX_CHARS = MAX_TRAJECTORY_BYTES
"""Nothing of a trajectory that is read at all is longer: none of it is cut."""
_INSTRUCTION_BYTES = 4_000_000
_TOKENS = {
    "prompt_token_ids": "prompt_ids",
    "completion_token_ids": "completion_ids",
    "logprobs": "completion_logprobs",
}
"""What a trajectory has of a model's tokens, by the library's names."""
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
    examples = Examples()
    for trial in trials:
        if trial.category and not trial.superseded:
            yield json_line(plain(trace(trial, examples.number(trial))))


class Examples:
    """Numbers tasks: attempts at one task have the same number, in several jobs, too."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, trial: Trial) -> int:
        """The number of a trial's task, from 0."""
        # Items of two jobs may have the same id, and be of different tasks.
        key = (trial.task_id, trial.task_path or trial.task_key)
        return self._numbers.setdefault(key, len(self._numbers))


def json_line(value: Mapping[str, Any]) -> str:
    """An object as a line of JSON; halves of characters, which readers refuse, are marked."""
    written = json.dumps(value, allow_nan=False)
    if "\\ud" in written:
        whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
        written = json.dumps(json.loads(whole))
    return f"{written}\n"


def trace(trial: Trial, example: int, *, with_tokens: bool = False) -> dict[str, Any]:
    """One trial.

    Args:
        trial: The trial.
        example: Number of its task.
        with_tokens: Messages have the model's tokens, where the trajectory has them.
    """
    said = _Said(with_tokens)
    prompt, completion = said.messages(trial)
    fault = trial.fault or ("" if trial.category == "reward" else outcome(trial))
    line: dict[str, Any] = {
        "example_id": example,
        "task": trial.task,
        "prompt": prompt,
        "completion": completion,
        "reward": trial.score if trial.counts else None,
        "metrics": dict(trial.rewards),
        "artifacts": list(artifact_paths(trial)),
        "info": _info(trial) | ({"problems": said.problems} if said.problems else {}),
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
    if said.tools:
        line["tool_defs"] = said.tools
    if error := line["error"]:
        line["error_chain"] = error["error_chain_repr"]
        line["long_error_chain"] = error["error_chain_str"]
    # The library repeats metrics at the top; none of them may take a field's place.
    return {key: value for key, value in trial.rewards.items() if key not in line} | line


def _info(trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.name,
        "task_path": trial.task_path,
        "dataset": trial.dataset_key or None,
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
        "message": message or name,
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
    start = min((begun + one.start for one in spans), default=0.0)
    end = max((begun + one.start + one.seconds for one in spans), default=0.0)
    # Phases of a task with steps take turns: their length is less than end - start.
    takes_turns = len({one.step for one in spans}) > 1
    duration = sum(one.seconds for one in spans) if takes_turns else end - start
    return {"start": start, "end": end, "duration": duration}


class _Said:
    """What was said in a trial.

    Attributes:
        tools: That the agent had, by its last trajectory that tells.
        problems: Why messages are missing: trajectories that cannot be read.
    """

    def __init__(self, with_tokens: bool) -> None:
        self._with_tokens = with_tokens
        self.tools: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def messages(self, trial: Trial) -> tuple[list[Message], list[Message]]:
        """What the agent was told before its first step, and everything after."""
        steps = (step for folder, name in work_folders(trial) for step in self._steps(folder, name))
        said = [message for step in steps for message in _said(step, self._with_tokens)]
        own = (number for number, one in enumerate(said) if one["role"] in ("assistant", "tool"))
        first = next(own, None)
        prompt = said if first is None else said[:first]
        told = "" if prompt else instruction_of(trial, "", Limits(log_bytes=_INSTRUCTION_BYTES))
        if told:
            prompt = [{"role": "user", "content": told}]
        return prompt, [] if first is None else said[first:]

    def _steps(self, folder: Path, prefix: str) -> Iterator[Mapping[str, Any]]:
        found = trajectories(folder, _document, lambda one: one.get("continued_trajectory_ref"))
        for place, (name, one) in enumerate(found):
            if isinstance(one, Broken):
                self.problems.append(f"{prefix}agent/{name}: {one.problem}")
                return
            self.tools = _tools(one) or self.tools
            for step in one["steps"]:
                # What goes on from another file begins with copies of what that one holds.
                if not (place and step.get("is_copied_context") is True):
                    yield step


def _document(data: bytes) -> Mapping[str, Any]:
    """A trajectory, whatever else is wrong with it, that has steps.

    Raises:
        TrajectoryFormatError: It has none.
    """
    found = mapping(load_json(data))
    steps = items(found.get("steps"))
    if not steps:
        raise TrajectoryFormatError(["steps: expected a list of steps, found none"])
    for number, step in enumerate(steps):
        if mapping(step).get("source") not in _ROLES:
            text = f"steps[{number}].source: expected {', '.join(_ROLES)}, found another value"
            raise TrajectoryFormatError([text])
    named = found.get("continued_trajectory_ref")
    return dict(found) | {"continued_trajectory_ref": named if isinstance(named, str) else None}


def _tools(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = items(mapping(document.get("agent")).get("tool_definitions"))
    found = (function_of_tool(mapping(one)) for one in listed)
    return [one for one in found if one is not None]


def _said(step: Mapping[str, Any], with_tokens: bool) -> Iterator[Message]:
    message: Message = {
        "role": _ROLES[step["source"]],
        "content": content_text(step.get("message"), _MAX_CHARS),
    }
    if reasoning := _word(step.get("reasoning_content")):
        message["reasoning_content"] = reasoning
    calls = [mapping(one) for one in items(step.get("tool_calls"))]
    if calls:
        message["tool_calls"] = [_call(one) for one in calls]
    if with_tokens and (tokens := _tokens(mapping(step.get("metrics")))):
        message["tokens"] = tokens
    yield message
    yield from _seen(mapping(step.get("observation")), calls)


def _tokens(metrics: Mapping[str, Any]) -> dict[str, Any]:
    found = {ours: items(metrics.get(key)) for key, ours in _TOKENS.items()}
    return {key: one for key, one in found.items() if one and all(map(_is_number, one))}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _call(call: Mapping[str, Any]) -> str:
    """A tool call; the library writes each as a text of JSON."""
    found = {
        "id": _word(call.get("tool_call_id")),
        "name": _word(call.get("function_name")),
        "arguments": json.dumps(call.get("arguments"), ensure_ascii=False),
    }
    return json.dumps(found, ensure_ascii=False)


def _seen(observation: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    """What was seen: what names no call answers the last one, or is told where there is none."""
    for result in map(mapping, items(observation.get("results"))):
        content = content_text(result.get("content"), _MAX_CHARS)
        name = _word(result.get("source_call_id"))
        if not name and not calls:
            yield {"role": "user", "content": content}
            continue
        name = name or _word(calls[-1].get("tool_call_id"))
        yield {"role": "tool", "content": content, "tool_call_id": name}


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
