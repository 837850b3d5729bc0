"""The two agents that every sound task is proven with: oracle and nop.

Semantics: ``format/agents.md``, sections 3 and 4.
"""

from __future__ import annotations

import os
from pathlib import Path

from pytest_harbor.agent.base import Agent, AgentContext
from pytest_harbor.environment.base import Environment
from pytest_harbor.environment.script import script_argv
from pytest_harbor.errors import AgentTimeoutError, UnsupportedError
from pytest_harbor.task.ignore import upload_filter
from pytest_harbor.task.layout import SOLUTION_DIR
from pytest_harbor.task.reader import Task
from pytest_harbor.task.template import resolve_env


class NopAgent(Agent):
    """Does nothing, successfully: a sound task gives it no reward."""

    name = "nop"
    version = "1.0.0"
    keeps_time = True
    uses_task_tools = False

    def run(self, instruction: str, environment: Environment, context: AgentContext) -> None:
        """Leave everything as it is."""


class OracleAgent(Agent):
    """Runs the task's own solution: a sound task gives it the whole reward."""

    name = "oracle"
    version = "1.0.0"
    keeps_time = True
    uses_task_tools = False

    def check(self, task: Task) -> None:
        """Skip a task that has no solution; resolve ``[solution.env]`` while nothing is lost."""
        self._script(task)
        self._solution_env(task)

    def run(self, instruction: str, environment: Environment, context: AgentContext) -> None:
        """Upload ``solution/`` and run its script; a status other than 0 is only recorded."""
        script = self._script(context.task)
        relative = script.relative_to(context.task.solution_dir)
        environment.upload(
            context.task.solution_dir,
            SOLUTION_DIR,
            executable=[relative.as_posix()],
            include=upload_filter(context.task.solution_dir),
        )
        env = {
            "DEBIAN_FRONTEND": "noninteractive",
            **context.env,
            **self._solution_env(context.task),
        }
        with context.open_log("oracle.txt") as log:
            result = environment.exec(
                script_argv(script, f"{SOLUTION_DIR}/{relative.as_posix()}"),
                user=context.user,
                env=env,
                timeout_sec=context.timeout_sec,
                output=log,
                merge_streams=True,
            )
        context.exit_code = result.exit_code
        if result.timed_out:
            raise AgentTimeoutError(f"agent timed out after {context.timeout_sec:g} s")
        if result.exit_code:
            (context.logs_dir / "exit-code.txt").write_text(f"{result.exit_code}\n")
            if result.out_of_memory:
                context.metadata["out_of_memory"] = True

    @staticmethod
    def _script(task: Task) -> Path:
        if task.solution_script is None:
            raise UnsupportedError("no solution/solve.sh: the oracle has nothing to run")
        return task.solution_script

    @staticmethod
    def _solution_env(task: Task) -> dict[str, str]:
        return resolve_env(task.config.solution.env, os.environ, where="[solution.env]")
