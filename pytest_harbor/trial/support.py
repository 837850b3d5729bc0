"""What this version cannot run yet; such a task is skipped with the reason, never run in part."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_harbor.agent.base import Agent
from pytest_harbor.errors import UnsupportedError
from pytest_harbor.task.reader import Task


def require_supported(task: Task, agent: Agent) -> None:
    """Check a task before anything is built.

    Raises:
        UnsupportedError: Names everything that is missing.
    """
    missing = list(_missing(task, agent))
    if missing:
        raise UnsupportedError(f"this version does not run {'; nor '.join(missing)}")


def _missing(task: Task, agent: Agent) -> Iterator[str]:
    environment = task.config.environment
    if task.compose_file is not None:
        yield f"compose tasks (environment/{task.compose_file.name})"
    if environment.os != "linux":
        yield f"{environment.os} tasks ([environment].os)"
    if environment.tpu is not None:
        yield "tasks that need a TPU ([environment.tpu])"
    if agent.uses_task_tools and environment.mcp_servers:
        yield "MCP servers for this agent ([[environment.mcp_servers]])"
    if agent.uses_task_tools and environment.skills_dir:
        yield "skills for this agent ([environment].skills_dir)"
