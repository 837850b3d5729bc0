"""Projects that are run with one other plugin beside ours; their trials need no engine."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OTHER_PLUGINS

CONFTEST = """
import time
from pathlib import Path

import pytest
from pytest_harbor.plugin import engine
from pytest_harbor.plugin.trial_of_item import set_properties
from pytest_harbor.result.reward import Reward, judge
from pytest_harbor.result.trial import TrialResult
from pytest_harbor.result.work import StepResult

engine.require = lambda *_: None

@pytest.fixture
def harbor_trial(request, harbor_task):
    name = harbor_task.path.name
    with open("ran.txt", "a") as ran:
        ran.write(f"{request.node.nodeid}\\n")
    if name.startswith("slow"):
        time.sleep(60)
    tries = Path("ran.txt").read_text().splitlines().count(request.node.nodeid)
    good = name.startswith("good") or name.startswith("later") and tries > 1
    rewards = {"reward": 1.0 if good else 0.25}
    result = TrialResult(
        trial_name=f"{name}__1", trial_dir=Path("jobs") / name, task_name=name,
        task_path=harbor_task.path, agent_name=request.node.variant.agent,
        category="reward", reward=Reward(rewards, "reward.json"), verdict=judge(rewards, 1.0),
    )
    if name.endswith("steps"):
        earned = {"first": {"reward": 1.0}, "second": rewards}
        result.steps = [
            StepResult(name=step, reward=Reward(given, "reward.json"), verdict=judge(given, 1.0))
            for step, given in earned.items()
        ]
    set_properties(request.node, result.properties())
    return result
"""


class Project:
    """A project of several tasks: what is named ``good…`` passes, ``later…`` when tried again.

    A task ``slow…`` never comes to an end; any other earns a quarter.
    """

    def __init__(self, pytester: pytest.Pytester, make_task: Callable[..., Path]) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.task = make_task
        pytester.makeconftest(CONFTEST)
        pytester.makeini("[pytest]\nfilterwarnings = default\n")

    def conftest(self, text: str) -> None:
        """Add to the project's ``conftest.py``."""
        place = self.path / "conftest.py"
        place.write_text(place.read_text() + text)

    def run(self, plugin: str | tuple[str, ...], *args: object) -> pytest.RunResult:
        """Run pytest in a process of its own, with one of the other plugins."""
        asked = (plugin,) if isinstance(plugin, str) else plugin
        without = [f"-pno:{name}" for name in OTHER_PLUGINS if name not in asked]
        return self.pytester.runpytest_subprocess("-pno:hypothesispytest", *without, *args)

    def ran(self) -> list[str]:
        """Ids of the trials that were run since the last look, in their order."""
        place = self.path / "ran.txt"
        lines = place.read_text().splitlines() if place.exists() else []
        place.unlink(missing_ok=True)
        return lines

    def json_lines(self, name: str) -> list[dict[str, Any]]:
        """A file of JSON lines."""
        return [json.loads(line) for line in (self.path / name).read_text().splitlines()]


@pytest.fixture
def project(
    pytester: pytest.Pytester,
    make_task: Callable[..., Path],
    _own_settings: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Project:
    """A project without tasks yet, in whose runs other plugins are not barred."""
    monkeypatch.delenv("PYTEST_ADDOPTS")
    return Project(pytester, make_task)
