"""The job of a run: one folder and one run id, the same in every process of the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_harbor.plugin.options import Settings, settings

if TYPE_CHECKING:
    from pytest_harbor.trial.job import JobRecord
    from pytest_harbor.trial.plan import RunOptions

WORKER_INPUT = "pytest_harbor_job"
"""Key under which the controller of pytest-xdist hands the job to its workers."""

_JOB = pytest.StashKey["Job"]()
_RECORD = pytest.StashKey["JobRecord"]()


class Job(NamedTuple):
    """What all trials of a run share.

    Attributes:
        run_id: Names the run, on the engine too.
        path: The job's folder; made with the first trial.
        settings: What the run was asked for.
        owned: This process began the job, and cleans up after it.
    """

    run_id: str
    path: Path
    settings: Settings
    owned: bool

    @property
    def options(self) -> RunOptions:
        """The settings as the engine layer takes them."""
        from pytest_harbor.model_gateway.limits import SessionLimits
        from pytest_harbor.trial.limits import Multipliers
        from pytest_harbor.trial.plan import RunOptions

        wanted = self.settings
        return RunOptions(
            run_id=self.run_id,
            job_dir=self.path,
            threshold=wanted.threshold,
            reward_key=wanted.reward_key,
            multipliers=Multipliers(
                every=wanted.timeout_multiplier,
                build=wanted.build_timeout_multiplier,
                setup=wanted.setup_timeout_multiplier,
                agent=wanted.agent_timeout_multiplier,
                verifier=wanted.verifier_timeout_multiplier,
                none=wanted.ignore_timeouts,
            ),
            resource_multiplier=wanted.resource_multiplier,
            rebuild=wanted.rebuild,
            allow_privileged=wanted.allow_privileged,
            strict_collect=wanted.strict_collect,
            agent_env=wanted.agent_env,
            network=wanted.network.policy,
            uplink=wanted.uplink,
            gateway_image=wanted.gateway_image,
            runtime=wanted.runtime,
            hardened=wanted.hardened,
            model_gateway=wanted.model_gateway,
            model_limits=SessionLimits(wanted.max_calls, wanted.max_tokens, wanted.max_cost_usd),
            isolate=wanted.isolate,
            isolate_except=wanted.isolate_except,
            fails_on_tamper=wanted.on_tamper == "fail",
        )


def job_in_use(config: pytest.Config) -> Job | None:
    """The job, if a trial of it has begun in some process of the run."""
    known = config.stash.get(_JOB, None)
    return known if known is not None and known.path.exists() else None


def job(config: pytest.Config) -> Job:
    """The job of this run; begun when first asked for, or received from the controller."""
    if _JOB not in config.stash:
        config.stash[_JOB] = _received(config) or _begun(config)
    return config.stash[_JOB]


def job_record(config: pytest.Config) -> JobRecord:
    """What writes the job's own files."""
    if _RECORD not in config.stash:
        from pytest_harbor.trial.job import JobRecord

        config.stash[_RECORD] = JobRecord(job(config).path, _job_config(config))
    return config.stash[_RECORD]


def _job_config(config: pytest.Config) -> dict[str, Any]:
    current, wanted = job(config), settings(config)
    return {
        "job_name": current.path.name,
        "jobs_dir": str(current.path.parent),
        "n_attempts": wanted.attempts,
        "timeout_multiplier": wanted.timeout_multiplier,
        "agents": [
            {"name": agent, "model_name": model}
            for agent in wanted.agents
            for model in wanted.models or (None,)
        ],
        "environment": {"type": "docker", "force_build": wanted.rebuild},
        "pytest_harbor": {"run_id": current.run_id, "threshold": wanted.threshold},
    }


def _received(config: pytest.Config) -> Job | None:
    handed = getattr(config, "workerinput", {}).get(WORKER_INPUT)
    if handed is None:
        return None
    return Job(handed["run_id"], Path(handed["path"]), settings(config), owned=False)


def _begun(config: pytest.Config) -> Job:
    import secrets

    from pytest_harbor.trial.job import job_name

    run_id = secrets.token_hex(4)
    wanted = settings(config)
    return Job(run_id, wanted.output / job_name(run_id), wanted, owned=True)
