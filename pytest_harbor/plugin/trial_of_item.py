"""A trial and the item that it belongs to: hooks told, properties set, environment kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from pytest_harbor.environment.base import Environment, EnvironmentRequest
from pytest_harbor.errors import EnvironmentFault, HarborError, OptionError
from pytest_harbor.plugin.engine import is_trial_id
from pytest_harbor.plugin.job import Job, job_record
from pytest_harbor.plugin.retries import wait_for
from pytest_harbor.task.network import NetworkMode, NetworkPolicy
from pytest_harbor.trial.identity import ITEM_LABEL
from pytest_harbor.trial.network_plan import NetworkPlan, task_network
from pytest_harbor.trial.plan import TrialPlan, plan_trial
from pytest_harbor.trial.record import TrialRecord
from pytest_harbor.trial.run import Trial

if TYPE_CHECKING:
    from pytest_harbor.agent.base import Agent
    from pytest_harbor.result.trial import TrialResult
    from pytest_harbor.task.reader import Task
    from pytest_harbor.verifier.base import Verifier

ITEM_TRIAL = pytest.StashKey["ItemTrial"]()
"""The trial of an item, from the moment that it has a folder."""

_OUR_PROPERTIES = pytest.StashKey[set[str]]()


@dataclass(slots=True)
class ItemTrial:
    """One trial on behalf of one item.

    Attributes:
        item: The item; an ordinary test's too.
        job: The run's job.
        trial: The trial itself.
        environments: Everything that was made for the trial, in order.
        kept: How to enter and remove the environment, where it is kept.
        verifier: Who grades; None: the trial has not come that far.
    """

    item: pytest.Item
    job: Job
    trial: Trial
    environments: list[Environment]
    kept: str = ""
    verifier: Verifier | None = None

    def start(self, environment: Environment) -> None:
        """Start the environment; one that does not start is settled while it can be kept."""
        try:
            self.trial.start(environment)
        except HarborError as error:
            self.fail(error)
            raise

    def run(self, environment: Environment, verifier: Verifier) -> TrialResult:
        """Run the phases after the start; settle what the item reports.

        A box that was tampered with until it broke is the agent's failure, no error.
        """
        self.verifier = verifier
        try:
            result = self.trial.run(environment, verifier)
        except EnvironmentFault as error:
            broken = self.fail(error)
            if not broken.evaded:
                raise
            return broken
        self.settled(result)
        return result

    def fail(self, error: BaseException) -> TrialResult:
        """The trial was cut off."""
        result = self.trial.fail(error)
        self.settled(result)
        return result

    def settled(self, result: TrialResult) -> None:
        """The trial came to an end: what the item reports, and who is told."""
        self._keep(result)
        if result.passed and self.trial.plan.options.saves_files == "failed":
            from pytest_harbor.trial.saved import drop_saved

            drop_saved(result.trial_dir)
        kept = [("kept", self.kept)] if self.kept else []
        properties = [*result.properties(), *kept]
        set_properties(self.item, properties)
        if is_trial_id(self.item.nodeid) and not self.job.settings.check:
            from pytest_harbor.plugin.outcomes import told

            self.trial.record.write_outcome(properties, *told(self.item, result))
        self.item.ihook.pytest_harbor_trial_result(item=self.item, result=result)

    def _keep(self, result: TrialResult) -> None:
        wanted = self.job.settings.keep
        if wanted != "all" and not (wanted == "failed" and not result.passed):
            return
        if wait_for(self.item) is not None:
            return  # a try in a fresh one follows
        from pytest_harbor.environment.kept import AGENTS, VERIFIERS
        from pytest_harbor.plugin.keep import keep

        held: Sequence[tuple[str, Environment]] | None = getattr(self.trial, "held", None)
        if held is None:
            held = [(VERIFIERS if n else AGENTS, box) for n, box in enumerate(self.environments)]
        self.kept = keep(self.item, self.trial.plan, result, held, self.verifier)

    def stop(self) -> None:
        """Remove every environment that was made, unless it is kept."""
        with ExitStack() as stack:  # one that fails keeps no other from being stopped
            for environment in self.environments:
                stack.callback(environment.stop)


class _HookObserver:
    """Tells the item's hooks of each phase."""

    def __init__(self, item: pytest.Item, task: Task) -> None:
        self._item = item
        self._task = task

    def before_phase(self, phase: str, step: str, environment: Environment) -> None:
        self._item.ihook.pytest_harbor_before_phase(
            item=self._item, task=self._task, phase=phase, step=step, environment=environment
        )

    def after_phase(
        self, phase: str, step: str, environment: Environment, error: BaseException | None
    ) -> None:
        self._item.ihook.pytest_harbor_after_phase(
            item=self._item,
            task=self._task,
            phase=phase,
            step=step,
            environment=environment,
            error=error,
        )


