"""Agents at work: each sees its phase's environment, and none outlives its time."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_harbor.agent.base import Agent, AgentContext
from pytest_harbor.agent.faults import unable_error
from pytest_harbor.environment.base import Environment
from pytest_harbor.environment.phase import PhaseEnvironment
from pytest_harbor.errors import AgentCrashError, AgentFault, AgentTimeoutError, HarborError
from pytest_harbor.result.trajectory_builder import TrajectoryBuilder
from pytest_harbor.result.work import USAGE_COUNTS, Work
from pytest_harbor.task.model import Step
from pytest_harbor.trial.plan import TrialPlan
from pytest_harbor.trial.record import TrialRecord, write_whole
from pytest_harbor.trial.trajectory import keep_trajectory

_GRACE_SEC = 5.0


def run_watched(
    plan: TrialPlan,
    record: TrialRecord,
    environment: Environment,
    logs_dir: Path,
    *,
    user: str | int | None,
    timeout_sec: float | None,
    work: Callable[[PhaseEnvironment], None],
    crash: type[AgentFault] = AgentCrashError,
) -> None:
    """Let the agent's code work on a phase's view of the environment.

    Args:
        plan: The trial.
        record: Its folder.
        environment: The box.
        logs_dir: Takes the traceback of an agent that crashes.
        user: Default user of the agent's commands.
        timeout_sec: Limit of the phase; None: no limit.
        work: The agent's code.
        crash: What an error of that code becomes.

    Raises:
        AgentFault: What the agent raised, or that it ran out of time, or crashed.
        EnvironmentFault: The box broke.
    """
    view = PhaseEnvironment(
        environment,
        user=user,
        env=plan.options.agent_env,
        timeout_sec=None if plan.agent.keeps_time else timeout_sec,
    )
    with _crashes_named(record, logs_dir, crash):
        try:
            _run(plan.agent, timeout_sec, view, lambda: work(view))
        finally:
            view.close()


@contextmanager
def _crashes_named(
    record: TrialRecord, logs_dir: Path, crash: type[AgentFault]
) -> Iterator[None]:
    """An agent is anybody's code: whatever it raises beside our errors is a crash of it."""
    try:
        yield
    except HarborError:
        raise
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        write_whole(logs_dir / "exception.txt", record.redactor.text(text))
        # The last line alone: the lines of code above it may hold anything.
        unable = unable_error("".join(traceback.format_exception_only(error)))
        if unable is not None:
            raise unable from error
        raise crash(
            f"agent crashed: {type(error).__name__}: {error} (traceback in agent/exception.txt)"
        ) from error


def _run(
    agent: Agent, limit: float | None, view: PhaseEnvironment, work: Callable[[], None]
) -> None:
    """Run the agent's code; code that does not keep its time is left behind."""
    if limit is None or agent.keeps_time:
        work()
        return
    caught: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the trial's own thread
            caught.append(error)

    thread = threading.Thread(target=guarded, name="harbor agent", daemon=True)
    thread.start()
    thread.join(limit)
    if thread.is_alive():
        # A command that runs now is killed at the limit; give it time to say so.
        thread.join(_GRACE_SEC)
    if thread.is_alive():
        # Whatever the code raises now, it does so because everything is taken from it.
        view.close()
        raise AgentTimeoutError(f"agent timed out after {limit:g} s")
    if caught:
        raise caught[0]


def agent_context(
    plan: TrialPlan,
    record: TrialRecord,
    logs_dir: Path,
    *,
    user: str | int | None,
    timeout_sec: float | None,
    step: Step | None = None,
) -> AgentContext:
    """What an agent is told for a phase of its."""
    agent = plan.agent
    return AgentContext(
        task=plan.task,
        timeout_sec=timeout_sec,
        user=user,
        env=plan.options.agent_env,
        logs_dir=logs_dir,
        log=lambda name: record.open_log(logs_dir / name),
        mcp_servers=plan.tools.mcp_servers,
        skills_dir=plan.tools.skills_dir,
        step=step,
        model=plan.access.route,
        trajectory=TrajectoryBuilder(
            agent.name or type(agent).__name__,
            str(agent.version),
            model_name=plan.model,
            session_id=f"{record.name}__agent",
        ),
    )


def note_work(work: Work, context: AgentContext, record: TrialRecord) -> None:
    """Keep what an agent told of its work."""
    keep_trajectory(work, context, record)
    work.agent_exit_code = context.exit_code
    usage = {name: getattr(context, name) for name in USAGE_COUNTS}
    if context.model_usage:
        usage["model_usage"] = context.model_usage
    if context.rollout_details:
        usage["rollout_details"] = context.rollout_details
    if context.metadata:
        usage["metadata"] = context.metadata
    work.usage = {name: value for name, value in usage.items() if value is not None}
