"""Any agent that is one shell command run in the environment."""

from __future__ import annotations

import re
import shlex

from pytest_harbor.agent.base import Agent, AgentContext
from pytest_harbor.agent.faults import unable_error
from pytest_harbor.agent.mcp import config_text, header_variables
from pytest_harbor.environment.base import Environment, ExecResult
from pytest_harbor.errors import AgentTimeoutError, NonZeroAgentExitCodeError, OptionError
from pytest_harbor.task.model import Task

INSTRUCTION_FILE = "/logs/agent/instruction.md"
"""Where the instruction lies for commands that ask for the file."""

MCP_CONFIG_FILE = "/logs/agent/mcp.json"
"""Where the task's MCP servers are described; holds no secret, so that any user may read it."""

MAX_COMMAND_BYTES = 2**17
"""Linux takes no longer argument."""

# With the quotes: within quotes of the user's, the text's own would end them.
_PLACEHOLDER = re.compile(r"""(["']?)\{instruction\}\1""")


def fill(command: str, instruction: str) -> str:
    """The command with its placeholders filled."""
    # Files first: the instruction's own braces must stay as they are.
    text = command.replace("{instruction_file}", INSTRUCTION_FILE)
    text = text.replace("{mcp_config}", MCP_CONFIG_FILE)
    return _PLACEHOLDER.sub(lambda _: shlex.quote(instruction), text)


class CommandAgent(Agent):
    """Runs a command of the user's, through bash (or sh where there is no bash).

    ``{instruction}`` stands for the instruction's text, quoted for the shell (quotes of
    yours right around it are taken as part of it); ``{instruction_file}`` for the path of
    a file that holds it. Other braces are left alone. A text of less than 64 KiB is also
    in the variable ``HARBOR_INSTRUCTION``.

    ``{mcp_config}`` stands for the path of a JSON file with the task's MCP servers, in the
    ``mcpServers`` form that most clients read. Where the task has servers, the path is also
    in ``HARBOR_MCP_CONFIG``. The headers in it are references to variables, ``${MCP_AUTH_…}``,
    that the command has; a client that does not fill them in finds the values there.
    Where the task has skills, their folder is in ``HARBOR_SKILLS_DIR``.
    """

    name = "command"
    version = "1.0.0"
    keeps_time = True

    def __init__(self, *, command: str, model_name: str | None = None) -> None:
        super().__init__(model_name=model_name)
        self.command = command

    def check(self, task: Task) -> None:
        """Refuse an instruction that no command line can hold."""
        longest = max([task.instruction, *(step.instruction for step in task.steps)], key=len)
        size = len(fill(self.command, longest).encode())
        if size >= MAX_COMMAND_BYTES:
            raise OptionError(
                f"--harbor-agent-command: with the instruction in it, the command has {size} bytes;"
                f" a command line takes less than {MAX_COMMAND_BYTES}. Write {{instruction_file}},"
                " the path of a file that holds the instruction, instead of {instruction}"
            )

    def run(self, instruction: str, environment: Environment, context: AgentContext) -> None:
        """Run the command; its status decides nothing, the verifier does."""
        if "{instruction_file}" in self.command:
            environment.write(INSTRUCTION_FILE, instruction)
        if context.mcp_servers or "{mcp_config}" in self.command:
            environment.write(MCP_CONFIG_FILE, config_text(context.mcp_servers))
        with context.open_log("command.txt") as log:
            result = environment.exec(
                fill(self.command, instruction),
                user=context.user,
                env=self._env(instruction, context),
                timeout_sec=context.timeout_sec,
                output=log,
                merge_streams=True,
            )
        context.exit_code = result.exit_code
        raise_for_status(result, context)

    def _env(self, instruction: str, context: AgentContext) -> dict[str, str]:
        # Linux takes no variable of 128 KiB, and all of them count against one limit.
        short = {"HARBOR_INSTRUCTION": instruction} if len(instruction.encode()) < 2**16 else {}
        model = {"HARBOR_MODEL": self.model_name} if self.model_name else {}
        return {**short, **model, **_tool_variables(context), **context.env}


def _tool_variables(context: AgentContext) -> dict[str, str]:
    variables = header_variables(context.mcp_servers)
    if context.mcp_servers:
        variables["HARBOR_MCP_CONFIG"] = MCP_CONFIG_FILE
    if context.skills_dir:
        variables["HARBOR_SKILLS_DIR"] = context.skills_dir
    return variables


def raise_for_status(result: ExecResult, context: AgentContext) -> None:
    """Say how an agent's command failed, if it did.

    Raises:
        AgentTimeoutError: Its time was over.
        AgentUnableError: It could not work, by what it printed last.
        NonZeroAgentExitCodeError: It ended with a status other than 0.
    """
    if result.timed_out:
        raise AgentTimeoutError(f"agent timed out after {context.timeout_sec:g} s")
    if not result.exit_code:
        return
    if unable := unable_error(result.output):
        raise unable
    reason = f"agent ended with exit status {result.exit_code}"
    if result.out_of_memory:
        reason += ": the environment's memory limit was hit"
    raise NonZeroAgentExitCodeError(reason)
