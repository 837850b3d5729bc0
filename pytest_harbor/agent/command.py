"""Any agent that is one shell command run in the environment."""

from __future__ import annotations

import shlex

from pytest_harbor.agent.base import Agent, AgentContext
from pytest_harbor.agent.faults import unable_error
from pytest_harbor.environment.base import Environment, ExecResult
from pytest_harbor.errors import AgentTimeoutError, NonZeroAgentExitCodeError

INSTRUCTION_FILE = "/logs/agent/instruction.md"
"""Where the instruction lies for commands that ask for the file."""


class CommandAgent(Agent):
    """Runs a command of the user's, through bash (or sh where there is no bash).

    ``{instruction}`` stands for the instruction's text, quoted for the shell;
    ``{instruction_file}`` for the path of a file that holds it. Other braces are left
    alone. The text is also in the variable ``HARBOR_INSTRUCTION``.
    """

    name = "command"
    version = "1.0.0"
    keeps_time = True

    def __init__(self, *, command: str, model_name: str | None = None) -> None:
        super().__init__(model_name=model_name)
        self.command = command

    def run(self, instruction: str, environment: Environment, context: AgentContext) -> None:
        """Run the command; its status decides nothing, the verifier does."""
        if "{instruction_file}" in self.command:
            environment.write(INSTRUCTION_FILE, instruction)
        with context.open_log("command.txt") as log:
            result = environment.exec(
                self._filled(instruction),
                user=context.user,
                env=self._env(instruction, context),
                timeout_sec=context.timeout_sec,
                output=log,
                merge_streams=True,
            )
        context.exit_code = result.exit_code
        _raise_for(result, context)

    def _filled(self, instruction: str) -> str:
        # One pass each, file first: the instruction's own braces must stay as they are.
        text = self.command.replace("{instruction_file}", INSTRUCTION_FILE)
        return text.replace("{instruction}", shlex.quote(instruction))

    def _env(self, instruction: str, context: AgentContext) -> dict[str, str]:
        # The kernel refuses a single variable of 128 KiB.
        short = {"HARBOR_INSTRUCTION": instruction} if len(instruction.encode()) < 2**16 else {}
        model = {"HARBOR_MODEL": self.model_name} if self.model_name else {}
        return {**short, **model, **context.env}


def _raise_for(result: ExecResult, context: AgentContext) -> None:
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
