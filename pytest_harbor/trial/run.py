"""The order of a trial's phases (``format/trial-lifecycle.md``, sections 2 and 3).

start the environment → health check → agent's set-up → for each step: agent → artifacts
→ verifier. A single-step task has one step without a name, whose part of the result is
the trial's own.

Faults are kept, all of them, each with its phase. The environment's end the trial and
are raised; the agent's and the verifier's are part of the result.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from pytest_harbor.agent.call import call_agent
from pytest_harbor.environment.base import Environment, EnvironmentRequest
from pytest_harbor.environment.logs import bring_logs_home
from pytest_harbor.errors import (
    AgentFault,
    AgentSetupError,
    AgentSetupTimeoutError,
    AgentTimeoutError,
    AgentUnableError,
    CollectHookError,
    EngineUnavailableError,
    EnvironmentFault,
    HarborError,
    HealthcheckError,
    UnsupportedError,
    VerifierFault,
)
from pytest_harbor.result.reward import Reward, Verdict, combine_steps, judge, unmet_min_reward
from pytest_harbor.result.trial import StepResult, TrialResult, Work
from pytest_harbor.task.layout import AGENT_LOGS, TESTS_DIR, VERIFIER_LOGS
from pytest_harbor.trial.agent_phase import agent_context, note_work, run_watched
from pytest_harbor.trial.artifacts import Artifacts, run_hooks
from pytest_harbor.trial.category import broken_category, settled_category
from pytest_harbor.trial.grading import grade_separately, log_homes, verifier_context
from pytest_harbor.trial.healthcheck import wait_until_healthy
from pytest_harbor.trial.network_switch import NetworkSwitch, require_control
from pytest_harbor.trial.phases import PhaseObserver, Phases
from pytest_harbor.trial.plan import TrialPlan, WorkPlan
from pytest_harbor.trial.record import TrialRecord, WorkFolders
from pytest_harbor.trial.saved import save_files
from pytest_harbor.trial.step_setup import StepSetupError, set_up_step
from pytest_harbor.trial.trajectory import take_trajectory, work_on
from pytest_harbor.trial.trust import Trust
from pytest_harbor.verifier.base import Verifier, VerifierReport


class Trial:
    """One attempt of one agent at one task."""

    def __init__(
        self,
        plan: TrialPlan,
        record: TrialRecord,
        observer: PhaseObserver,
        make_environment: Callable[[EnvironmentRequest], Environment],
        labels: dict[str, str],
    ) -> None:
        """A trial of ``plan``.

        Args:
            plan: What was settled.
            record: The trial's folder.
            observer: Is told of each phase.
            make_environment: Makes boxes, not yet started.
            labels: For everything made on the engine.
        """
        self.plan = plan
        self.record = record
        self._phases = Phases(record, observer)
        self._make_environment = make_environment
        self._labels = labels
        self.config = plan.config_json(record, labels)
        self.result = TrialResult(
            trial_name=record.name,
            trial_dir=record.path,
            task_name=plan.task.name,
            task_path=plan.task.path,
            origin=plan.task.origin,
            agent_name=plan.agent_name,
            agent_version=plan.agent.version,
            model=plan.model,
            attempt=plan.attempt,
            threshold=plan.options.threshold,
            network=plan.network.as_json(),
            separate=any(work.box for work in plan.works),
            step_names=tuple(work.name for work in plan.works if work.name),
            fails_on_tamper=plan.options.fails_on_tamper,
            image_times=record.image_work.times,
        )
        self._trust = Trust(plan, record)
        self._network = NetworkSwitch(plan, record, self.result.refusals)
        record.write_inputs(self.config, plan.lock_json(self.config))

    # -- phases ---------------------------------------------------------------------

    def make_environment(self) -> Environment:
        """The box that the agent works in, not yet started."""
        return self._make_environment(self.plan.agent_box(self.record, self._labels))

    def start(self, environment: Environment) -> None:
        """Start the environment and wait until it is healthy.

        Raises:
            UnsupportedError: The backend cannot give it, or a verifier's; nothing was built.
            EnvironmentFault: It cannot be had; the trial is over.
        """
        self.plan.access.open(self.record)
        with self._phases.phase(self.result, "environment", "", environment):
            for request in self.plan.boxes(self.record, self._labels):
                require_control(environment, request)
                environment.check(request)
            self._trust.check(environment)
            environment.start(timeout_sec=self.plan.build_timeout_sec)
            self._network.enter(environment, "environment")
            self.result.findings += environment.notes
            check = self.plan.task.config.environment.healthcheck
            if check is not None:
                wait_until_healthy(environment, check)

    def run(self, environment: Environment, verifier: Verifier) -> TrialResult:
        """Let the agent work, then grade what it left.

        Raises:
            EnvironmentFault: The environment broke; the trial is over.
        """
        if self._set_up_agent(environment):
            for number, work in enumerate(self.plan.works):
                if number:
                    self._clean_between_steps(environment, self.plan.works[number - 1])
                if not self._run_work(number, work, environment, verifier):
                    break
        self._network.leave()
        self.plan.access.close()
        self._settle()
        return self.result

    def _set_up_agent(self, environment: Environment) -> bool:
        """Whether the agent is ready to work."""
        limit, user = self.plan.setup_timeout_sec, self.plan.task.config.agent.user
        folders = self.record.folders(self.plan.works[0].name)
        context = agent_context(
            self.plan, self.record, folders.agent_dir, user=user, timeout_sec=limit
        )
        result, setup = self.result, self.plan.agent.setup
        self._network.enter(environment, "agent_setup")
        try:
            with self._phases.phase(result, "agent_setup", "", environment):
                run_watched(
                    self.plan,
                    self.record,
                    environment,
                    folders.agent_dir,
                    user=user,
                    timeout_sec=limit,
                    work=lambda view: call_agent(setup, view, context),
                    crash=AgentSetupError,
                )
        except AgentTimeoutError:
            error = AgentSetupTimeoutError(f"set-up of the agent timed out after {limit:g} s")
            self._phases.add_fault(result, "agent_setup", error)
        except AgentFault as error:
            self._phases.add_fault(result, "agent_setup", error)
        result.agent_version = self.plan.agent.version  # some know it only now
        result.agent_unable = result.fault("agent_setup") is not None
        return not result.agent_unable

    def _clean_between_steps(self, environment: Environment, before: WorkPlan) -> None:
        """The next step's agent finds neither the last one's logs nor its tests."""
        shared = [VERIFIER_LOGS, TESTS_DIR] if before.box is None else []
        environment.clear([AGENT_LOGS, *shared])

    def _run_work(
        self, number: int, work: WorkPlan, environment: Environment, verifier: Verifier
    ) -> bool:
        """Run one step to its verdict; whether the next one may run."""
        folders = self.record.folders(work.name)
        result: Work = self.result
        if work.name:
            step = StepResult(name=work.name, separate=work.box is not None)
            self.result.steps.append(step)
            result = step
            self._network.enter(environment, "environment", work.name)
            if not self._set_up_step(work, step, environment):
                return False
        self._run_agent(work, result, folders, environment)
        is_last = number == len(self.plan.works) - 1
        self._grade(work, result, folders, environment, verifier, is_last=is_last)
        if not isinstance(result, StepResult):
            return True
        if result.reward is not None:
            result.verdict = self._judge(result, result.reward)
        result.unmet = unmet_min_reward(result.rewards or None, work.min_reward)
        self.write()
        return result.completed

    def _set_up_step(self, work: WorkPlan, result: StepResult, environment: Environment) -> bool:
        try:
            set_up_step(work, environment)
        except (StepSetupError, HealthcheckError) as error:
            self._phases.add_fault(result, "environment", error)
            self.record.note(f"step {work.name} was not begun: {error}")
            return False
        return True

    def _run_agent(
        self, work: WorkPlan, result: Work, folders: WorkFolders, environment: Environment
    ) -> None:
        context = agent_context(
            self.plan,
            self.record,
            folders.agent_dir,
            user=work.agent_user,
            timeout_sec=work.agent_timeout_sec,
            step=work.step,
        )
        agent = self.plan.agent
        given = self.plan.tools.trajectory if work is self.plan.works[0] else None
        self._network.enter(environment, "agent", work.name)
        self._trust.begin(environment)
        self.plan.access.begin(environment, context, work.network.agent)
        try:
            with self._phases.phase(result, "agent", work.name, environment):
                run_watched(
                    self.plan,
                    self.record,
                    environment,
                    folders.agent_dir,
                    user=work.agent_user,
                    timeout_sec=work.agent_timeout_sec,
                    work=lambda view: work_on(agent, work.instruction, view, context, given),
                )
        except AgentFault as error:
            self._phases.add_fault(result, "agent", error)
            result.agent_unable = isinstance(error, AgentUnableError)
        finally:
            note_work(result, context, self.record)
            self.plan.access.settle(result, self._phases)

    def _grade(
        self,
        work: WorkPlan,
        result: Work,
        folders: WorkFolders,
        environment: Environment,
        verifier: Verifier,
        *,
        is_last: bool,
    ) -> None:
        separate = work.box is not None
        artifacts = Artifacts(work.artifacts, folders, self.record, packs=separate)
        try:
            self._collect(work, artifacts, environment, is_last=is_last)
            homes = log_homes(folders, artifacts)
            if separate:
                homes.pop("verifier")
                self._trust.look_before_separate(environment, result)
                landing, filter_data = folders.path / ".logs", self.record.redactor.reader
                result.findings += bring_logs_home(environment, homes, landing, filter_data)
                homes = {"verifier": folders.verifier_dir}
                if is_last:
                    self._network.leave()
                    if not self.plan.options.holds_boxes:
                        environment.stop()
            else:
                save_files(self.plan, self.record, work, result, environment)
            context = verifier_context(self.plan, work, self.record, folders, homes)
            observed = partial(self._phases.observed, "verifier", work.name)
            in_own_box = self._network.in_verifiers_box(work.network.verifier, work.name, observed)
            with self._phases.timed(result, "verifier", work.name):
                if separate:
                    report = grade_separately(
                        self.plan,
                        work,
                        self.record,
                        context,
                        verifier,
                        artifacts,
                        self._box,
                        in_own_box,
                    )
                else:
                    report = self._trust.grade(
                        work,
                        result,
                        environment,
                        verifier,
                        context,
                        observed,
                        partial(self._network.enter, environment, "verifier", work.name),
                        in_own_box,
                    )
            self._take(report, result)
            self._trust.take(report, result, work)
        except Exception as error:
            self._trust.look_at_broken(environment, result)
            if not isinstance(error, VerifierFault):
                raise
            self._phases.add_fault(result, "verifier", error)
        finally:
            artifacts.close()
            take_trajectory(result, self.plan.agent, folders.agent_dir, self.record)

    def _collect(
        self, work: WorkPlan, artifacts: Artifacts, environment: Environment, *, is_last: bool
    ) -> None:
        """Hooks, then artifacts: of ``main`` first, then of the services beside it."""
        strict = self.plan.options.strict_collect
        run_hooks(work.collect, environment, self.record, strict=strict)
        artifacts.collect(environment)
        hooked = (hook.service for hook in work.collect if hook.service != "main")
        services = dict.fromkeys((*hooked, *artifacts.services))
        if services and work.box is not None and is_last:
            environment.stop_main()
        for name in services:
            try:
                service = environment.service(name)
                run_hooks(work.collect, service, self.record, service=name, strict=strict)
                artifacts.collect(service, name)
            except EngineUnavailableError:
                raise
            except EnvironmentFault as error:
                # A service that the agent ended must not spare it the verdict.
                artifacts.give_up(name, error)
                if strict and any(hook.service == name for hook in work.collect):
                    raise CollectHookError(f"collect hook in {name}: {error}") from error

    def _box(self, work: WorkPlan) -> Environment:
        return self._make_environment(self.plan.verifier_box(work, self.record, self._labels))

    def _take(self, report: VerifierReport, result: Work) -> None:
        result.reward, result.ctrf = report.reward, report.ctrf
        result.verifier_exit_code, result.verifier_sec = report.exit_code, report.script_sec
        result.findings += report.findings
        if report.fault is not None:
            self._phases.add_fault(result, "verifier", report.fault)

    # -- how it ends ----------------------------------------------------------------

    def fail(self, error: BaseException) -> TrialResult:
        """The trial was cut off by something that is not part of a result."""
        self._network.leave()
        self.plan.access.close()
        if isinstance(error, UnsupportedError):
            self.result.category, self.result.skip_reason = "skipped", str(error)
        else:
            known = isinstance(error, HarborError)
            text = "" if known else "".join(traceback.format_exception(error))
            running = self.result.steps[-1] if self.result.steps else self.result
            phase = next(reversed(running.timings), "environment")
            self._phases.add_fault(self.result, phase, error, text)
            self.result.category = broken_category(self.result, error)
        self.write()
        return self.result

    def write(self) -> None:
        """Write the result as it is now."""
        self.result.finished_at = datetime.now(UTC)
        self.record.write_result(self.result, self.config)

    def _settle(self) -> None:
        if self.result.step_names:
            self._combine_steps()
        if self.result.reward is not None:
            self.result.verdict = self._judge(self.result, self.result.reward)
        self.result.category = settled_category(self.result)
        self.write()

    def _combine_steps(self) -> None:
        """A step that never ran, or whose verifier crashed, counts as 0; Harbor leaves it out."""
        result = self.result
        combined = combine_steps(
            [step.rewards or None for step in result.steps],
            n_steps=len(result.step_names),
            strategy=self.plan.task.config.reward_strategy,
        )
        if combined.values is not None:
            result.reward = Reward(combined.values, "steps")
        if combined.values != combined.harbor_values:
            result.harbor_rewards = combined.harbor_values
            result.findings.append(
                f"{combined.missing} of {len(result.step_names)} steps have no reward and count"
                f" as 0; Harbor leaves them out and gives {combined.harbor_values}"
            )

    def _judge(self, work: Work, reward: Reward) -> Verdict | None:
        options = self.plan.options
        try:
            return judge(reward, options.threshold, options.reward_key)
        except VerifierFault as fault:
            self._phases.add_fault(work, "verifier", fault)
            return None
