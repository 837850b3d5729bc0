"""The job of a run: one folder and one run id, the same in every process of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_harbor.plugin.options import Settings, settings

if TYPE_CHECKING:
    from pytest_harbor.report.earlier import EarlierJob
    from pytest_harbor.trial.job import JobRecord
    from pytest_harbor.trial.plan import RunOptions

WORKER_INPUT = "pytest_harbor_job"
"""Key under which the controller of pytest-xdist hands the job to its workers."""

_JOB = pytest.StashKey["Job"]()
_RECORD = pytest.StashKey["JobRecord"]()
_EARLIER: pytest.StashKey[EarlierJob] = pytest.StashKey()
_GOES_ON = pytest.StashKey[bool]()


class Job(NamedTuple):
    """What all trials of a run share.

    Attributes:
        run_id: Names the run, on the engine too.
        path: The job's folder; made with the first trial.
        settings: What the run was asked for.
        owned: This process began the job, or goes on with it, and cleans up after it.
        standing: Items that an earlier run of the job has done, to their trials' folders; None
            for a job of this run's own.
        owner: Names that process.
        debugs: pytest stops at failures, with environments still there.
    """

    run_id: str
    path: Path
    settings: Settings
    owned: bool
    standing: Mapping[str, str] | None = None
    owner: str = ""
    debugs: bool = False

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
            secrets=wanted.keyword_secrets,
            network=wanted.network.policy,
            uplink=wanted.uplink,
            gateway_image=wanted.gateway_image,
            runtime=wanted.runtime,
            hardened=wanted.hardened,
            model_gateway=wanted.model_gateway,
            model_limits=SessionLimits(wanted.max_calls, wanted.max_tokens, wanted.max_cost_usd),
            model_prices=wanted.prices,
            isolate=wanted.isolate,
            isolate_except=wanted.isolate_except,
            fails_on_tamper=wanted.on_tamper == "fail",
            saves_files=wanted.benchmark.save_files,
            holds_boxes=self.debugs or wanted.keep is not None,
        )


def job_in_use(config: pytest.Config) -> Job | None:
    """The job, if a trial of it has begun in some process of the run."""
    known = config.stash.get(_JOB, None)
    if known is None or not known.path.exists():
        return None
    waits = known.owned and known.standing is not None and not config.stash.get(_GOES_ON, False)
    return None if waits else known


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


def go_on(config: pytest.Config, ids: Sequence[str]) -> None:
    """Take up the earlier job, if there is one, now that the run's trials are known.

    Raises:
        pytest.UsageError: A task was changed since.
    """
    earlier = config.stash.get(_EARLIER, None)
    if earlier is None or config.stash.get(_GOES_ON, False):
        return
    from pytest_harbor.plugin.dataset_roots import task_folder
    from pytest_harbor.plugin.resume import require_same_tasks, set_aside

    folders = {one: task_folder(config, one) for one in ids}
    require_same_tasks(earlier, folders, config.rootpath, job(config).run_id)
    set_aside(earlier, ids)
    config.stash[_GOES_ON] = True
    standing = {
        item: counted(one.properties, one.folder.name) for item, one in earlier.standing.items()
    }
    job_record(config).go_on(standing, len(set(ids) - set(standing)), earlier.total)


def counted(trial: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What the job's record takes of a trial, from its item's properties.

    Args:
        trial: The properties.
        name: Of the trial's folder.
    """
    prefix = "reward."
    usage = ("input_tokens", "cache_tokens", "output_tokens")
    return {
        "agent": trial["agent"],
        "model": trial.get("model"),
        "dataset": trial.get("dataset"),
        "category": trial["category"],
        "name": name,
        "rewards": {k.removeprefix(prefix): v for k, v in trial.items() if k.startswith(prefix)},
        "usage": {
            **{f"n_{one}": trial.get(one) for one in usage},
            "cost_usd": trial.get("cost_usd"),
        },
        "fault": trial.get("fault"),
        "faults": [one for one in str(trial.get("faults") or "").split(", ") if one],
        "untrusted": bool(trial.get("untrusted")),
    }


def _job_config(config: pytest.Config) -> dict[str, Any]:
    from pytest_harbor.plugin.resume import shaping_options

    current, wanted = job(config), settings(config)
    return {
        "job_name": current.path.name,
        "jobs_dir": str(current.path.parent),
        "n_attempts": wanted.attempts,
        "timeout_multiplier": wanted.timeout_multiplier,
        "n_concurrent_trials": concurrent_trials(config),
        "retry": {"max_retries": wanted.benchmark.retries},
        "agents": [
            {"name": agent, "model_name": model}
            for agent in wanted.agents
            for model in wanted.models or (None,)
        ],
        "environment": {"type": "docker", "force_build": wanted.rebuild},
        "pytest_harbor": {
            "run_id": current.run_id,
            "threshold": wanted.threshold,
            "owner": current.owner,
            "options": shaping_options(wanted),
        },
    }


def concurrent_trials(config: pytest.Config) -> int:
    """How many trials run at a time: one in each worker of pytest-xdist."""
    of_worker = getattr(config, "workerinput", {}).get("workercount")
    return of_worker or getattr(config.option, "numprocesses", None) or 1


def _received(config: pytest.Config) -> Job | None:
    handed = getattr(config, "workerinput", {}).get(WORKER_INPUT)
    if handed is None:
        return None
    known = {name: handed[name] for name in ("standing", "owner") if name in handed}
    return Job(handed["run_id"], Path(handed["path"]), settings(config), owned=False, **known)


def _begun(config: pytest.Config) -> Job:
    import secrets

    from pytest_harbor.environment.docker.owner import Owner
    from pytest_harbor.trial.job import job_name

    run_id, owner = secrets.token_hex(4), Owner.current().label()
    wanted, debugs = settings(config), bool(config.getoption("usepdb", False))
    if wanted.resume is None:
        path = wanted.output / job_name(run_id)
        return Job(run_id, path, wanted, owned=True, owner=owner, debugs=debugs)
    from pytest_harbor.plugin.resume import find_job, read_job

    earlier = read_job(config, find_job(config, wanted.resume, wanted.output), wanted)
    config.stash[_EARLIER] = earlier
    standing = {item: one.folder.name for item, one in earlier.standing.items()}
    return Job(run_id, earlier.path, wanted, True, standing, owner, debugs)
