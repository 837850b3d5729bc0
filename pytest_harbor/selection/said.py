"""What an agent was told, and what it said last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_harbor.report.detail import instruction_of
from pytest_harbor.report.files import UnreadableError, read_object, subfolders, unlinked
from pytest_harbor.report.limits import Limits
from pytest_harbor.report.trajectory import MAX_TRAJECTORY_BYTES, TRAJECTORY, content_text
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.values import items, mapping
from pytest_harbor.report.work import in_order, work_folders

_MAX_CHARS = 100_000


def instruction(trial: Trial) -> str:
    """Of the task's folder, with those of its steps; empty where it is gone."""
    limits = Limits(log_bytes=_MAX_CHARS)
    steps = subfolders(Path(trial.task_path) / "steps") if trial.task_path else []
    found = [instruction_of(trial, step, limits) for step in ("", *in_order(trial, steps))]
    return "\n\n".join(filter(None, found))


def told(trial: Trial) -> str:
    """The first that an agent was told, as its trajectory has it, which is its own word."""
    return next(_messages(trial, "user"), "")


def last_message(trial: Trial) -> str:
    """The agent's last message that is not empty."""
    said = ""
    for message in _messages(trial, "agent"):
        said = message
    return said


def _messages(trial: Trial, source: str) -> Iterator[str]:
    for step in _steps(trial):
        if step.get("source") == source:
            message = content_text(step.get("message"), _MAX_CHARS).strip()
            if message:
                yield message


def _steps(trial: Trial) -> Iterator[Mapping[str, Any]]:
    for folder, _ in work_folders(trial):
        try:
            found = read_object(unlinked(folder / "agent") / TRAJECTORY, MAX_TRAJECTORY_BYTES)
        except UnreadableError:
            continue
        yield from map(mapping, items(found.get("steps")))
