"""The hooks of this plugin, for plugins and for ``conftest.py`` files above the tasks.

All are called through the item's or the collector's own hook relay, so a
``conftest.py`` is heard for the tasks below its folder. The defaults are this
plugin's last implementations: whoever answers first wins where one answer is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_harbor.agent.base import Agent
    from pytest_harbor.environment.base import Environment, EnvironmentRequest
    from pytest_harbor.errors import Problem
    from pytest_harbor.result.trial import TrialResult
    from pytest_harbor.task.reader import Task
    from pytest_harbor.verifier.base import Verifier


@pytest.hookspec(firstresult=True)
def pytest_harbor_agent(
    config: pytest.Config, name: str, model: str | None, kwargs: Mapping[str, Any]
) -> Agent | None:
    """Make the agent of one trial; called once per trial, before anything is started.

    :param config: The pytest config.
    :param name: The agent's name as ``--harbor-agent`` gave it.
    :param model: The model's name; None: the agent's own.
    :param kwargs: What ``--harbor-agent-kwarg`` gave; do not change it.
    :returns: An agent, or None to let the next plugin answer.
    """


@pytest.hookspec(firstresult=True)
def pytest_harbor_make_environment(
    config: pytest.Config, item: pytest.Item, request: EnvironmentRequest
) -> Environment | None:
    """Make the environment of one trial; called before any phase.

    :param config: The pytest config.
    :param item: The trial's item.
    :param request: What the trial wants: the task, the network, resources, variables.
    :returns: An environment not yet started, or None to let the next plugin answer.
    """


@pytest.hookspec(firstresult=True)
def pytest_harbor_make_verifier(config: pytest.Config, task: Task) -> Verifier | None:
    """Make the verifier of one trial; called before any phase.

    :param config: The pytest config.
    :param task: The task as read; do not change it.
    :returns: A verifier, or None to let the next plugin answer.
    """


def pytest_harbor_task_collected(config: pytest.Config, task: Task) -> bool | str | None:
    """Judge a sound task that was just read; called once per task and process.

    Every process of a run must give the same answer.

    :param config: The pytest config.
    :param task: The task as read.
    :returns: A string to skip all of the task's trials with that reason, False to drop
        them, None to keep them. One False drops the task whatever others say; of
        several reasons all are shown.
    """


def pytest_harbor_check_task(config: pytest.Config, task: Task) -> Sequence[Problem] | None:
    """Check a task's files for more than the format asks; called once per task and process.

    Every process of a run must give the same answer.

    :param config: The pytest config.
    :param task: The task as read; do not change it.
    :returns: What is wrong: a problem of severity ``"error"`` keeps the task's trials
        from running, one of severity ``"warning"`` only under ``--harbor-strict``.
        None: nothing.
    """


def pytest_harbor_before_phase(
    item: pytest.Item, task: Task, phase: str, step: str, environment: Environment
) -> None:
    """Called before each phase of a trial.

    :param item: The trial's item.
    :param task: The task as read; do not change it.
    :param phase: Name of the phase: ``"environment"``, ``"agent_setup"``, ``"agent"`` or
        ``"verifier"``.
    :param step: Name of the step of a multi-step task, for its ``"agent"`` and
        ``"verifier"``; else empty.
    :param environment: The trial's environment; started but for ``"environment"``.
    """


def pytest_harbor_after_phase(
    item: pytest.Item,
    task: Task,
    phase: str,
    step: str,
    environment: Environment,
    error: BaseException | None,
) -> None:
    """Called after each phase of a trial that was begun, also where it failed.

    :param item: The trial's item.
    :param task: The task as read; do not change it.
    :param phase: Name of the phase, as for :func:`pytest_harbor_before_phase`.
    :param step: Name of the step, as there.
    :param environment: The trial's environment.
    :param error: What broke the phase; None where it ended by itself.
    """


def pytest_harbor_trial_result(item: pytest.Item, result: TrialResult) -> None:
    """Called when a trial's result is complete, before pytest's outcome is made of it.

    :param item: The trial's item.
    :param result: The result; changes to it are not written.
    """


def pytest_harbor_summary(
    config: pytest.Config, results: Sequence[Any]
) -> Sequence[tuple[str, Sequence[str]]] | None:
    """Add sections to the summary at the end of a run that had trials.

    With pytest-xdist only the controller calls it.

    :param config: The pytest config.
    :param results: One mapping a trial, in the order of their start: the properties of its
        reports (the interface page names them) and ``outcome``.
    :returns: Sections as title and lines. None: nothing.
    """
