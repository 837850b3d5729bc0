"""``lock.json`` written as a run goes, and ``--harbor-locked``: the same again, or what differs.

Lives in the process that the user started.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin.dataset_roots import NAME as ROOTS
from pytest_harbor.plugin.dataset_roots import DatasetRoots, task_folder
from pytest_harbor.plugin.engine import is_trial_id
from pytest_harbor.plugin.job import concurrent_trials, job, job_in_use
from pytest_harbor.plugin.locked_datasets import lock_of
from pytest_harbor.plugin.options import settings

if TYPE_CHECKING:
    from pytest_harbor.dataset.dataset import Dataset
    from pytest_harbor.trial.lock import Conditions, JobLock

NAME = "harbor-lock"


def register(config: pytest.Config) -> None:
    """Begin; read the lock, where one is asked for."""
    config.pluginmanager.register(LockKeeper(config), NAME)


class LockKeeper:
    """Writes the job's lock, and holds the run against an earlier one's."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._ids: list[str] = []
        self._is_written = False
        self._lines: list[str] = []

    @property
    def lock(self) -> JobLock | None:
        """The lock to hold the run against; None: none was asked for."""
        return lock_of(self._config)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """The trials are known, and the engine was met."""
        self._settle(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """The same where workers collect."""
        if not self._ids:
            self._settle(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the lock with the first trial: whatever ends the run, it is there."""
        if not self._is_written and report.when == "teardown" and is_trial_id(report.nodeid):
            self._write()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write what the trials have shown, and tell what was otherwise than before."""
        trials = self._write() if self._ids else []
        if self.lock is not None and trials:
            from pytest_harbor.trial.lock import seen_differences

            found = seen_differences(self.lock, trials)
            same = "the same tasks, options, versions, agents and images"
            roots: DatasetRoots | None = self._config.pluginmanager.getplugin(ROOTS)
            drift = roots.drift if roots is not None else []
            self._lines = [*drift, *(found or [same])]

    def pytest_harbor_summary(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Show what was otherwise."""
        if self.lock is None or not self._lines:
            return []
        return [(f"harbor: held against {self.lock.name}", self._lines)]

    @cached_property
    def conditions(self) -> Conditions:
        """What is known of the run before its first trial."""
        from pytest_harbor.plugin.resume import shaping_options
        from pytest_harbor.trial.identity import digest_of_task
        from pytest_harbor.trial.lock import Conditions

        run_id = job(self._config).run_id
        roots: DatasetRoots | None = self._config.pluginmanager.getplugin(ROOTS)
        datasets = roots.datasets if roots is not None else []
        known = roots.digests if roots is not None else {}
        return Conditions(
            versions=_versions(run_id),
            options=shaping_options(settings(self._config)),
            datasets=[one.as_json() for one in self._as_found(datasets)],
            digests={
                one: known.get(one.partition("::")[0])
                or digest_of_task(task_folder(self._config, one), run_id)
                for one in self._ids
            },
            retry=_retry(self._config),
        )

    def _as_found(self, datasets: Sequence[Dataset]) -> Sequence[Dataset]:
        """Those of a lock with the scripts that are on this machine now."""
        if self.lock is None or not any(one.metrics for one in datasets):
            return datasets
        from pytest_harbor.dataset.metric_script import with_scripts_of_today

        return [with_scripts_of_today(one) for one in datasets]

    def _settle(self, ids: Iterable[str]) -> None:
        self._ids = [one for one in ids if is_trial_id(one)]
        if self.lock is None or self._config.option.collectonly:
            return
        from pytest_harbor.trial.lock import differences

        if found := differences(self.lock, self.conditions):
            listed = "\n".join(f"  {line}" for line in found)
            pytest.exit(
                f"--harbor-locked: this run is not the same as {self.lock.name}:\n{listed}",
                returncode=pytest.ExitCode.USAGE_ERROR,
            )

    def _write(self) -> list[dict[str, Any]]:
        current = job_in_use(self._config)
        if current is None:
            return []
        from pytest_harbor.trial.lock import lock_json, trials_of
        from pytest_harbor.trial.record import LOCK_FILE, write_json

        trials = trials_of(current.path)
        with suppress(OSError):  # a full disk must not end the run
            workers = concurrent_trials(self._config)
            write_json(current.path / LOCK_FILE, lock_json(self.conditions, trials, workers))
        self._is_written = True
        return trials


def _retry(config: pytest.Config) -> dict[str, Any]:
    wanted = settings(config).benchmark
    return {
        "retries": wanted.retries,
        "include": list(wanted.retry_include),
        "exclude": list(wanted.retry_exclude),
        "waits": dict(wanted.retry_waits),
    }


def _versions(run_id: str) -> dict[str, str]:
    from importlib.metadata import version

    return {
        "pytest-harbor": version("pytest-harbor"),
        "pytest": pytest.__version__,
        "python": platform.python_version(),
        "engine": _engine_version(run_id),
    }


def _engine_version(run_id: str) -> str:
    """The engine's kind and version; empty where none answers."""
    from pytest_harbor.environment.docker.backend import engine_of_run
    from pytest_harbor.errors import HarborError

    try:
        engine = engine_of_run(run_id)
        kind = "podman" if engine.is_podman else "docker"
        return f"{kind} {engine.info.get('ServerVersion', '')}"
    except HarborError:
        return ""
