"""The fixtures of a trial: one seam each.

A trial's item asks for ``harbor_trial``, which asks for all the others. Override any of
them in a ``conftest.py`` above the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin.job import Job, job
from pytest_harbor.plugin.option_table import COMMAND_AGENT
from pytest_harbor.plugin.options import settings

if TYPE_CHECKING:
    from pytest_harbor.agent.base import Agent
    from pytest_harbor.environment.base import Environment
    from pytest_harbor.plugin.direct import Harbor
    from pytest_harbor.plugin.trial_of_item import ItemTrial
    from pytest_harbor.result.trial import TrialResult
    from pytest_harbor.task.reader import Task
    from pytest_harbor.trial.network_plan import NetworkPlan
    from pytest_harbor.verifier.base import Verifier


@pytest.fixture(scope="session")
def harbor_job(pytestconfig: pytest.Config) -> Job:
    """The job of this run: its folder, its id, its settings."""
    return job(pytestconfig)


@pytest.fixture
def harbor_task(request: pytest.FixtureRequest) -> Task:
    """The task of this item, as read; do not change it."""
    task: Task | None = getattr(request.node, "task", None)
    if task is None:
        pytest.fail(
            f"{request.node.nodeid} is no Harbor task; the fixture `harbor` runs tasks from"
            " ordinary tests",
            pytrace=False,
        )
    return task


@pytest.fixture
def harbor_agent(request: pytest.FixtureRequest, harbor_task: Task) -> Agent:
    """The agent of this item. Override it to hand in an agent of your own."""
    if settings(request.config).check:
        from pytest_harbor.plugin.check_items import probe_agent

        if (probe := probe_agent(request.node)) is not None:
            return probe
    variant = request.node.variant
    kwargs: dict[str, Any] = dict(settings(request.config).agent_kwargs)
    if variant.agent == COMMAND_AGENT:
        kwargs = {"command": settings(request.config).agent_command}
    agent: Agent = request.node.ihook.pytest_harbor_agent(
        config=request.config, name=variant.agent, model=variant.model, kwargs=kwargs
    )
    return agent


@pytest.fixture
def harbor_network_policy(harbor_task: Task, harbor_job: Job) -> NetworkPlan:
    """The policy of each phase. Override it to tighten or open a task.

    An override may give a plan, or a single policy or mode for all phases. What the run does
    not allow (``--harbor-network``) no override opens.
    """
    from pytest_harbor.trial.network_plan import task_network

    return task_network(harbor_task).within(harbor_job.options.network)


@pytest.fixture
def harbor_verifier(request: pytest.FixtureRequest, harbor_task: Task) -> Verifier:
    """The verifier of this item: the task's own test script."""
    verifier: Verifier = request.node.ihook.pytest_harbor_make_verifier(
        config=request.config, task=harbor_task
    )
    return verifier


@pytest.fixture
def _harbor_item_trial(
    request: pytest.FixtureRequest,
    harbor_job: Job,
    harbor_task: Task,
    harbor_agent: Agent,
    harbor_network_policy: NetworkPlan,
) -> Iterator[ItemTrial]:
    """The trial of this item, planned and not yet started."""
    from pytest_harbor.plugin.trial_of_item import begin

    begun = begin(request.node, harbor_job, harbor_task, harbor_agent, harbor_network_policy)
    yield begun
    begun.trial.record.status.end()
    begun.stop()


@pytest.fixture
def harbor_environment(_harbor_item_trial: ItemTrial) -> Environment:
    """The started environment of this item; removed after the test.

    Override it to prepare the environment before the agent, or to bring another.
    """
    environment = _harbor_item_trial.trial.make_environment()
    # The trial removes it, at its end: at pytest's debugger people look at what did not start.
    _harbor_item_trial.start(environment)
    return environment


@pytest.fixture
def harbor_trial(
    _harbor_item_trial: ItemTrial,
    harbor_environment: Environment,
    harbor_verifier: Verifier,
) -> TrialResult:
    """Run the trial; its result."""
    from pytest_harbor.plugin.outcomes import check_set_up

    result = _harbor_item_trial.run(harbor_environment, harbor_verifier)
    check_set_up(_harbor_item_trial.item, result)
    return result


@pytest.fixture
def harbor_regraded(request: pytest.FixtureRequest) -> Iterator[TrialResult]:
    """Grade again what an earlier trial of this item left (``--harbor-regrade``); its result."""
    from pytest_harbor.plugin.regrade import grade_again

    yield from grade_again(request)


@pytest.fixture
def harbor(request: pytest.FixtureRequest, harbor_job: Job) -> Harbor:
    """Run tasks from ordinary tests: ``harbor.run("tasks/hello", agent=MyAgent())``."""
    from pytest_harbor.plugin import engine
    from pytest_harbor.plugin.direct import Harbor

    engine.prepare(request.config)
    return Harbor(request.node, harbor_job)
