"""Which network policy holds in which phase (``format/environments-docker.md``, section 8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pytest_harbor.task.model import Step, Task
from pytest_harbor.task.network import Endpoint, NetworkPolicy
from pytest_harbor.task.network_combination import combined


@dataclass(frozen=True, slots=True)
class WorkNetwork:
    """The policies of one step, or of a single-step task.

    Attributes:
        agent: While the agent works.
        verifier: While the verifier grades.
        separate: The verifier grades in a box of its own, which has ``verifier`` from
            start to end.
    """

    agent: NetworkPolicy
    verifier: NetworkPolicy
    separate: bool = False


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """The policy of each phase of a trial.

    Attributes:
        environment: From the start to the agent's set-up.
        works: Of each step in order; one entry for a single-step task.
        run: What the run allows, with which the policies are combined already.
        asked: The policies before that; None: these.
    """

    environment: NetworkPolicy
    works: tuple[WorkNetwork, ...]
    run: NetworkPolicy = field(default_factory=NetworkPolicy)
    asked: NetworkPlan | None = None

    def everywhere(self, policy: NetworkPolicy) -> NetworkPlan:
        """The same phases, with one policy for all of them."""
        works = tuple(WorkNetwork(policy, policy, work.separate) for work in self.works)
        return NetworkPlan(policy, works)

    def within(self, run: NetworkPolicy) -> NetworkPlan:
        """Of each phase's policy only what the run allows, too."""
        if run == self.run:
            return self
        narrowed = partial(combined, second=run)
        works = tuple(
            replace(work, agent=narrowed(work.agent), verifier=narrowed(work.verifier))
            for work in self.works
        )
        return NetworkPlan(narrowed(self.environment), works, run, self.asked or self)

    def for_agent(self, endpoints: Iterable[Endpoint]) -> NetworkPlan:
        """The same, with an agent's endpoints open while it is set up and works."""
        more = tuple(endpoints)
        works = tuple(replace(work, agent=work.agent.with_endpoints(more)) for work in self.works)
        environment = self.environment.with_endpoints(more)
        return replace(self, environment=environment, works=works)

    def as_json(self) -> dict[str, Any]:
        """Phase to policy, for people and files; what the run adds to the task's, if anything."""
        shown = self._phases_as_json()
        if self.run.mode != "public":
            shown["run"] = in_words(self.run)
        if self.run.parts:
            shown["run_parts"] = dict(self.run.parts)
        if self.asked is not None and self.asked._phases_as_json() != self._phases_as_json():
            shown["asked"] = self.asked._phases_as_json()
        if self.run.denied:
            shown["denied"] = list(self.run.denied)
        if endpoints := self.endpoints:
            shown["endpoints"] = [str(endpoint) for endpoint in endpoints]
        return shown

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Everything that is let through in some phase whatever its policy says."""
        found = (endpoint for policy in self._policies() for endpoint in policy.endpoints)
        return tuple(dict.fromkeys(found))

    @property
    def is_open(self) -> bool:
        """Whether no phase is restricted, and the run asked for nothing."""
        return all(policy == NetworkPolicy() for policy in (self.run, *self._policies()))

    def of_agents_box(self) -> Iterator[NetworkPolicy]:
        """Every policy that the agent's box has at some time, in their order."""
        yield self.environment
        for work in self.works:
            yield work.agent
            if not work.separate:
                yield work.verifier

    def _policies(self) -> Iterator[NetworkPolicy]:
        yield self.environment
        for work in self.works:
            yield from (work.agent, work.verifier)

    def _phases_as_json(self) -> dict[str, Any]:
        works = [
            {"agent": in_words(work.agent), "verifier": in_words(work.verifier)}
            for work in self.works
        ]
        start = {"environment": in_words(self.environment)}
        return {**start, **works[0]} if len(works) == 1 else {**start, "steps": works}


def task_network(task: Task) -> NetworkPlan:
    """What a task asks for: a phase that says nothing takes its box's policy."""
    steps: tuple[Step | None, ...] = task.steps or (None,)
    return NetworkPlan(
        task.config.environment.network_policy, tuple(_work(task, step) for step in steps)
    )


def _work(task: Task, step: Step | None) -> WorkNetwork:
    config = task.config
    table = step.config if step else None
    agent = config.agent_policy(table)
    if task.verifier_mode(step) == "shared":
        return WorkNetwork(agent, config.verifier_policy(table))
    own = (table.verifier.network_policy if table else None) or config.verifier.network_policy
    box = task.verifier_box(step).config.network_policy
    return WorkNetwork(agent, own or box, separate=True)


def in_words(policy: NetworkPolicy) -> str:
    """A policy in one line."""
    return " ".join((policy.mode, *policy.hosts))
