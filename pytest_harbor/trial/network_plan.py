"""Which network policy holds in which phase (``format/environments-docker.md``, section 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_harbor.errors import UnsupportedError
from pytest_harbor.task.config import TaskConfig
from pytest_harbor.task.network import NetworkPolicy


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """The policy of each phase of a trial.

    Attributes:
        environment: From the start to the agent's set-up.
        agent: While the agent works.
        verifier: While the verifier grades.
    """

    environment: NetworkPolicy
    agent: NetworkPolicy
    verifier: NetworkPolicy

    @classmethod
    def everywhere(cls, policy: NetworkPolicy) -> NetworkPlan:
        """One policy for all phases."""
        return cls(policy, policy, policy)

    def as_json(self) -> dict[str, str]:
        """Phase to policy, for people and files."""
        return {
            "environment": _in_words(self.environment),
            "agent": _in_words(self.agent),
            "verifier": _in_words(self.verifier),
        }


def task_network(config: TaskConfig) -> NetworkPlan:
    """What a task asks for: a phase that says nothing takes the environment's policy."""
    return NetworkPlan(
        environment=config.environment.network_policy,
        agent=config.agent_policy(),
        verifier=config.verifier_policy(),
    )


def container_network(plan: NetworkPlan) -> Literal["public", "none"]:
    """The network of a container that keeps one policy from start to end.

    Raises:
        UnsupportedError: The plan needs a policy that changes or that names hosts. Such a
            trial is refused, never run in the open.
    """
    policies = (plan.environment, plan.agent, plan.verifier)
    if all(policy.is_open for policy in policies):
        return "public"
    if all(policy.is_closed for policy in policies):
        return "none"
    wanted = ", ".join(f"{phase}: {policy}" for phase, policy in plan.as_json().items())
    listed = any(not policy.is_open and not policy.is_closed for policy in policies)
    what = "an allowlist of hosts" if listed else "a network policy that changes by phase"
    raise UnsupportedError(f"this version cannot enforce {what} ({wanted})")


def _in_words(policy: NetworkPolicy) -> str:
    return " ".join((policy.mode, *policy.hosts))
