"""Harbor tasks as first-class pytest items.

The public names are those of ``__all__``; everything else may move. They are
looked up when they are first used: the plugin loads in every pytest run on a
machine, and a run without tasks must not pay for docker or pydantic.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_harbor.agent.aio import AsyncEnvironment
    from pytest_harbor.agent.base import Agent, AgentContext
    from pytest_harbor.environment.base import Environment, ExecResult
    from pytest_harbor.errors import HarborError
    from pytest_harbor.result.trial import TrialResult
    from pytest_harbor.task.network import Endpoint, NetworkPolicy
    from pytest_harbor.task.reader import Task, read_task

__all__ = [
    "Agent",
    "AgentContext",
    "AsyncEnvironment",
    "Endpoint",
    "Environment",
    "ExecResult",
    "HarborError",
    "NetworkPolicy",
    "Task",
    "TrialResult",
    "read_task",
]

_HOMES = {
    "Agent": "pytest_harbor.agent.base",
    "AgentContext": "pytest_harbor.agent.base",
    "AsyncEnvironment": "pytest_harbor.agent.aio",
    "Endpoint": "pytest_harbor.task.network",
    "Environment": "pytest_harbor.environment.base",
    "ExecResult": "pytest_harbor.environment.base",
    "HarborError": "pytest_harbor.errors",
    "NetworkPolicy": "pytest_harbor.task.network",
    "Task": "pytest_harbor.task.reader",
    "TrialResult": "pytest_harbor.result.trial",
    "read_task": "pytest_harbor.task.reader",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pytest_harbor' has no attribute {name!r}")
