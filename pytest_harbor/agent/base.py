"""What an agent is: the side of a trial that works on the task.

An agent runs on this machine and drives the environment from outside. Name your
own by import path (``--harbor-agent=package.module:Class``) or by an entry point
in the group ``pytest_harbor.agents``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from pytest_harbor.environment.base import Environment
    from pytest_harbor.task.model import Step, Task


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
        metadata: Anything else; plain JSON values.
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
    metadata: dict[str, Any] = field(default_factory=dict)
    step: Step | None = None

    def open_log(self, name: str) -> BinaryIO:
        """Open ``logs_dir/name`` for writing; the caller closes it."""
        return self.log(name)  # type: ignore[no-any-return]


class Agent(ABC):
    """Base of all agents; sync.

    The constructor gets the values of ``--harbor-agent-kwarg`` as keyword arguments,
    and ``model_name`` where ``--harbor-model`` was given.
    """

    name: str = ""
    version: str = "unknown"
    setup_timeout_sec: float = 360.0
    """Limit of :meth:`setup`, before multipliers (``format/trial-lifecycle.md``, section 4)."""
    keeps_time: bool = False
    """The agent gives ``context.timeout_sec`` to its one command. The others are watched:
    at the limit their commands are killed and the environment answers them no more."""
    uses_task_tools: bool = True
    """False: the task's MCP servers and skills mean nothing to this agent."""

    def __init__(self, *, model_name: str | None = None) -> None:
        self.model_name = model_name

    def check(self, task: Task) -> None:
        """Say, before anything is built, whether this agent can work on ``task`` at all.

        Raises:
            UnsupportedError: It cannot; the trial is skipped with the reason.
            HarborError: Something is missing that must be mended first.
        """

    def setup(self, environment: Environment, context: AgentContext) -> None:
        """Make the environment ready for :meth:`run`: install tools, write settings.

        Raises:
            AgentSetupError: The tool cannot be installed.
        """

    @abstractmethod
    def run(self, instruction: str, environment: Environment, context: AgentContext) -> None:
        """Work on the task until done.

        Give ``context.timeout_sec`` to long commands: that is what ends them inside the
        environment. An agent that loops checks the clock between commands.

        Raises:
            AgentTimeoutError: The limit was reached; the verifier grades what is there.
            NonZeroAgentExitCodeError: The agent's command failed; graded all the same.
        """