def begin(
    item: pytest.Item,
    job: Job,
    task: Task,
    agent: Agent,
    policy: NetworkPlan | NetworkPolicy | str,
    kind: type[Trial] = Trial,
) -> ItemTrial:
    """Plan a trial and make its folder.

    Raises:
        UnsupportedError: It cannot run here; nothing was written.
        HarborError: Something must be mended first; nothing was written.
    """
    variant = getattr(item, "variant", None)
    plan = plan_trial(
        task,
        agent,
        _as_plan(policy, task),
        job.options,
        agent_name=variant.agent if variant else agent.name,
        model=variant.model if variant else agent.model_name,
        attempt=variant.attempt if variant else 1,
    )
    return _recorded(item, job, plan, kind)


def _recorded(item: pytest.Item, job: Job, plan: TrialPlan, kind: type[Trial]) -> ItemTrial:
    record = TrialRecord(job.path, plan.task.short_name, plan.redactor)
    _begin_job(item)
    environments: list[Environment] = []

    def make_environment(request: EnvironmentRequest) -> Environment:
        environment: Environment = item.ihook.pytest_harbor_make_environment(
            config=item.config, item=item, request=request
        )
        environments.append(environment)
        return environment

    record.status.begin(item=str(item.nodeid), run=job.run_id)
    labels = {"pytest-harbor.task": plan.task.name, ITEM_LABEL: str(item.nodeid)}
    observer = _HookObserver(item, plan.task)
    trial = kind(plan, record, observer, make_environment, labels)
    item.stash[ITEM_TRIAL] = ItemTrial(item, job, trial, environments)
    return item.stash[ITEM_TRIAL]


def _begin_job(item: pytest.Item) -> None:
    if is_trial_id(item.nodeid) and not (record := job_record(item.config)).is_begun:
        record.begin(sum(is_trial_id(each.nodeid) for each in item.session.items))


def _as_plan(policy: NetworkPlan | NetworkPolicy | str, task: Task) -> NetworkPlan:
    if isinstance(policy, NetworkPlan):
        return policy
    if isinstance(policy, str) and policy in ("public", "no-network"):
        policy = NetworkPolicy(cast("NetworkMode", policy))
    if isinstance(policy, NetworkPolicy):
        return task_network(task).everywhere(policy)
    raise OptionError(
        f"the fixture harbor_network_policy gave {policy!r}; accepted are a NetworkPlan, a"
        " NetworkPolicy, 'public' and 'no-network'"
    )


def set_properties(item: pytest.Item, properties: list[tuple[str, str | int | float]]) -> None:
    """Set the properties of the item's reports in place of those of an earlier trial."""
    earlier = item.stash.get(_OUR_PROPERTIES, set[str]())
    names = {name for name, _ in properties}
    _drop_properties(item, earlier | names)
    item.user_properties.extend(properties)
    item.stash[_OUR_PROPERTIES] = names


def forget(item: pytest.Item) -> None:
    """Begin anew: an item that is run again must not report what its last run said."""
    if ITEM_TRIAL in item.stash:
        del item.stash[ITEM_TRIAL]
    _drop_properties(item, item.stash.get(_OUR_PROPERTIES, set()))


def _drop_properties(item: pytest.Item, names: set[str]) -> None:
    item.user_properties[:] = [pair for pair in item.user_properties if pair[0] not in names]
