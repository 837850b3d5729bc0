"""An agent's trajectory in a trial: written, brought home, checked and counted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_harbor.agent.base import Agent, AgentContext
from pytest_harbor.agent.call import call_agent
from pytest_harbor.agent.model_route import CALLS_FILE
from pytest_harbor.environment.base import Environment
from pytest_harbor.errors import OptionError, Problem, TaskFormatError, TrajectoryFormatError
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.result.trajectory_reader import read_trajectory
from pytest_harbor.result.trajectory_usage import usage_of
from pytest_harbor.result.work import Work
from pytest_harbor.task.layout import TRAJECTORY_FILE
from pytest_harbor.task.model import Task
from pytest_harbor.trial.record import TrialRecord, write_json

_SHOWN_PROBLEMS = 3


def task_trajectory(task: Task, agent: Agent) -> Trajectory | None:
    """The trajectory that a task brings for its agent to go on from.

    Raises:
        TaskFormatError: The file is no trajectory.
        OptionError: The agent cannot load one.
    """
    path = task.path / TRAJECTORY_FILE
    if not os.path.lexists(path):
        return None
    if not callable(getattr(agent, "load_atif_trajectory", None)):
        name = agent.name or type(agent).__name__
        raise OptionError(
            f"{path}: the task brings a trajectory for its agent to go on from, and agent {name}"
            " has no load_atif_trajectory. Choose an agent that has, or take the file away"
        )
    try:
        return read_trajectory(path)
    except TrajectoryFormatError as error:
        raise TaskFormatError([Problem(path, problem) for problem in error.problems]) from error


def work_on(
    agent: Agent,
    instruction: str,
    environment: Environment,
    context: AgentContext,
    given: Trajectory | None,
) -> None:
    """Let an agent work, after it was given the trajectory to go on from."""
    if given is not None:
        load = agent.load_atif_trajectory  # type: ignore[attr-defined]
        call_agent(load, environment, context, given)
    call_agent(agent.run, environment, context, instruction)


def keep_trajectory(work: Work, context: AgentContext, record: TrialRecord) -> None:
    """Write down the steps that an agent told of; nothing where it told of none."""
    try:
        trajectory = context.trajectory.build()
        if trajectory is not None:
            _write(context.logs_dir, trajectory, record)
    except (OSError, RecursionError, ValueError) as error:
        # An agent's own arguments may be anything; its work is graded all the same.
        work.findings.append(f"the agent's trajectory could not be written: {error}")


def take_trajectory(work: Work, agent: Agent, logs_dir: Path, record: TrialRecord) -> None:
    """Check the trajectory that lies among an agent's logs, and count what it cost.

    One that is not valid stays as it is and is reported; it never fails a trial.
    """
    path = logs_dir / TRAJECTORY_FILE
    try:
        if not os.path.lexists(path):
            _convert(work, agent, logs_dir, record)
        if not os.path.lexists(path):
            _from_calls(work, agent, logs_dir, record)
        if os.path.lexists(path):
            fill_usage(work, usage_of(read_trajectory(path)))
    except TrajectoryFormatError as error:
        shown = "; ".join(error.problems[:_SHOWN_PROBLEMS])
        more = len(error.problems) - _SHOWN_PROBLEMS
        rest = f"; and {more} more" if more > 0 else ""
        work.findings.append(f"agent/{TRAJECTORY_FILE} is no valid trajectory: {shown}{rest}")


def fill_usage(work: Work, usage: Mapping[str, Any]) -> None:
    """Add counts that are not known yet; what the agent itself said of its usage stands."""
    for name, value in usage.items():
        work.usage.setdefault(name, value)


def _convert(work: Work, agent: Agent, logs_dir: Path, record: TrialRecord) -> None:
    try:
        trajectory = agent.read_trajectory(logs_dir)
        if trajectory is not None:
            _write(logs_dir, trajectory, record)
    except TrajectoryFormatError as error:
        work.findings.append(f"the agent's own logs gave no trajectory: {error}")
    except Exception as error:  # noqa: BLE001 - an agent is anybody's code
        name = type(error).__name__
        work.findings.append(f"the agent's own logs gave no trajectory: {name}: {error}")


def _from_calls(work: Work, agent: Agent, logs_dir: Path, record: TrialRecord) -> None:
    """Make the trajectory of the model gateway's record, where there is one."""
    # One file holds the calls of all steps, and those of later steps are not made yet.
    calls_file = record.path / "agent" / CALLS_FILE
    if "agent" not in work.timings or calls_file.is_symlink() or not calls_file.is_file():
        return
    # Here, since most trials have no such record.
    from pytest_harbor.result.agent_logs.gateway_record import recorded_calls
    from pytest_harbor.result.agent_logs.model_calls import read_model_calls

    begun = work.timings["agent"].started_at
    with calls_file.open("rb") as lines:
        calls = (call for call in recorded_calls(lines) if call.is_since(begun))
        name, session = agent.name or type(agent).__name__, f"{record.name}__agent"
        # Nobody answered: there is no trajectory, and the calls' verdict says why.
        with suppress(TrajectoryFormatError):
            trajectory = read_model_calls(
                calls, name=name, version=str(agent.version), session_id=session
            )
            _write(logs_dir, trajectory, record)


def _write(logs_dir: Path, trajectory: Trajectory, record: TrialRecord) -> None:
    logs_dir.mkdir(parents=True, exist_ok=True)
    write_json(logs_dir / TRAJECTORY_FILE, trajectory.to_json(), record.redactor)
