"""Which network policy holds in which phase (``format/environments-docker.md``, section 8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pytest_harbor.task.model import Step, Task
from pytest_harbor.task.network import NetworkPolicy


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
    """

    environment: NetworkPolicy
    works: tuple[WorkNetwork, ...]

    def everywhere(self, policy: NetworkPolicy) -> NetworkPlan:
        """The same phases, with one policy for all of them."""
        works = tuple(WorkNetwork(policy, policy, work.separate) for work in self.works)
        return NetworkPlan(policy, works)

    def as_json(self) -> dict[str, Any]:
        """Phase to policy, for people and files."""
        works = [
            {"agent": in_words(work.agent), "verifier": in_words(work.verifier)}
            for work in self.works
        ]
        start = {"environment": in_words(self.environment)}
        return {**start, **works[0]} if len(works) == 1 else {**start, "steps": works}

    def of_agents_box(self) -> Iterator[NetworkPolicy]:
        """Every policy that the agent's box has at some time."""
        yield self.environment
        for work in self.works:
            yield work.agent
            if not work.separate:
                yield work.verifier


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
