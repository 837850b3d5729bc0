"""What a task gives its agent to work with: MCP servers, skills, a trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_harbor.agent.base import Agent
from pytest_harbor.agent.mcp import McpServerSpec, resolve_servers
from pytest_harbor.errors import UnsupportedError
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.task.model import Task
from pytest_harbor.trial.trajectory import task_trajectory


@dataclass(frozen=True, slots=True)
class AgentTools:
    """Tools of one trial's agent, settled.

    Attributes:
        mcp_servers: Servers, with their headers filled.
        skills_dir: Folder of skills in the environment.
        trajectory: Where the first step goes on from.
    """

    mcp_servers: tuple[McpServerSpec, ...] = ()
    skills_dir: str | None = None
    trajectory: Trajectory | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that nobody may see."""
        return tuple(secret for server in self.mcp_servers for secret in server.secrets)


def agent_tools(
    task: Task, agent: Agent, agent_env: Mapping[str, str], host: Mapping[str, str]
) -> AgentTools:
    """The tools that ``agent`` gets; none for one that works without, as the oracle.

    Raises:
        UnsupportedError: The task has tools that the agent cannot use.
        HarborError: A header's variable is missing, or no header's value; or there is a
            trajectory that the agent cannot load, or that is none.
    """
    if not agent.uses_task_tools:
        return AgentTools()
    config = task.config.environment
    lacking = []
    if config.mcp_servers and not agent.supports_mcp:
        lacking.append("MCP servers ([[environment.mcp_servers]])")
    if config.skills_dir and not agent.supports_skills:
        lacking.append("skills ([environment].skills_dir)")
    if lacking:
        name = agent.name or type(agent).__name__
        raise UnsupportedError(
            f"the task brings {' and '.join(lacking)}, which agent {name} cannot use"
        )
    servers = resolve_servers(config.mcp_servers, agent_env, host)
    return AgentTools(servers, config.skills_dir, task_trajectory(task, agent))
