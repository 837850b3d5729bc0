"""Who grades where: in the agent's box, or in one of the verifier's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from pytest_harbor.environment.base import Environment
from pytest_harbor.errors import EnvironmentFault
from pytest_harbor.task.layout import ARTIFACTS_LOGS
from pytest_harbor.task.model import Task
from pytest_harbor.trial.artifacts import Artifacts
from pytest_harbor.trial.healthcheck import wait_until_healthy
from pytest_harbor.trial.plan import TrialPlan, WorkPlan
from pytest_harbor.trial.record import TrialRecord, WorkFolders
from pytest_harbor.verifier.base import Verifier, VerifierContext, VerifierReport
from pytest_harbor.verifier.call import graded


class HasArchives(Protocol):
    """Artifacts that are packed for a verifier's box."""

    archives: list[IO[bytes]]


def log_homes(folders: WorkFolders, artifacts: Artifacts) -> dict[str, Path]:
    """Folders below ``/logs`` of the agent's box and where they go on this machine."""
    homes = {"agent": folders.agent_dir, "verifier": folders.verifier_dir}
    if not artifacts.takes_logs_folder:
        homes["artifacts"] = folders.artifacts_dir / ARTIFACTS_LOGS.strip("/")
    return homes


def verifier_context(
    plan: TrialPlan,
    work: WorkPlan,
    record: TrialRecord,
    folders: WorkFolders,
    homes: Mapping[str, Path],
) -> VerifierContext:
    """What the verifier of a step is told."""
    dirs = (folders.verifier_dir, homes)
    return context_of(plan.task, work, *dirs, record.open_log, record.redactor.reader)


def context_of(
    task: Task,
    work: WorkPlan,
    verifier_dir: Path,
    homes: Mapping[str, Path],
    open_log: Callable[[Path], BinaryIO],
    filter_data: Callable[[BinaryIO], BinaryIO],
) -> VerifierContext:
    """What a verifier is told of a step, whoever keeps its logs."""
    return VerifierContext(
        task=task,
        step=work.step,
        tests=work.tests,
        test_script=work.test_script,
        timeout_sec=work.verifier_timeout_sec,
        user=work.verifier_user,
        env=work.verifier_env,
        verifier_dir=verifier_dir,
        homes=homes,
        open_log=open_log,
        filter_data=filter_data,
    )


def grade_separately(
    plan: TrialPlan,
    work: WorkPlan,
    record: TrialRecord,
    context: VerifierContext,
    verifier: Verifier,
    artifacts: HasArchives,
    make_box: Callable[[WorkPlan], Environment],
    observed: Callable[[Environment], AbstractContextManager[None]],
) -> VerifierReport:
    """Grade in a fresh box that has nothing of the agent's but its artifacts.

    A box that breaks is replaced by another; a low reward is never tried again.

    Raises:
        EnvironmentFault: No box could be had, or each of them broke.
    """
    for tries_left in reversed(range(plan.options.verifier_retries + 1)):
        box, holds = make_box(work), False
        try:
            box.start(timeout_sec=plan.build_timeout_sec)
            check = work.box.config.healthcheck if work.box else None
            if check is not None:
                wait_until_healthy(box, check, table="verifier.environment.healthcheck")
            with observed(box):
                for archive in artifacts.archives:
                    archive.seek(0)
                    box.unpack(archive)  # type: ignore[arg-type]
                report = graded(verifier, box, context)
            report.findings += [f"verifier's box: {note}" for note in box.notes]
        except EnvironmentFault as error:
            record.note(f"the verifier's box broke, {tries_left} tries left: {error}")
            if not tries_left:
                raise
        else:
            holds = plan.options.holds_boxes
            return report
        finally:
            if not holds:
                _stop(box, record)
    raise AssertionError("unreachable: the last try returns or raises")


def _stop(box: Environment, record: TrialRecord) -> None:
    """Remove a box; the end of the run removes what this cannot."""
    try:
        box.stop()
    except EnvironmentFault as error:
        record.note(f"the verifier's box could not be removed: {error}")
