"""The order of a trial's phases (``format/trial-lifecycle.md``, section 2).

start the environment → health check → agent's set-up → agent → artifacts → verifier

Faults are kept, all of them, each with its phase. The environment's end the trial and
are raised; the agent's and the verifier's are part of the result.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from pytest_harbor.agent.base import AgentContext
from pytest_harbor.environment.base import Environment
from pytest_harbor.environment.phase import PhaseEnvironment
from pytest_harbor.errors import (
    AgentCrashError,
    AgentFault,
    AgentSetupTimeoutError,
    AgentTimeoutError,
    AgentUnableError,
    HarborError,
    UnsupportedError,
    VerifierFault,
)
from pytest_harbor.result.reward import judge
from pytest_harbor.result.trial import Category, Fault, Timing, TrialResult
from pytest_harbor.trial.artifacts import collect_artifacts
from pytest_harbor.trial.healthcheck import wait_until_healthy
from pytest_harbor.trial.plan import TrialPlan
from pytest_harbor.trial.record import TrialRecord
from pytest_harbor.verifier.base import Verifier, VerifierContext

_GRACE_SEC = 5.0


class PhaseObserver(Protocol):
    """Is told when a phase begins and ends; ``environment`` is None before there is one."""

    def before_phase(self, phase: str, environment: Environment | None) -> None:
        """A phase begins."""

    def after_phase(
        self, phase: str, environment: Environment | None, error: BaseException | None
    ) -> None:
        """A phase ended, with ``error`` if it broke."""


class Trial:
    """One attempt of one agent at one task."""

    def __init__(self, plan: TrialPlan, record: TrialRecord, observer: PhaseObserver) -> None:
        self.plan = plan
        self.record = record
        self.observer = observer
        self.config = plan.config_json(record)
        self.result = TrialResult(
            trial_name=record.name,
            trial_dir=record.path,
            task_name=plan.task.name,
            task_path=plan.task.path,
            agent_name=plan.agent_name,
            agent_version=plan.agent.version,
            model=plan.model,
            attempt=plan.attempt,
            threshold=plan.options.threshold,
            network=plan.network.as_json(),
        )
        self._agent_unable = False
        record.write_config(self.config)

    # -- phases ---------------------------------------------------------------------

    def start(self, environment: Environment) -> None:
        """Start the environment and wait until it is healthy.

        Raises:
            EnvironmentFault: It cannot be had; the trial is over.
        """
        with self._phase("environment", environment):
            environment.start(timeout_sec=self.plan.limits.build)
            self.result.findings += environment.notes
            check = self.plan.task.config.environment.healthcheck
            if check is not None:
                wait_until_healthy(environment, check)

    def run(self, environment: Environment, verifier: Verifier) -> TrialResult:
        """Let the agent work, then grade what it left.

        Raises:
            EnvironmentFault: The environment broke; the trial is over.
        """
        context = self._agent_context()
        if self._set_up_agent(environment, context):
            self._run_agent(environment, context)
            entries = self.plan.task.config.artifacts
            if entries:
                collect_artifacts(entries, environment, self.record)
            self._grade(environment, verifier)
        self._settle()
        return self.result

    def _agent_context(self) -> AgentContext:
        plan, record = self.plan, self.record
        return AgentContext(
            task=plan.task,
            timeout_sec=plan.limits.agent,
            user=plan.task.config.agent.user,
            env=plan.options.agent_env,
            logs_dir=record.agent_dir,
            log=lambda name: record.open_log(record.agent_dir / name),
        )

    def _set_up_agent(self, environment: Environment, context: AgentContext) -> bool:
        """Whether the agent is ready to work."""
        limit = self.plan.limits.setup
        setup_context = replace(context, timeout_sec=limit)
        try:
            with self._phase("agent_setup", environment), self._view(environment, limit) as view:
                self._watched(limit, view, lambda: self.plan.agent.setup(view, setup_context))
        except AgentTimeoutError:
            error = AgentSetupTimeoutError(f"set-up of the agent timed out after {limit:g} s")
            self._add_fault("agent_setup", error)
        except AgentFault as error:
            self._add_fault("agent_setup", error)
        self._agent_unable = self.result.fault("agent_setup") is not None
        return not self._agent_unable

    def _run_agent(self, environment: Environment, context: AgentContext) -> None:
        limit = self.plan.limits.agent
        agent, instruction = self.plan.agent, self.plan.task.instruction
        try:
            with self._phase("agent", environment), self._view(environment, limit) as view:
                self._watched(limit, view, lambda: agent.run(instruction, view, context))
        except AgentFault as error:
            self._add_fault("agent", error)
            self._agent_unable = isinstance(error, AgentUnableError)
        finally:
            self._note_usage(context)

    def _grade(self, environment: Environment, verifier: Verifier) -> None:
        plan, record = self.plan, self.record
        context = VerifierContext(
            task=plan.task,
            timeout_sec=plan.limits.verifier,
            user=plan.task.config.verifier.user,
            env=plan.verifier_env,
            trial_dir=record.path,
            open_log=record.open_log,
            filter_data=record.redactor.reader,
        )
        with self._phase("verifier", environment):
            report = verifier.verify(environment, context)
        result = self.result
        result.reward, result.ctrf = report.reward, report.ctrf
        result.verifier_exit_code, result.verifier_sec = report.exit_code, report.script_sec
        result.findings += report.findings
        if report.fault is not None:
            self._add_fault("verifier", report.fault)
        elif report.reward is not None:
            self._judge()

    def _judge(self) -> None:
        options = self.plan.options
        assert self.result.reward is not None
        try:
            self.result.verdict = judge(self.result.reward, options.threshold, options.reward_key)
        except VerifierFault as fault:
            self._add_fault("verifier", fault)

    # -- how it ends ----------------------------------------------------------------

    def fail(self, error: BaseException) -> TrialResult:
        """The trial was cut off by something that is not part of a result."""
        if not isinstance(error, UnsupportedError):
            known = isinstance(error, HarborError)
            text = "" if known else "".join(traceback.format_exception(error))
            phase = next(reversed(self.result.timings), "environment")
            self._add_fault(phase, error, text)
            self.result.category = "environment"
        else:
            self.result.category, self.result.skip_reason = "skipped", str(error)
        self.write()
        return self.result

    def write(self) -> None:
        """Write the result as it is now."""
        self.result.finished_at = datetime.now(UTC)
        self.record.write_result(self.result, self.config)

    def _settle(self) -> None:
        self.result.category = self._category()
        self.write()

    def _category(self) -> Category:
        if self._agent_unable:
            return "agent"
        return "reward" if self.result.verdict is not None else "task"

    # -- helpers --------------------------------------------------------------------

    @contextmanager
    def _phase(self, phase: str, environment: Environment) -> Iterator[None]:
        """Time a phase and tell the observer; nothing is caught."""
        started = datetime.now(UTC)
        self.result.timings[phase] = Timing(started)
        self.record.note(f"{phase} begins")
        error: BaseException | None = None
        try:
            self.observer.before_phase(phase, environment)
            yield
        except BaseException as caught:
            error = caught
            raise
        finally:
            self.result.timings[phase] = Timing(started, datetime.now(UTC))
            self.record.note(f"{phase} ends" + (f": {type(error).__name__}" if error else ""))
            self.observer.after_phase(phase, environment, error)

    @contextmanager
    def _view(self, environment: Environment, limit: float | None) -> Iterator[PhaseEnvironment]:
        config = self.plan.task.config
        view = PhaseEnvironment(
            environment,
            user=config.agent.user,
            env=self.plan.options.agent_env,
            timeout_sec=None if self.plan.agent.keeps_time else limit,
        )
        try:
            yield view
        except (HarborError, KeyboardInterrupt):
            raise
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            (self.record.agent_dir / "exception.txt").write_text(self.record.redactor.text(text))
            raise AgentCrashError(
                f"agent crashed: {type(error).__name__}: {error} (traceback in agent/exception.txt)"
            ) from error
        finally:
            view.close()

    def _watched(
        self, limit: float | None, view: PhaseEnvironment, work: Callable[[], None]
    ) -> None:
        """Run the agent's code; code that does not keep its time is left behind."""
        if limit is None or self.plan.agent.keeps_time:
            work()
            return
        caught: list[BaseException] = []

        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - handed to the trial's own thread
                caught.append(error)

        thread = threading.Thread(target=guarded, name=f"agent {self.record.name}", daemon=True)
        thread.start()
        thread.join(limit)
        if thread.is_alive():
            # A command that runs now is killed at the limit; give it time to say so.
            thread.join(_GRACE_SEC)
            view.close()
        if caught:
            raise caught[0]
        if thread.is_alive():
            raise AgentTimeoutError(f"agent timed out after {limit:g} s")

    def _add_fault(self, phase: str, error: BaseException, text: str = "") -> None:
        fault = Fault.of(phase, error, text)
        self.result.faults.append(replace(fault, message=self.record.redactor.text(fault.message)))

    def _note_usage(self, context: AgentContext) -> None:
        self.result.agent_exit_code = context.exit_code
        names = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")
        usage = {name: getattr(context, name) for name in names}
        if context.metadata:
            usage["metadata"] = context.metadata
        self.result.usage = {name: value for name, value in usage.items() if value is not None}
