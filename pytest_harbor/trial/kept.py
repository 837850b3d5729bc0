"""Boxes of a trial that were kept: noted in its folder, graded again, removed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from pytest_harbor.environment.kept import KeptBox
from pytest_harbor.errors import OptionError
from pytest_harbor.result.reward import Verdict, judge
from pytest_harbor.task.model import Task
from pytest_harbor.task.overrides import TaskOverrides
from pytest_harbor.task.reader import read_task
from pytest_harbor.task.template import secret_values
from pytest_harbor.trial.grading import context_of
from pytest_harbor.trial.limits import Multipliers
from pytest_harbor.trial.logs import LogFile
from pytest_harbor.trial.network_plan import task_network
from pytest_harbor.trial.plan import WorkPlan, plan_work
from pytest_harbor.trial.record import ASIDE, write_json
from pytest_harbor.trial.secrets import Redactor
from pytest_harbor.verifier.base import VerifierReport
from pytest_harbor.verifier.script import OUTPUT_FILE, ScriptVerifier

KEPT_FILE = "kept.json"
"""In the trial's folder, for as long as boxes of it are kept."""
_UNCHANGED = Multipliers()


@dataclass(frozen=True, slots=True)
class Graded:
    """What another grading of a kept box came to.

    Attributes:
        report: The verifier's.
        verdict: Its reward against the trial's threshold; None where it gave none.
        folder: Where the verifier's files are.
        output: What the test script printed.
    """

    report: VerifierReport
    verdict: Verdict | None
    folder: Path
    output: str


def note_kept(
    trial: Path,
    boxes: Sequence[KeptBox],
    *,
    verifier: str = "",
    multipliers: Multipliers = _UNCHANGED,
) -> None:
    """Write down what is kept of a trial, and how it was graded.

    Args:
        trial: The trial's folder.
        boxes: The one that was graded last stands last.
        verifier: Who graded in place of the task's test script; empty: nobody.
        multipliers: Factors on the time limits.
    """
    note = {
        "boxes": [box.to_json() for box in boxes],
        "verifier": verifier,
        "multipliers": asdict(multipliers),
    }
    write_json(trial / KEPT_FILE, note)


def grading_of(trial: Path) -> Multipliers:
    """The factors that a kept trial was graded with.

    Raises:
        OptionError: Another verifier than the test script graded it, or the note is unreadable.
    """
    note = _json(trial / KEPT_FILE)
    if verifier := note.get("verifier"):
        raise OptionError(
            f"{trial}: it was graded by {verifier}, and only a task's test script can be run again"
            " in a kept environment; --harbor-regrade with the same --harbor-verifier grades what"
            " the trial left"
        )
    try:
        return Multipliers(**(note.get("multipliers") or {}))
    except TypeError as error:
        raise OptionError(f"{trial / KEPT_FILE}: cannot be read: {error}") from None


def kept_of(path: Path) -> dict[Path, list[KeptBox]]:
    """What is kept of a trial, or of all trials of a job, by the trials' folders.

    Raises:
        OptionError: Nothing is.
    """
    found = {file.parent: list(_boxes(file)) for file in _files(path)}
    if not found:
        what = (
            f"{path}: no environment of this trial or job is kept"
            if path.is_dir()
            else (f"{path}: expected the folder of a trial or job, found nothing")
        )
        raise OptionError(f"{what}; --harbor-keep keeps those of failed trials")
    return found


def _files(path: Path) -> list[Path]:
    """Those below a trial or job; a trial may have been set aside since its box was kept."""
    for trial in (path, path.parent / ASIDE / path.name):
        if (trial / KEPT_FILE).is_file():
            return [trial / KEPT_FILE]
    return sorted([*path.glob(f"*/{KEPT_FILE}"), *path.glob(f"{ASIDE}/*/{KEPT_FILE}")])


