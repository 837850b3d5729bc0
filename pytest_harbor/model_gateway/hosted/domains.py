"""An allowlist as a domain filter of a provider's own tool."""

from __future__ import annotations

import re
from typing import Any

from pytest_harbor.model_gateway.hosted.base import Restriction
from pytest_harbor.task.network import NetworkPolicy

_PLAIN_DOMAIN = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?:/[A-Za-z0-9._~*/-]*)?")


def filter_domains(policy: NetworkPolicy) -> list[str]:
    """The domains of a policy that a provider's filter says exactly.

    Such a filter lets the domain's subdomains through as well, so a domain is said
    exactly only where the allowlist holds both ``example.com`` and ``*.example.com``.
    """
    if policy.mode != "allowlist" or policy.denied:
        return []
    hosts = frozenset(policy.hosts)
    return [host for host in policy.hosts if f"*.{host}" in hosts]


def narrowed_domains(restriction: Restriction, asked: Any, blocked: Any) -> list[str]:
    """The domains that a tool may keep; none: it has to go.

    Args:
        restriction: The policy.
        asked: The domains that the client's own filter allows; None: no such filter.
        blocked: Those that it blocks. Filters know one kind at a time, so a tool with
            blocked domains cannot be narrowed.
    """
    if not restriction.filters_hold or blocked:
        return []
    allowed = filter_domains(restriction.policy)
    if asked is None:
        return allowed
    if not isinstance(asked, list):
        return []
    return [one for one in asked if isinstance(one, str) and _is_within(one, allowed)]


def _is_within(domain: str, allowed: list[str]) -> bool:
    # Nothing that one reader takes for the end of a host's name and another does not.
    if not _PLAIN_DOMAIN.fullmatch(domain):
        return False
    host = domain.partition("/")[0].lower()
    return any(host == one or host.endswith("." + one) for one in allowed)
