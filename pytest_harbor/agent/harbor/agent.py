"""One of Harbor's agents as an agent of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from harbor.agents.installed.base import BaseInstalledAgent
from harbor.agents.installed.base import NonZeroAgentExitCodeError as HarborExitCodeError
from harbor.models.agent.context import AgentContext as HarborContext
from harbor.models.task.config import MCPServerConfig

from pytest_harbor.agent.aio import AsyncEnvironment
from pytest_harbor.agent.base import Agent, AgentContext
from pytest_harbor.agent.faults import is_unable_name, named_fault
from pytest_harbor.agent.harbor.connection import connection_of
from pytest_harbor.agent.harbor.environment import HarborEnvironment
from pytest_harbor.agent.harbor.logs import (
    RUN_LOG,
    SETUP_LOG,
    TRAJECTORY_LOG,
    kept_logs,
    messages_in,
)
from pytest_harbor.agent.mcp import config_table, header_variables
from pytest_harbor.errors import AgentFault, NonZeroAgentExitCodeError, OptionError
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.result.trajectory_reader import read_trajectory
from pytest_harbor.result.work import USAGE_COUNTS
from pytest_harbor.task.layout import TRAJECTORY_FILE
from pytest_harbor.task.model import Task

logger = logging.getLogger("harbor.agent")
logger.setLevel(logging.DEBUG)  # as Harbor's own


class HarborAgent(Agent):
    """Lets a subclass of Harbor's ``BaseAgent`` work, and tells what it told.

    Its own code runs in this process. An agent that Harbor installs calls its model from
    inside the environment, any other from here.
    """

    def __init__(
        self, kind: Any, *, name: str, model_name: str | None, kwargs: Mapping[str, Any]
    ) -> None:
        super().__init__(model_name=model_name)
        self.name = name
        self.setup_timeout_sec = kind.DEFAULT_SETUP_TIMEOUT_SEC
        self.supports_mcp = kind.capabilities.mcp_servers
        self.supports_skills = kind.capabilities.skills
        self._is_installed = issubclass(kind, BaseInstalledAgent)
        self.calls_model_from = "environment" if self._is_installed else "host"
        self._kind = kind
        self._kwargs = dict(kwargs)
        self._connection = connection_of(name, kind, model_name, kwargs)
        if self._connection is not None:
            self.model_wires = (self._connection.wire,)
            own = [self._kwargs.pop(key, None) for key in ("base_url", "api_base")]
            self.base_url = next(filter(None, own), None)
        self._check_options()
        if kind.capabilities.load_atif_trajectory:
            self.load_atif_trajectory = self._load_atif_trajectory
        self._agent: Any = None
        self._box: HarborEnvironment | None = None
        self._context: AgentContext | None = None
        self._told = HarborContext()
        self._goes_on = False

    def _check_options(self) -> None:
        try:
            self._kind.parse_options(self._kwargs)
        except ValueError as error:
            raise OptionError(f"--harbor-agent={self.name}: {error}") from None

    def check(self, task: Task) -> None:
        """See that there is a model for an agent that calls one from here."""
        spec = self._kind.MODEL_CONNECTION
        if spec is not None and not self._is_installed and not self.model_name:
            raise OptionError(f"agent {self.name} needs a model: --harbor-model=PROVIDER/NAME")

    async def setup(self, environment: AsyncEnvironment, context: AgentContext) -> None:
        """Make Harbor's agent, and let it set itself up."""
        self._box = HarborEnvironment(context)
        with self._key_at_hand(context), messages_in(context, SETUP_LOG):
            self._agent = self._made(context)
            with self._phase(environment, context) as box:
                await self._agent.setup(box)
            self.version = self._agent.version() or self.version

    async def run(
        self, instruction: str, environment: AsyncEnvironment, context: AgentContext
    ) -> None:
        """Let Harbor's agent work."""
        agent = self._agent
        agent.logs_dir = context.logs_dir
        told = self._told = HarborContext()
        work = agent.load if self._goes_on else agent.run
        self._goes_on = False
        with (
            self._key_at_hand(context),
            messages_in(context, RUN_LOG),
            self._phase(environment, context) as box,
        ):
            if agent.capabilities.native_web_tools:
                await agent.set_web_tools_disabled(not context.network_is_public, box)
            try:
                await work(instruction=instruction, environment=box, context=told)
            finally:
                _take_over(told, context)

    async def _load_atif_trajectory(
        self, trajectory: Trajectory, environment: AsyncEnvironment, context: AgentContext
    ) -> None:
        """Have the next :meth:`run` go on from the task's trajectory."""
        self._agent.load_trajectory = context.task.path / TRAJECTORY_FILE
        self._goes_on = True

    def read_trajectory(self, logs_dir: Path) -> Trajectory | None:
        """Have Harbor's agent make it of the logs that came home, as most that it installs do."""
        context = self._context
        if context is None:
            return None
        log = messages_in(context, TRAJECTORY_LOG)
        with self._key_at_hand(context), kept_logs(context), log:
            self._agent.populate_context_post_run(self._told)
        path = logs_dir / TRAJECTORY_FILE
        return read_trajectory(path) if path.is_file() and not path.is_symlink() else None

    def _made(self, context: AgentContext) -> Any:
        arguments: dict[str, Any] = dict(self._kwargs)
        if context.mcp_servers:
            arguments["mcp_servers"] = _mcp_servers(context)
        if context.skills_dir:
            arguments["skills_dir"] = context.skills_dir
        if self._connection is not None and context.model is not None:
            arguments |= self._connection.arguments(context.model)
        agent = self._kind(
            logs_dir=context.logs_dir,
            model_name=self.model_name,
            logger=logger,
            extra_env={**context.env, **header_variables(context.mcp_servers)},
            **arguments,
        )
        agent.session_id = context.trajectory.session_id
        return agent

    @contextmanager
    def _key_at_hand(self, context: AgentContext) -> Iterator[None]:
        with ExitStack() as stack:
            if self._connection is not None and context.model is not None:
                stack.enter_context(self._connection.key_at_hand(context.model))
            yield

    @contextmanager
    def _phase(
        self, environment: AsyncEnvironment, context: AgentContext
    ) -> Iterator[HarborEnvironment]:
        assert self._box is not None
        self._context = context
        # The variables of an agent on this machine are not for the commands that it gives.
        env = self._agent.extra_env if self._is_installed else context.env
        with kept_logs(context), self._box.phase(environment, context, env):
            try:
                yield self._box
            except HarborExitCodeError as error:
                raise _named(error, is_claimed=self._is_installed) from error


def _named(error: Exception, *, is_claimed: bool) -> AgentFault:
    """The fault that an exception of Harbor's stands for.

    Args:
        error: The exception.
        is_claimed: Harbor read it from what a command in the environment printed.
    """
    name = type(error).__name__
    if not is_unable_name(name):
        return NonZeroAgentExitCodeError(str(error))
    fault = named_fault(name, f"the agent could not work, which is not its skill: {error}")
    fault.is_claimed = is_claimed
    return fault


def _take_over(told: HarborContext, context: AgentContext) -> None:
    """What the agent told so far, for the trial's result."""
    known = told.model_dump(mode="json", exclude_none=True, fallback=str)
    context.metadata.update(known.get("metadata", {}))
    for name in (*USAGE_COUNTS, "model_usage", "rollout_details"):
        if name in known:
            setattr(context, name, known[name])


def _mcp_servers(context: AgentContext) -> list[Any]:
    """Headers are references to variables: Harbor takes no value that may be a secret."""
    table = config_table(context.mcp_servers)
    return [
        MCPServerConfig(
            name=server.name,
            transport=server.transport,
            url=server.url,
            command=server.command,
            args=list(server.args),
            headers=table[server.name].get("headers", {}),
        )
        for server in context.mcp_servers
    ]
