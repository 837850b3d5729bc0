"""What this version cannot run yet; such a task is skipped with the reason, never run in part.

What depends on the engine is asked of it when the trial starts, for every box of the
trial and before the first is built: :meth:`Environment.check`.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_harbor.errors import OptionError, UnsupportedError
from pytest_harbor.task.config import EnvironmentConfig
from pytest_harbor.task.reader import Task


def require_supported(task: Task) -> None:
    """Check a task before anything is built.

    Raises:
        UnsupportedError: Names everything that is missing.
        OptionError: The run's overrides leave the task without an image.
    """
    missing = list(_missing(task))
    if missing:
        raise UnsupportedError(f"this version does not run {'; nor '.join(missing)}")
    _check_overrides(task)


def _missing(task: Task) -> Iterator[str]:
    for table, where in _boxes(task):
        if table.os != "linux":
            yield f"{table.os} tasks ({where}.os)"
        if table.tpu is not None:
            yield f"tasks that need a TPU ({where}.tpu: {table.tpu.type} {table.tpu.topology})"


def _boxes(task: Task) -> Iterator[tuple[EnvironmentConfig, str]]:
    """Every table that a box is made from, and how it is called."""
    config = task.config
    yield config.environment, "[environment]"
    if config.verifier.environment is not None:
        yield config.verifier.environment, "[verifier.environment]"
    for step in config.steps:
        if step.verifier.environment is not None:
            yield step.verifier.environment, f"[steps.verifier.environment] of {step.name!r}"


def _check_overrides(task: Task) -> None:
    would_be_built = task.has_dockerfile or task.has_apptainer_file
    has_image = bool(task.config.environment.docker_image)
    if task.overrides.ignore_dockerfile and would_be_built and not has_image:
        raise OptionError(
            "--harbor-ignore-dockerfile leaves the task without an image: name one with "
            "--harbor-image, or docker_image under [environment] in task.toml"
        )
