"""Whole trials in real containers, run as a user would run them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Ran:
    """An inner run of pytest and the trials that it left on disk.

    Attributes:
        run: pytester's own result.
        trials: Folder name of a task to the ``result.json`` of its trials.
        folders: The same to the trials' folders.
    """

    run: pytest.RunResult
    trials: dict[str, list[dict[str, Any]]]
    folders: dict[str, list[Path]]

    def one(self, task: str = "hello") -> dict[str, Any]:
        """The result of the only trial of a task."""
        (result,) = self.trials[task]
        return result

    def folder(self, task: str = "hello") -> Path:
        """The folder of the only trial of a task."""
        (folder,) = self.folders[task]
        return folder

    @property
    def text(self) -> str:
        """What the run printed."""
        return self.run.stdout.str()


class Runner:
    """Runs pytest on the tasks of the inner project."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester

    def __call__(self, *args: str, subprocess: bool = False) -> Ran:
        run = self._pytester.runpytest_subprocess if subprocess else self._pytester.runpytest
        # The outer run's filters, where warnings are errors, hold in this process too.
        result = run("-p", "no:cacheprovider", "-W", "default", *args)
        ran = Ran(result, {}, {})
        for file in sorted(self._pytester.path.glob("jobs/*/*/result.json")):
            content = json.loads(file.read_text())
            task = Path(content["task_id"]["path"]).name
            ran.trials.setdefault(task, []).append(content)
            ran.folders.setdefault(task, []).append(file.parent)
        return ran


@pytest.fixture
def run_tasks(pytester: pytest.Pytester, engine: Any) -> Runner:
    return Runner(pytester)
