"""A folder on disk → :class:`Task`, or every problem that it has."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pytest_harbor.errors import Problem, TaskFormatError
from pytest_harbor.task import layout
from pytest_harbor.task.config import StepConfig, TaskConfig
from pytest_harbor.task.config_reader import read_config
from pytest_harbor.task.finding import Finding, field_path
from pytest_harbor.task.folder_checks import Report, check_folder, check_links, service_findings
from pytest_harbor.task.instruction import read_instruction
from pytest_harbor.task.model import Step, Task, VerifierBox, short_name
from pytest_harbor.task.overrides import TaskOverrides
from pytest_harbor.task.position import TomlPositions
from pytest_harbor.task.toml_file import check_toml_version, read_toml

__all__ = ["Step", "Task", "TaskOverrides", "VerifierBox", "read_task"]

MAX_PROBLEMS = 100
"""How many findings of one ``task.toml`` get a line and are shown."""


def read_task(
    folder: Path, *, strict: bool = False, overrides: TaskOverrides | None = None
) -> Task:
    """Read and check a task's folder; runs nothing of it.

    Args:
        folder: The folder that holds ``task.toml``.
        strict: Warnings count as errors.
        overrides: What the run wants otherwise than the task says.

    Raises:
        TaskFormatError: The task cannot be used; holds errors and warnings together.
    """
    absolute = os.path.abspath(folder)
    folder = folder if os.fspath(folder) == absolute else Path(absolute)
    problems: list[Problem] = []
    try:
        task = _read(folder, overrides or TaskOverrides(), problems)
    except TaskFormatError as error:
        problems += error.problems
        task = None
    if task is None or (problems and (strict or _has_error(problems))):
        raise TaskFormatError(problems)
    return replace(task, problems=tuple(problems)) if problems else task


def _read(folder: Path, overrides: TaskOverrides, problems: list[Problem]) -> Task | None:
    """The task, as far as it can be read; what is wrong goes to ``problems``."""
    path = folder / layout.CONFIG_FILE
    text, data = read_toml(path)
    config, findings = read_config(data)
    report = problems.append
    check_toml_version(path, text, report)
    if config is None:
        problems += _placed(findings, path, text)
        # What a folder needs depends on its configuration: only look at what does not.
        if not data.get("steps"):
            read_instruction(folder / layout.INSTRUCTION_FILE, report)
        check_links(folder, report)
        return None
    config = overrides.of_config(config, short_name(config, folder))
    task = _task(folder, config, overrides, report)
    problems += _placed(findings + service_findings(task), path, text)
    check_folder(task, report)
    return task


def _task(folder: Path, config: TaskConfig, overrides: TaskOverrides, report: Report) -> Task:
    if not config.is_multi_step:
        text = read_instruction(folder / layout.INSTRUCTION_FILE, report)
        return Task(folder, config, text, overrides=overrides)
    task = Task(folder, config, overrides=overrides)
    return replace(task, steps=tuple(_step(task, step, report) for step in config.steps))


def _step(task: Task, config: StepConfig, report: Report) -> Step:
    folder = task.path / layout.STEPS_FOLDER / config.name
    instruction = ""
    if os.path.isdir(folder):
        instruction = read_instruction(folder / layout.INSTRUCTION_FILE, report)
    else:
        message = f"missing folder of the step {config.name!r} that task.toml declares"
        report(Problem(folder, message, code="missing-file"))
    return Step(
        config,
        folder,
        instruction,
        _step_test_script(task, config, folder),
        _step_solution_script(task, folder),
    )


def _step_test_script(task: Task, config: StepConfig, folder: Path) -> Path | None:
    name = layout.TEST_SCRIPTS[task.verifier_os(config)]
    own = layout.existing_file(folder, layout.TESTS_FOLDER, name)
    return own or layout.existing_file(task.path, layout.TESTS_FOLDER, name)


def _step_solution_script(task: Task, folder: Path) -> Path | None:
    own = os.path.join(folder, layout.SOLUTION_FOLDER)
    if not os.path.isdir(own):
        return task.solution_script
    return layout.existing_file(own, layout.SOLUTION_SCRIPTS[task.config.environment.os])


def _placed(findings: list[Finding], path: Path, text: str) -> list[Problem]:
    """Findings with their lines: errors first, then as they stand in the file."""
    if not findings:
        return []
    findings.sort(key=lambda finding: finding.severity != "error")
    positions = TomlPositions(text)
    problems = [
        Problem(
            path,
            finding.message,
            field_path(finding.location),
            positions.line(finding.location),
            severity=finding.severity,
            code=finding.code,
        )
        for finding in findings[:MAX_PROBLEMS]
    ]
    problems.sort(key=lambda problem: (problem.severity != "error", problem.line or 0))
    if len(findings) > MAX_PROBLEMS:
        rest = f"and {len(findings) - MAX_PROBLEMS} problems more"
        problems.append(
            Problem(path, rest, severity=findings[MAX_PROBLEMS].severity, code="invalid-field")
        )
    return problems


def _has_error(problems: Iterable[Problem]) -> bool:
    return any(problem.severity == "error" for problem in problems)
