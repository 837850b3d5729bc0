"""Agents that prove a task rather than work on it; ``--harbor-check=full`` sends them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_harbor.agent.base import AgentContext
from pytest_harbor.agent.reference import NopAgent, OracleAgent
from pytest_harbor.environment.base import Environment
from pytest_harbor.task.layout import VERIFIER_LOGS
from pytest_harbor.task.model import Step, Task

_PLANT = f"""
mkdir -p {VERIFIER_LOGS}
echo 1 > {VERIFIER_LOGS}/reward.txt
echo '{{"reward": 1}}' > {VERIFIER_LOGS}/reward.json
true
"""
_MISSING = 'for path; do [ -e "$path" ] || echo "$path"; done'


class PlantedRewardAgent(NopAgent):
    """Does nothing for the task and leaves a reward where the verifier writes its own."""

    name = "planted-reward"

    def run(self, instruction: str, environment: Environment, context: AgentContext) -> None:
        """Plant the reward as the agent's user, who may be unable to."""
        environment.exec(["sh", "-c", _PLANT], user=context.user, timeout_sec=60)


class LookingAgent(NopAgent):
    """Does nothing but look which paths the image has.

    Attributes:
        missing: Those that it lacks.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__()
        self._paths = tuple(paths)
        self.missing: tuple[str, ...] = ()

    def run(self, instruction: str, environment: Environment, context: AgentContext) -> None:
        """Look once, before the first step."""
        if self._paths and (context.step is None or context.step is context.task.steps[0]):
            argv = ["sh", "-c", _MISSING, "sh", *self._paths]
            result = environment.exec(argv, user="root", timeout_sec=60)
            self.missing = tuple(result.stdout.splitlines()) if result.exit_code == 0 else ()


class MutantAgent(OracleAgent):
    """Runs the task's solution with another text in one of its scripts."""

    name = "mutant"

    def __init__(self, script: Path, text: str) -> None:
        super().__init__()
        self._script = script
        self._text = text
        self._folder = TemporaryDirectory(prefix="pytest-harbor-mutant-")

    def _solution(self, task: Task, step: Step | None) -> tuple[Path, Path]:
        folder, script = super()._solution(task, step)
        if script != self._script:
            return folder, script
        copy = Path(self._folder.name) / folder.name
        shutil.copytree(folder, copy, symlinks=True, dirs_exist_ok=True)
        (copy / script.name).write_text(self._text, encoding="utf-8")
        return copy, copy / script.name
