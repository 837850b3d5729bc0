"""What an agent is: the side of a trial that works on the task.

An agent runs on this machine and drives the environment from outside. Name your
own by import path (``--harbor-agent=package.module:Class``) or by an entry point
in the group ``pytest_harbor.agents``.
"""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from pytest_harbor.agent.model_route import ModelRoute
from pytest_harbor.result.trajectory_builder import TrajectoryBuilder

if TYPE_CHECKING:
    from mcp import ClientSession

    from pytest_harbor.agent.aio import AsyncEnvironment
    from pytest_harbor.agent.mcp import McpServerSpec
    from pytest_harbor.agent.mcp_client import McpConnection
    from pytest_harbor.environment.base import Environment, ImageLayer
    from pytest_harbor.result.trajectory import Trajectory
    from pytest_harbor.task.model import Step, Task
    from pytest_harbor.task.network import Endpoint


@dataclass(slots=True)
class AgentContext:
    """What an agent is told of its trial, and what it tells of its work.

    The agent fills the counters as it goes, so that a time-out keeps them
    (``format/agents.md``, section 6).

    Attributes:
        task: The task as read; the oracle needs its files. Do not change it.
        step: The step that is worked on; None in a single-step task, and in ``setup``.
        timeout_sec: Seconds that the agent phase may take; None: no limit.
        user: User to run as in the environment; None: the image's.
        env: Variables for the agent's commands; values may be secret.
        logs_dir: Folder on this machine for the agent's own logs.
        log: Opens a log in ``logs_dir`` for writing; secrets are taken out on the way.
        exit_code: Status of the agent's command, where it has one.
        n_input_tokens: Tokens read, cached ones included.
        n_cache_tokens: The cached part of them.
        n_output_tokens: Tokens written.
        cost_usd: Cost in US dollars.
        model_usage: Model to its counts by the names above, where several models worked.
        metadata: Anything else; plain JSON values.
        rollout_details: Token ids and log probabilities as Harbor writes them, where they
            were collected; plain JSON values.
        mcp_servers: The task's MCP servers, each name once, headers filled. They run, or
            are reached, inside the environment; an agent on this machine talks to them
            through :meth:`connect_mcp`.
        skills_dir: Folder of the task's skills in the environment, as the task says it;
            None: it brings none.
        trajectory: Takes the agent's steps as they happen; written to
            ``logs_dir/trajectory.json`` when the phase ends, however it ends. Counts that the
            agent leaves empty are filled from it.
        model: The way to the model, as seen from where the agent calls it, for agents with
            :attr:`Agent.model_wires`; None for all others.
        network_is_public: Whether the network lets everything through while the agent works.
        is_ended: The agent is to stop at once: a limit of the run's on its model's calls is
            reached. Async agents are cancelled then.
    """

    task: Task
    timeout_sec: float | None
    user: str | int | None
    env: Mapping[str, str]
    logs_dir: Path
    log: Any
    exit_code: int | None = None
    n_input_tokens: int | None = None
    n_cache_tokens: int | None = None
    n_output_tokens: int | None = None
    cost_usd: float | None = None
    model_usage: dict[str, dict[str, Any]] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    step: Step | None = None
    mcp_servers: tuple[McpServerSpec, ...] = ()
    skills_dir: str | None = None
    trajectory: TrajectoryBuilder = field(default_factory=TrajectoryBuilder)
    model: ModelRoute | None = None
    network_is_public: bool = True
    rollout_details: list[dict[str, Any]] | None = None
    is_ended: bool = field(default=False, init=False)
    _enders: list[Callable[[], object]] = field(default_factory=list, init=False, repr=False)

    def end(self) -> None:
        """Make the agent stop; the trial calls this, from any thread."""
        self.is_ended = True
        for ender in tuple(self._enders):
            ender()

    @contextmanager
    def ended_by(self, ender: Callable[[], object]) -> Iterator[None]:
        """Have ``ender`` called by :meth:`end`, from another thread."""
        self._enders.append(ender)
        try:
            if self.is_ended:
                ender()
            yield
        finally:
            self._enders.remove(ender)

    def open_log(self, name: str) -> BinaryIO:
        """Open ``logs_dir/name`` for writing; the caller closes it."""
        return self.log(name)  # type: ignore[no-any-return]

    def connect_mcp(self, environment: Environment, name: str) -> McpConnection:
        """Start one of :attr:`mcp_servers` in the environment and talk to it from here.

        Close the connection, or use it in a ``with``; at the latest it ends with the phase.
        Standard error of the server goes to a log, ``mcp-NAME.txt``. Needs the extra
        ``mcp``. Async agents have :meth:`mcp_session`.

        Raises:
            KeyError: The task has no such server.
            UnsupportedError: It is not a ``stdio`` server.
            McpServerError: It does not answer.
        """
        from pytest_harbor.agent.mcp_client import McpConnection

        return McpConnection(environment, self._mcp_server(name), lambda: self._mcp_log(name))

    def mcp_session(
        self, environment: Environment | AsyncEnvironment, name: str
    ) -> AbstractAsyncContextManager[ClientSession]:
        """The same as an async context manager of the SDK's own session, initialized."""
        from pytest_harbor.agent.mcp_client import open_session

        # Told apart by what it has: the module of the other is this one's guest.
        box = getattr(environment, "blocking", None) or cast("Environment", environment)
        return open_session(box, self._mcp_server(name), lambda: self._mcp_log(name))

    def _mcp_server(self, name: str) -> McpServerSpec:
        servers = {server.name: server for server in self.mcp_servers}
        if name not in servers:
            raise KeyError(f"no MCP server {name!r}; known: {', '.join(servers) or 'none'}")
        return servers[name]

    def _mcp_log(self, name: str) -> BinaryIO:
        stem = "mcp-" + re.sub(r"[^\w.-]", "-", name)
        tails = itertools.chain([""], map("-{}".format, itertools.count(2)))
        names = (f"{stem}{tail}.txt" for tail in tails)
        return self.open_log(next(one for one in names if not (self.logs_dir / one).exists()))


