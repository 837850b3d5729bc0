"""Real command line agents solve a task under ``no-network``, with a scripted model."""

import json

import pytest

from pytest_harbor.registry import make_agent
from tests.agents.conftest import KEY
from tests.agents.scripts import SCRIPTS
from tests.model_server import Turn

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(1500)]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_real_agent_solves_a_task_without_network_or_key(run_tool, name, pytester) -> None:
    ran = run_tool(name, SCRIPTS[name][1])
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    least = 1 if name == "aider" else 2
    assert result["agent_result"]["n_input_tokens"] >= 100 * least
    assert result["agent_info"]["version"] == make_agent(name, model="openai/m").version
    trajectory = json.loads((ran.folder() / "agent/trajectory.json").read_text())
    done = [
        step.get("tool_calls") or step["message"]
        for step in trajectory["steps"]
        if step["source"] == "agent"
    ]
    assert "out.txt" in json.dumps(done)
    assert (ran.folder() / "agent/model_calls.jsonl").read_text().count("\n") >= least
    files = (path for path in (pytester.path / "jobs").rglob("*") if path.is_file())
    assert not any(KEY.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_rate_limit_is_waited_for(run_tool, name) -> None:
    ran = run_tool(name, [Turn.rate_limit(), *SCRIPTS[name][1]])
    ran.run.assert_outcomes(passed=1)
