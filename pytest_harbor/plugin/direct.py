"""Tasks run from ordinary tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.agent.base import Agent
from pytest_harbor.plugin.job import Job
from pytest_harbor.plugin.trial_of_item import begin
from pytest_harbor.task.reader import Task, read_task
from pytest_harbor.trial.network_plan import NetworkPlan, task_network

if TYPE_CHECKING:
    from pytest_harbor.result.trial import TrialResult


class Harbor:
    """Value of the fixture ``harbor``."""

    def __init__(self, item: pytest.Item, job: Job) -> None:
        self._item = item
        self._job = job

    def run(
        self,
        task: str | os.PathLike[str] | Task,
        *,
        agent: Agent | str = "oracle",
        model: str | None = None,
        network: NetworkPlan | None = None,
        **agent_kwargs: Any,
    ) -> TrialResult:
        """Run one trial and give its result; the environment is gone afterwards.

        Args:
            task: The task, or its folder, relative to the root folder. The run's overrides,
                as ``--harbor-image``, hold for a folder; a task is taken as it is.
            agent: An agent, or its name as for ``--harbor-agent``.
            model: Model for an agent that is given by name.
            network: Policies of the phases; None: the task's.
            agent_kwargs: For the constructor of an agent that is given by name.

        Raises:
            TaskFormatError: The task's files cannot be used.
            UnsupportedError: This machine or version cannot run the task.
            EnvironmentFault: The environment broke; the trial has no result.
        """
        if not isinstance(task, Task):
            folder = self._item.config.rootpath / Path(task)
            task = read_task(folder, overrides=self._job.settings.overrides)
        worker = self._agent(agent, model, agent_kwargs)
        item_trial = begin(self._item, self._job, task, worker, network or task_network(task))
        verifier = self._item.ihook.pytest_harbor_make_verifier(config=self._item.config, task=task)
        environment = item_trial.trial.make_environment()
        try:
            item_trial.start(environment)
            return item_trial.run(environment, verifier)
        except BaseException as error:
            if item_trial.trial.result.category is None:
                item_trial.fail(error)
            raise
        finally:
            item_trial.stop()
            item_trial.trial.record.status.end()

    def _agent(self, agent: Agent | str, model: str | None, kwargs: dict[str, Any]) -> Agent:
        if isinstance(agent, Agent):
            return agent
        made: Agent = self._item.ihook.pytest_harbor_agent(
            config=self._item.config, name=agent, model=model, kwargs=kwargs
        )
        return made
