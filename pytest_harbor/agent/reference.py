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
from pytest_harbor.task.model import Step, Task
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
        for step in task.steps or (None,):
            self._solution(task, step)
        self._solution_env(task)

    def run(self, instruction: str, environment: Environment, context: AgentContext) -> None:
        """Upload ``solution/`` and run its script; a status other than 0 is only recorded."""
        folder, script = self._solution(context.task, context.step)
        environment.upload(
            folder, SOLUTION_DIR, executable=[script.name], include=upload_filter(folder)
        )
        env = {
            "DEBIAN_FRONTEND": "noninteractive",
            **context.env,
            **self._solution_env(context.task),
        }
        with context.open_log("oracle.txt") as log:
            result = environment.exec(
                script_argv(script, f"{SOLUTION_DIR}/{script.name}"),
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

    def _solution(self, task: Task, step: Step | None) -> tuple[Path, Path]:
        """The folder and the script of a step's own solution, else of the task's."""
        script = step.solution_script if step else task.solution_script
        if script is not None:
            return script.parent, script
        whose = f"step {step.name!r} has" if step else "the task has"
        raise UnsupportedError(f"{whose} no solution/solve.sh: the oracle has nothing to run")

    @staticmethod
    def _solution_env(task: Task) -> dict[str, str]:
        return resolve_env(task.config.solution.env, os.environ, where="[solution.env]")
