"""Whether a task's folder has what its ``task.toml`` needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from pytest_harbor.errors import Problem, TaskFormatError
from pytest_harbor.task import layout
from pytest_harbor.task.artifacts import MAIN_SERVICE
from pytest_harbor.task.config import StepConfig, TaskConfig
from pytest_harbor.task.finding import Finding, Location
from pytest_harbor.task.ignore import upload_filter
from pytest_harbor.task.links import LinkCheck
from pytest_harbor.task.model import Step, Task
from pytest_harbor.task.scripts import check_script

Report = Callable[[Problem], None]


def check_folder(task: Task, report: Report) -> None:
    """Report what is missing, misplaced or harmful in the task's folder."""
    _check_environment(task, report)
    _check_test_scripts(task, report)
    _check_solutions(task, report)
    _check_script_texts(task, report)
    ignore_files = check_links(task.path, report)
    _check_ignore_rules(task, ignore_files, report)


def check_links(folder: Path, report: Report) -> list[Path]:
    """Report links that leave the task; gives the ``.harborignore`` files met on the way."""
    check = LinkCheck(folder, report)
    for name in (layout.TESTS_FOLDER, layout.SOLUTION_FOLDER, layout.STEPS_FOLDER):
        check.walk(os.path.join(folder, name))
    return check.ignore_files


def _check_environment(task: Task, report: Report) -> None:
    image = task.config.environment.docker_image
    compose_file = task.compose_file
    if compose_file is not None and compose_file.name != layout.COMPOSE_FILE:
        message = f"used here, but Harbor reads only the name {layout.COMPOSE_FILE}; rename it"
        report(Problem(compose_file, message, severity="warning", code="compose-name"))
    if not (image or task.has_dockerfile or compose_file or task.has_apptainer_file):
        message = (
            f"no environment: expected {layout.DOCKERFILE}, {layout.COMPOSE_FILE} or "
            f"{layout.APPTAINER_FILE} here, or docker_image under [environment] in task.toml"
        )
        report(Problem(task.environment_dir, message, code="missing-file"))


def service_findings(task: Task) -> list[Finding]:
    """Fields that name a compose service of a task without a compose file."""
    if task.compose_file is not None:
        return []
    compose_file = f"{layout.ENVIRONMENT_FOLDER}/{layout.COMPOSE_FILE}"
    return [
        Finding(
            location,
            f"service {service!r} needs {compose_file}, which is not there; "
            "without it only main exists",
            "error",
            "invalid-field",
        )
        for location, service in _named_services(task.config)
    ]


def _named_services(config: TaskConfig) -> Iterator[tuple[Location, str]]:
    """Fields that name a compose service, and the service, but for ``main``."""
    yield from _services_of((), config)
    for index, step in enumerate(config.steps):
        yield from _services_of(("steps", index), step)


def _services_of(at: Location, table: TaskConfig | StepConfig) -> Iterator[tuple[Location, str]]:
    for index, artifact in enumerate(table.artifacts):
        if not artifact.is_in_main:
            yield (*at, "artifacts", index, "service"), str(artifact.service)
    for index, collect in enumerate(table.verifier.collect):
        if collect.service != MAIN_SERVICE:
            yield (*at, "verifier", "collect", index, "service"), collect.service


def _check_test_scripts(task: Task, report: Report) -> None:
    if not task.is_multi_step:
        is_bundled = task.verifier_mode() == "separate" and task.verifier_box().has_tests
        if task.test_script is None and not is_bundled:
            message = _no_test_script(task.verifier_os())
            report(Problem(task.tests_dir, message, code="missing-file"))
        return
    for step in task.steps:
        if task.verifier_mode(step) == "separate" and task.verifier_box(step).has_tests:
            _check_own_script_is_run(task, step, report)
        elif step.test_script is None:
            message = _no_test_script(task.verifier_os(step.config))
            message += ", nor one for all steps in tests/"
            report(Problem(step.tests_dir, message, code="missing-file"))


def _no_test_script(system: str) -> str:
    return f"no test script: expected {layout.TEST_SCRIPTS[system]} here"


def _check_own_script_is_run(task: Task, step: Step, report: Report) -> None:
    is_own = step.test_script is not None and step.test_script.parent == step.tests_dir
    if is_own and task.verifier_box(step).build_folder == task.tests_dir:
        message = (
            "is not run: the verifier's image of the whole task brings its own tests; "
            "add a Dockerfile beside it"
        )
        path = step.test_script or step.folder
        report(Problem(path, message, severity="warning", code="script-not-run"))


def _check_solutions(task: Task, report: Report) -> None:
    folders = [(os.path.join(task.path, layout.SOLUTION_FOLDER), task.solution_script)]
    folders += [(os.fspath(step.solution_dir), step.solution_script) for step in task.steps]
    for folder, script in folders:
        if script is None and os.path.isdir(folder):
            name = layout.SOLUTION_SCRIPTS[task.config.environment.os]
            message = f"no {name} here, so the oracle has nothing to run"
            report(Problem(Path(folder), message, severity="warning", code="no-solution"))


def _scripts(task: Task) -> list[Path]:
    """Every script that may be run by its path, each once."""
    scripts = [task.test_script, task.solution_script]
    if not task.steps:
        return list(filter(None, scripts))
    for step in task.steps:
        scripts += [step.test_script, step.solution_script]
    return list(filter(None, dict.fromkeys(scripts)))


def _check_script_texts(task: Task, report: Report) -> None:
    for script in _scripts(task):
        if str(script).endswith(".sh"):
            check_script(script, report)
    for step in task.steps:
        if step.setup_script is not None:
            check_script(step.setup_script, report, is_run=False)


def _check_ignore_rules(task: Task, ignore_files: list[Path], report: Report) -> None:
    in_use = [path for path in ignore_files if _upload_root(task, path) is not None]
    misplaced = [path for path in ignore_files if path not in in_use]
    outside = (
        layout.existing_file(task.path, layout.IGNORE_FILE),
        task.environment_listing.file(layout.IGNORE_FILE),
    )
    misplaced += filter(None, outside)
    for path in misplaced:
        message = "has no effect here: only in tests/ and solution/ of a task or a step"
        report(Problem(path, message, severity="warning", code="ignore-file"))
    for root in dict.fromkeys(filter(None, (_upload_root(task, path) for path in in_use))):
        _check_scripts_are_included(task, root, in_use, report)


def _upload_root(task: Task, path: Path) -> Path | None:
    """The uploaded folder to which a file belongs; None for a file that is not uploaded."""
    parts = path.relative_to(task.path).parts
    depth = 3 if parts[0] == layout.STEPS_FOLDER else 1
    if len(parts) <= depth or parts[depth - 1] not in (layout.TESTS_FOLDER, layout.SOLUTION_FOLDER):
        return None
    return task.path.joinpath(*parts[:depth])


def _check_scripts_are_included(
    task: Task, root: Path, ignore_files: list[Path], report: Report
) -> None:
    try:
        include = upload_filter(root)
        for path in ignore_files:
            if path.is_relative_to(root):
                include(PurePosixPath(path.parent.relative_to(root).as_posix()) / "any")
        for script in _scripts(task):
            if script.parent == root and not include(PurePosixPath(script.name)):
                place = root / layout.IGNORE_FILE
                report(Problem(place, f"leaves out {script.name}", code="ignore-file"))
    except TaskFormatError as error:
        for problem in error.problems:
            report(problem)
