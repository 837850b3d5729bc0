"""A run's job as its folder has it at the end, with those trials that have no folder."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_harbor.errors import OptionError
from pytest_harbor.plugin.job import job_in_use
from pytest_harbor.report.job import JobReading, read_job
from pytest_harbor.report.trial import Trial, trial_of_properties


def job_reading(config: pytest.Config) -> JobReading | None:
    """The job; None where no trial ran."""
    current, lost = job_in_use(config), _lost(config)
    job: JobReading | None = None
    if current is not None:
        with suppress(OptionError):  # its trials ended before any had a folder
            job = read_job(current.path)
    if job is None:
        return JobReading(path=Path(), name="no job", trials=lost) if lost else None
    return replace(job, trials=[*job.trials, *lost])


def _lost(config: pytest.Config) -> list[Trial]:
    """Trials that have no folder: they ended before one was made."""
    reporter = config.pluginmanager.getplugin("harbor-reporter")
    lost = [
        trial_of_properties(nodeid, found)
        for nodeid, found in (reporter.trials if reporter else {}).items()
        if "trial" not in found
    ]
    return [replace(one, task_path=str(config.rootpath / one.task_path)) for one in lost]
