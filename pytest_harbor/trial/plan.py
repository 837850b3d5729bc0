"""Everything about a trial that is settled before anything is built."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pytest_harbor.agent.base import Agent
from pytest_harbor.environment.base import EnvironmentRequest
from pytest_harbor.model_gateway.limits import SessionLimits
from pytest_harbor.task.artifacts import ArtifactEntry
from pytest_harbor.task.config import CollectConfig, EnvironmentConfig, HealthcheckConfig
from pytest_harbor.task.model import Step, Task, VerifierBox
from pytest_harbor.task.network import NetworkPolicy, distinct
from pytest_harbor.task.template import (
    MIN_KEY_CHARS,
    is_sensitive_name,
    resolve_env,
    secret_values,
)
from pytest_harbor.trial.identity import identity
from pytest_harbor.trial.limits import Multipliers
from pytest_harbor.trial.lock import trial_lock
from pytest_harbor.trial.model_access import ModelAccess, model_access
from pytest_harbor.trial.network_plan import NetworkPlan, WorkNetwork
from pytest_harbor.trial.record import TrialRecord
from pytest_harbor.trial.secrets import Redactor
from pytest_harbor.trial.support import require_supported
from pytest_harbor.trial.tools import AgentTools, agent_tools


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run asks of all its trials.

    Attributes:
        run_id: The run that everything on the engine belongs to.
        job_dir: Folder in which trials make theirs.
        threshold: Reward at which a trial passes.
        reward_key: The key that counts; None: ``reward``, else every key.
        multipliers: Factors on time limits.
        resource_multiplier: Factor on cores, memory and storage.
        rebuild: Build images even if they are there.
        allow_privileged: A compose file may ask for rights over the host.
        strict_collect: A collect hook that fails is the task's fault, not only a note.
        verifier_retries: Further boxes to try where a separate verifier's box breaks.
        agent_env: For the agent's commands; values may be secret.
        secrets: Further values that nothing that is written may hold.
        network: What the run allows; a trial has what its task allows, too.
        uplink: The engine's network through which boxes reach the outside; None: the run's.
        gateway_image: A ready image with the tools that hold a policy; None: made where needed.
        runtime: The engine's runtime for boxes; None: its default.
        hardened: Programs in a box may not gain rights by set-id bits.
        model_gateway: Whether agents in a box call their model through the model gateway;
            ``auto``: those that can.
        model_limits: What the calls of one trial may come to.
        model_prices: File with the user's own prices of models.
        isolate: Shared verifiers grade in a fresh box made from the agent's files.
        isolate_except: Patterns of tasks that are graded with what the agent left running.
        fails_on_tamper: Suspicious findings that were not undone keep a trial from passing.
        saves_files: Of which trials the files of a box that is graded are saved; None: of none.
        holds_boxes: Boxes stay up until whoever made them stops them, for a person to look at.
    """

    run_id: str
    job_dir: Path
    threshold: float = 1.0
    reward_key: str | None = None
    multipliers: Multipliers = field(default_factory=Multipliers)
    resource_multiplier: float = 1.0
    rebuild: bool = False
    allow_privileged: bool = False
    strict_collect: bool = False
    verifier_retries: int = 2
    agent_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    network: NetworkPolicy = field(default_factory=NetworkPolicy)
    uplink: str | None = None
    gateway_image: str | None = None
    runtime: str | None = None
    hardened: bool = False
    model_gateway: Literal["auto", "on", "off"] = "auto"
    model_limits: SessionLimits = field(default_factory=SessionLimits)
    model_prices: Path | None = None
    isolate: bool = False
    isolate_except: tuple[str, ...] = ()
    fails_on_tamper: bool = False
    saves_files: Literal["failed", "all"] | None = None
    holds_boxes: bool = False


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """One instruction for the agent and what grades it: a step, or a single-step task.

    Attributes:
        name: The step's name; empty for a single-step task.
        step: The step as read; None for a single-step task.
        instruction: What the agent is told.
        agent_timeout_sec: Limit of the agent phase; None: no limit.
        agent_user: User of the agent phase; None: the image's.
        verifier_timeout_sec: Limit of the verifier; None: no limit.
        verifier_user: User of the test script; None: the image's.
        verifier_env: For the test script, resolved; values may be secret.
        tests: Folders that are laid over each other in ``/tests``, in order; none where
            the verifier's image brings them.
        test_script: The script on this machine; None where the verifier's image brings it.
        artifacts: What to bring home.
        collect: Commands that make artifacts ready.
        healthcheck: A step's own check.
        min_reward: Reward that the next step asks for.
        network: Policies of the agent and the verifier.
        box: What a separate verifier's box is made from; None: it shares the agent's.
        box_env: Variables of that box, resolved; values may be secret.
    """

    name: str
    step: Step | None
    instruction: str
    agent_timeout_sec: float | None
    agent_user: str | int | None
    verifier_timeout_sec: float | None
    verifier_user: str | int | None
    verifier_env: Mapping[str, str] = field(repr=False)
    tests: tuple[Path, ...]
    test_script: Path | None
    artifacts: tuple[ArtifactEntry, ...]
    collect: tuple[CollectConfig, ...]
    healthcheck: HealthcheckConfig | None
    min_reward: float | Mapping[str, float] | None
    network: WorkNetwork
    box: VerifierBox | None
    box_env: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """One trial, settled: every variable resolved, every limit known."""

    task: Task
    agent: Agent
    agent_name: str
    model: str | None
    attempt: int
    options: RunOptions
    network: NetworkPlan
    works: tuple[WorkPlan, ...]
    build_timeout_sec: float | None
    setup_timeout_sec: float | None
    environment_env: Mapping[str, str] = field(repr=False)
    tools: AgentTools
    access: ModelAccess

    @property
    def redactor(self) -> Redactor:
        """Takes this trial's secrets out of whatever is written."""
        config = self.task.config
        tables = [config.environment.env, config.solution.env]
        for work in self.works:
            tables.append(config.verifier_env(work.step.config if work.step else None))
            tables.append(work.box.config.env if work.box else {})
        secrets = [value for table in tables for value in secret_values(table, os.environ)]
        # What a run hands to its agents is likelier a secret than not, whatever its name.
        secrets += [
            value
            for name, value in self.options.agent_env.items()
            if is_sensitive_name(name) or len(value) >= MIN_KEY_CHARS
        ]
        secrets += self.options.secrets
        return Redactor([*secrets, *self.tools.secrets, *self.access.secrets])

    @property
    def _builds_again(self) -> bool:
        return self.options.rebuild and not self.task.overrides.ignore_dockerfile

    def config_json(
        self, record: TrialRecord, labels: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The content of ``config.json``; secrets are named, not shown."""
        options = self.options
        return {
            "id": record.id,
            "task": self._task_json(),
            "trial_name": record.name,
            "trials_dir": str(record.path.parent),
            "timeout_multiplier": options.multipliers.every,
            **options.multipliers.as_json(),
            "agent": {
                "name": self.agent_name,
                "model_name": self.model,
                "env": {name: f"${{{name}}}" for name in options.agent_env},
            },
            "environment": {"type": "docker", "force_build": self._builds_again},
            "verifier": {},
            "overrides": self.task.overrides.as_json(),
            "attempt": self.attempt,
            "threshold": options.threshold,
            "reward_key": options.reward_key,
            "network": self.network.as_json(),
            **identity(self.task.path, options.run_id, labels or {}),
        }

    def lock_json(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The content of the trial's ``lock.json``.

        Args:
            config: The content of its ``config.json``.
        """
        task = self.task
        separate = any(work.box for work in self.works)
        return trial_lock(
            config,
            task_name=task.name,
            version=task.config.task.version if task.config.task else None,
            task_id=task.origin.task_id if task.origin else None,
            mode=None if task.steps else "separate" if separate else "shared",
        )

    def _task_json(self) -> dict[str, Any]:
        origin = self.task.origin
        if origin is None:
            return {"path": str(self.task.path)}
        named = {"source": origin.dataset, "version": origin.version, "label": origin.label}
        return {"path": str(self.task.path), **named}

    def agent_box(self, record: TrialRecord, labels: Mapping[str, str]) -> EnvironmentRequest:
        """The box that the agent works in."""
        return self._request(
            self.task.config.environment,
            self.task.environment_dir,
            self.environment_env,
            "agent",
            distinct(self.network.of_agents_box()),
            record,
            labels,
        )

    def verifier_box(
        self, work: WorkPlan, record: TrialRecord, labels: Mapping[str, str]
    ) -> EnvironmentRequest:
        """The box of a separate verifier."""
        assert work.box is not None
        return self._request(
            work.box.config,
            work.box.build_folder,
            work.box_env,
            "verifier",
            (work.network.verifier,),
            record,
            labels,
        )

    def boxes(self, record: TrialRecord, labels: Mapping[str, str]) -> Iterator[EnvironmentRequest]:
        """Every box that the trial will have, the agent's first."""
        yield self.agent_box(record, labels)
        for work in self.works:
            if work.box is not None:
                yield self.verifier_box(work, record, labels)

    def _request(
        self,
        wanted: EnvironmentConfig,
        folder: Path,
        env: Mapping[str, str],
        role: Literal["agent", "verifier"],
        network: tuple[NetworkPolicy, ...],
        record: TrialRecord,
        labels: Mapping[str, str],
    ) -> EnvironmentRequest:
        factor = self.options.resource_multiplier
        return EnvironmentRequest(
            task=self.task,
            config=wanted,
            build_folder=folder,
            trial_name=record.name,
            run_id=self.options.run_id,
            env=env,
            role=role,
            network=network,
            uplink=self.options.uplink,
            gateway_image=self.options.gateway_image,
            runtime=self.options.runtime,
            hardened=self.options.hardened,
            cpus=None if wanted.cpus is None else wanted.cpus * factor,
            memory_mb=_scaled(wanted.memory_mb, factor),
            storage_mb=_scaled(wanted.storage_mb, factor),
            rebuild=self._builds_again and role == "agent",
            layers=self.agent.layers(self.setup_timeout_sec) if role == "agent" else (),
            allow_privileged=self.options.allow_privileged,
            build_log=record.build_log(role),
            image_work=record.image_work,
            services_dir=record.path / "services" / role,
            filter_data=record.redactor.reader,
            labels=labels,
        )


def plan_trial(
    task: Task,
    agent: Agent,
    network: NetworkPlan,
    options: RunOptions,
    *,
    agent_name: str,
    model: str | None = None,
    attempt: int = 1,
) -> TrialPlan:
    """Settle a trial; nothing is built or written.

    Raises:
        UnsupportedError: This version, machine or agent cannot run it.
        HarborError: Something must be mended first, such as a missing variable.
    """
    require_supported(task)
    agent.check(task)
    access = model_access(agent, model, options, os.environ)
    options = replace(options, agent_env=access.agent_env)
    endpoints = (*agent.endpoints, *access.endpoints)
    network = network.within(options.network).for_agent(endpoints)
    steps: tuple[Step | None, ...] = task.steps or (None,)
    works = tuple(
        plan_work(task, step, policies, options.multipliers)
        for step, policies in zip(steps, network.works, strict=True)
    )
    factors = options.multipliers
    return TrialPlan(
        task=task,
        agent=agent,
        agent_name=agent_name,
        model=model,
        attempt=attempt,
        options=options,
        network=network,
        works=works,
        build_timeout_sec=factors.scaled(task.config.environment.build_timeout_sec, factors.build),
        setup_timeout_sec=factors.scaled(agent.setup_timeout_sec, factors.setup),
        environment_env=resolve_env(
            task.config.environment.env, os.environ, where="[environment.env]"
        ),
        tools=agent_tools(task, agent, options.agent_env, os.environ),
        access=access,
    )


def plan_work(
    task: Task, step: Step | None, policies: WorkNetwork, factors: Multipliers
) -> WorkPlan:
    """Settle one step of a task, or a single-step task.

    Raises:
        MissingVariableError: Its variables ask for some that this machine lacks.
    """
    config, table = task.config, step.config if step else None
    box = task.verifier_box(step) if task.verifier_mode(step) == "separate" else None
    bundled = box is not None and box.has_tests
    folders = (task.tests_dir, *([step.tests_dir] if step else []))
    where = "[verifier.env]" if step is None else f"the verifier's env of step {step.name!r}"
    return WorkPlan(
        name=step.name if step else "",
        step=step,
        instruction=step.instruction if step else task.instruction,
        agent_timeout_sec=factors.scaled(config.agent_timeout_sec(table), factors.agent),
        agent_user=config.agent_user(table),
        verifier_timeout_sec=factors.scaled(config.verifier_timeout_sec(table), factors.verifier),
        verifier_user=config.verifier_user(table),
        verifier_env=resolve_env(config.verifier_env(table), os.environ, where=where),
        tests=() if bundled else tuple(folder for folder in folders if folder.is_dir()),
        test_script=None if bundled else (step.test_script if step else task.test_script),
        artifacts=(*config.artifacts, *(table.artifacts if table else ())),
        collect=(*config.verifier.collect, *(table.verifier.collect if table else ())),
        healthcheck=table.healthcheck if table else None,
        min_reward=table.min_reward if table else None,
        network=policies,
        box=box,
        box_env=resolve_env(
            box.config.env if box else {}, os.environ, where="[verifier.environment.env]"
        ),
    )


def _scaled(amount: int | None, factor: float) -> int | None:
    return None if amount is None else math.ceil(amount * factor)
