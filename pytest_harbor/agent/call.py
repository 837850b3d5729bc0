"""Calling an agent's methods, which are plain or async."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pytest_harbor.agent.base import AgentContext
from pytest_harbor.environment.base import Environment


def call_agent(
    method: Callable[..., Any], environment: Environment, context: AgentContext, *first: Any
) -> None:
    """Call a method of an agent's; one that is async is driven to its end.

    Args:
        method: Takes ``first``, the environment and the context.
        environment: The phase's.
        context: The phase's.
        first: What comes before these.

    Raises:
        AgentTimeoutError: An async method outran the phase's limit, and was cancelled.
    """
    box: Any = environment
    if inspect.iscoroutinefunction(method):
        # Here and below: most agents are plain, and asyncio is long to load.
        from pytest_harbor.agent.aio import AsyncEnvironment

        box = AsyncEnvironment(environment)
    work = method(*first, box, context)
    if inspect.iscoroutine(work):
        from pytest_harbor.agent.aio import drive

        drive(work, context)
