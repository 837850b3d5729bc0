"""By what means a container is held to its policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pytest_harbor.task.network import NetworkPolicy

Means = Literal["public", "none", "switched", "gateway"]
"""``public``: a network that is always there; ``none``: never one; ``switched``: one that the
container is taken from and put on again; ``gateway``: one that leads through a gateway."""


def means_for(policies: Sequence[NetworkPolicy]) -> Means:
    """The cheapest means that holds for all of ``policies``."""
    if all(policy.is_open for policy in policies):
        return "public"
    if all(policy.is_closed for policy in policies):
        return "none"
    if all(policy.is_open or policy.is_closed for policy in policies):
        return "switched"
    return "gateway"


def is_among(policy: NetworkPolicy, policies: Sequence[NetworkPolicy]) -> bool:
    """Whether one of ``policies`` lets the same through."""
    return any(policy.same_as(known) for known in policies)
