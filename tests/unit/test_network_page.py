"""The sample of docs/network.md does what the page says."""

import re
from pathlib import Path
from typing import Any

from pytest_harbor.task.reader import read_task
from pytest_harbor.trial.network_plan import task_network

PAGE = Path(__file__).parents[2] / "docs" / "network.md"


def test_the_sample_gives_each_phase_its_policy(make_task: Any) -> None:
    sample = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert sample
    folder = make_task(toml="=" + sample[1])
    for step in ("fetch", "repair"):
        make_task.write(folder, f"steps/{step}/instruction.md", "Do it.\n")
    task = read_task(folder)
    assert not task.problems
    assert task_network(task).as_json() == {
        "environment": "public",
        "steps": [
            {
                "agent": "allowlist pypi.org *.pythonhosted.org 192.0.2.0/24",
                "verifier": "no-network",
            },
            {"agent": "no-network", "verifier": "no-network"},
        ],
    }