def _boxes(file: Path) -> Iterator[KeptBox]:
    found = _json(file).get("boxes")
    for one in found if isinstance(found, list) else []:
        if isinstance(one, dict) and (box := KeptBox.parse(one)):
            yield box


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{file}: cannot be read: {error}") from None
    return found if isinstance(found, dict) else {}


def remove(trial: Path, boxes: Sequence[KeptBox]) -> None:
    """Remove the kept boxes of a trial, and the note of them."""
    from pytest_harbor.environment.docker.kept_box import remove_kept

    for box in boxes:
        remove_kept(box)
    (trial / KEPT_FILE).unlink(missing_ok=True)


def grade_again(trial: Path, *, step: str = "") -> Graded:
    """Run the verifier in the kept box of a trial, with the tests as they are now.

    Args:
        trial: The trial's folder.
        step: Of a multi-step task; empty: the one that was graded last.

    Raises:
        OptionError: The trial has no kept box, or no such step, or another verifier graded it.
        TaskFormatError: The task's files cannot be used.
        EnvironmentFault: The box is gone, or broke.
    """
    from pytest_harbor.environment.docker.kept_box import opened

    trial, boxes = _only(trial)
    multipliers = grading_of(trial)
    config = _json(trial / "config.json")
    task = _task(config)
    work = _work(task, trial, step, multipliers)
    if work.box is not None and len(boxes) == 1:
        raise OptionError(
            "the task's verifier has an environment of its own, and none of it is kept: the trial"
            " did not come that far"
        )
    folder = _new_folder(trial)
    redactor = Redactor(secret_values(_env_table(task, work), os.environ))

    def open_log(path: Path) -> BinaryIO:
        return cast("BinaryIO", LogFile(path, redactor))

    context = context_of(task, work, folder, {"verifier": folder}, open_log, redactor.reader)
    with opened(boxes[-1]) as box:
        report = ScriptVerifier().verify(box, context)
    verdict = None
    if report.reward is not None:
        verdict = judge(
            report.reward, float(config.get("threshold", 1.0)), config.get("reward_key")
        )
    output = (folder / OUTPUT_FILE).read_text(encoding="utf-8", errors="replace")
    return Graded(report, verdict, folder, output)


def _only(path: Path) -> tuple[Path, list[KeptBox]]:
    """The folder of the trial that is meant, and what is kept of it."""
    found = kept_of(path)
    trial = next(iter(found))
    if trial.name != path.name or not found[trial]:
        raise OptionError(f"{path}: expected the folder of one trial that is kept")
    return trial, found[trial]


def _task(config: dict[str, Any]) -> Task:
    path, overrides = (config.get("task") or {}).get("path"), config.get("overrides") or {}
    if not isinstance(path, str):
        raise OptionError("the trial's config.json names no task")
    ignored = bool(overrides.get("ignore_separate_verifier"))
    return read_task(Path(path), overrides=TaskOverrides(ignore_separate_verifier=ignored))


def _work(task: Task, trial: Path, wanted: str, multipliers: Multipliers) -> WorkPlan:
    steps = {one.name: number for number, one in enumerate(task.steps)}
    if wanted and wanted not in steps:
        known = ", ".join(steps) or "none: it is a single-step task"
        raise OptionError(f"the task has no step {wanted!r}; it has {known}")
    begun = [name for name in steps if (trial / "steps" / name / "verifier").is_dir()]
    name = wanted or (begun or [*steps, ""])[-1 if begun else 0]
    number = steps.get(name, 0)
    step = task.steps[number] if task.steps else None
    return plan_work(task, step, task_network(task).works[number], multipliers)


def _env_table(task: Task, work: WorkPlan) -> dict[str, str]:
    return dict(task.config.verifier_env(work.step.config if work.step else None))


def _new_folder(trial: Path) -> Path:
    number = 1
    while (trial / f"verifier-again-{number}").exists():
        number += 1
    folder = trial / f"verifier-again-{number}" / "verifier"
    folder.mkdir(parents=True)
    return folder
