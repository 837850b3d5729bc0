"""Everything about a trial that is settled before anything is built."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_harbor.agent.base import Agent
from pytest_harbor.environment.base import EnvironmentRequest
from pytest_harbor.task.reader import Task
from pytest_harbor.task.template import is_sensitive_name, resolve_env
from pytest_harbor.trial.limits import Limits, Multipliers, phase_limits
from pytest_harbor.trial.network_plan import NetworkPlan, container_network
from pytest_harbor.trial.record import TrialRecord
from pytest_harbor.trial.secrets import Redactor
from pytest_harbor.trial.support import require_supported


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
        agent_env: For the agent's commands; values may be secret.
    """

    run_id: str
    job_dir: Path
    threshold: float = 1.0
    reward_key: str | None = None
    multipliers: Multipliers = field(default_factory=Multipliers)
    resource_multiplier: float = 1.0
    rebuild: bool = False
    agent_env: Mapping[str, str] = field(default_factory=dict, repr=False)


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
    limits: Limits
    environment_env: Mapping[str, str] = field(repr=False)
    verifier_env: Mapping[str, str] = field(repr=False)

    @property
    def redactor(self) -> Redactor:
        """Takes this trial's secrets out of whatever is written."""
        config = self.task.config
        tables = (
            (self.environment_env, config.environment.env),
            (self.verifier_env, config.verifier.env),
            (self.options.agent_env, self.options.agent_env),
        )
        secrets = [
            value
            for resolved, written in tables
            for name, value in resolved.items()
            if is_sensitive_name(name) or (written is self.options.agent_env and len(value) >= 8)
        ]
        return Redactor(secrets)

    def config_json(self, record: TrialRecord) -> dict[str, Any]:
        """The content of ``config.json``; secrets are named, not shown."""
        options = self.options
        return {
            "id": record.id,
            "task": {"path": str(self.task.path)},
            "trial_name": record.name,
            "trials_dir": str(record.path.parent),
            "timeout_multiplier": options.multipliers.every,
            "agent": {
                "name": self.agent_name,
                "model_name": self.model,
                "env": {name: f"${{{name}}}" for name in options.agent_env},
            },
            "environment": {"type": "docker", "force_build": options.rebuild},
            "verifier": {},
            "attempt": self.attempt,
            "threshold": options.threshold,
            "reward_key": options.reward_key,
            "network": self.network.as_json(),
        }

    def environment_request(
        self, record: TrialRecord, labels: Mapping[str, str]
    ) -> EnvironmentRequest:
        """What the backend is asked for."""
        wanted = self.task.config.environment
        factor = self.options.resource_multiplier
        return EnvironmentRequest(
            task=self.task,
            config=wanted,
            build_folder=self.task.environment_dir,
            trial_name=record.name,
            run_id=self.options.run_id,
            env=self.environment_env,
            network=container_network(self.network),
            cpus=None if wanted.cpus is None else wanted.cpus * factor,
            memory_mb=_scaled(wanted.memory_mb, factor),
            storage_mb=_scaled(wanted.storage_mb, factor),
            rebuild=self.options.rebuild,
            build_log=record.build_log,
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
    require_supported(task, agent)
    container_network(network)
    agent.check(task)
    config = task.config
    return TrialPlan(
        task=task,
        agent=agent,
        agent_name=agent_name,
        model=model,
        attempt=attempt,
        options=options,
        network=network,
        limits=phase_limits(config, options.multipliers, agent.setup_timeout_sec),
        environment_env=resolve_env(config.environment.env, os.environ, where="[environment.env]"),
        verifier_env=resolve_env(config.verifier.env, os.environ, where="[verifier.env]"),
    )


def _scaled(amount: int | None, factor: float) -> int | None:
    return None if amount is None else math.ceil(amount * factor)