class Agent(ABC):
    """Base of all agents.

    :meth:`setup` and :meth:`run` may be ``async def``, each for itself: they are given an
    :class:`~pytest_harbor.agent.aio.AsyncEnvironment` then, whose methods are awaited, and
    are cancelled at the phase's limit.

    The constructor gets the values of ``--harbor-agent-kwarg`` as keyword arguments,
    and ``model_name`` where ``--harbor-model`` was given.

    An agent with a method ``load_atif_trajectory(trajectory, environment, context)`` can go on
    from the ``trajectory.json`` of a task; it is called before :meth:`run` of the first step.
    """

    name: str = ""
    version: str = "unknown"
    setup_timeout_sec: float = 360.0
    """Limit of :meth:`setup`, before multipliers (``format/trial-lifecycle.md``, section 4)."""
    keeps_time: bool = False
    """The agent gives ``context.timeout_sec`` to its one command. The others are watched:
    at the limit their commands are killed and the environment answers them no more."""
    endpoints: tuple[Endpoint, ...] = ()
    """Servers that stay reachable while this agent is set up and works, whatever the policy
    says: its model's API, where it runs inside the environment. They stand in the result."""
    model_wires: tuple[str, ...] = ()
    """Protocols by which the agent calls its model: ``anthropic``, ``openai``, ``gemini``. With
    any, it is given a way to its model, ``context.model``, which leads through the model
    gateway unless the run says otherwise."""
    calls_model_from: Literal["environment", "host"] = "environment"
    """Where the agent's calls come from. From ``host``, this process, the environment needs no
    way to the model, and gets none."""
    base_url: str | None = None
    """Where the model's provider is, in place of its own address; of agents with
    :attr:`model_wires`."""
    uses_task_tools: bool = True
    """False: the task's MCP servers and skills mean nothing to this agent."""
    supports_mcp: bool = True
    """False: tasks that bring MCP servers are skipped, before anything is built."""
    supports_skills: bool = True
    """False: tasks that bring skills are skipped, before anything is built."""

    def __init__(self, *, model_name: str | None = None) -> None:
        self.model_name = model_name

    def check(self, task: Task) -> None:
        """Say, before anything is built, whether this agent can work on ``task`` at all.

        Raises:
            UnsupportedError: It cannot; the trial is skipped with the reason.
            HarborError: Something is missing that must be mended first.
        """

    def layers(self, timeout_sec: float | None) -> tuple[ImageLayer, ...]:
        """What is to be installed on top of the environment's image, once for all trials.

        Environments that can do no such thing leave it out, so :meth:`setup` looks whether
        it is there.

        Args:
            timeout_sec: Limit of an install; None: no limit.
        """
        return ()

    def setup(self, environment: Any, context: AgentContext) -> Coroutine[Any, Any, None] | None:
        """Make the environment ready for :meth:`run`: install tools, write settings.

        Args:
            environment: As in :meth:`run`.
            context: What the agent is told, with the limit of the set-up.

        Raises:
            AgentSetupError: The tool cannot be installed.
        """

    @abstractmethod
    def run(
        self, instruction: str, environment: Any, context: AgentContext
    ) -> Coroutine[Any, Any, None] | None:
        """Work on the task until done.

        Give ``context.timeout_sec`` to long commands: that is what ends them inside the
        environment. An agent that loops checks the clock between commands.

        Args:
            instruction: What is to be done.
            environment: An :class:`~pytest_harbor.environment.base.Environment`; for an async
                method an :class:`~pytest_harbor.agent.aio.AsyncEnvironment`.
            context: What the agent is told, and what it tells.

        Raises:
            AgentTimeoutError: The limit was reached; the verifier grades what is there.
            NonZeroAgentExitCodeError: The agent's command failed; graded all the same.
        """

    def read_trajectory(self, logs_dir: Path) -> Trajectory | None:
        """Make the trajectory from the agent's own logs, once they are on this machine.

        Asked only where there is no ``trajectory.json`` among them. What a container holds is
        not to be trusted: :mod:`pytest_harbor.result.agent_logs` reads several agents' logs.

        Returns:
            None: the logs have none.

        Raises:
            TrajectoryFormatError: They cannot be read; noted, the trial goes on.
        """
        return None
