"""The agent of our own: a model at a terminal, with a scripted model and real containers."""

import json
from typing import Any

import pytest

from tests.model_server import Turn

pytestmark = [pytest.mark.docker, pytest.mark.long]

# tmux is installed once for all tests: the tasks share an image.
IMAGE = "FROM debian:bookworm-slim\nWORKDIR /app\n"


def typed(*keystrokes: str, duration: float = 0.3, **more: Any) -> Turn:
    commands = [{"keystrokes": one, "duration": duration} for one in keystrokes]
    return Turn(json.dumps({"analysis": "a", "plan": "p", "commands": commands, **more}))


DONE = Turn('Thus:\n```json\n{"analysis": "all is there", "task_complete": true}\n```')


@pytest.mark.parametrize("name", ["openai/m", "anthropic/claude-m"])
def test_a_model_at_a_terminal_solves_a_task_without_network(
    run_tasks, make_task, model, name
) -> None:
    make_task(dockerfile=IMAGE)
    model.script.refill(
        [
            Turn("I will think."),
            typed("cat > out.txt <<'E'\nok\nE\nprintf 'a\\tb;'; echo \\;\n"),
            typed("sleep 1000\n", "C-c", "echo ö-$?;\n", task_complete=True),
            DONE,
        ]
    )
    ran = run_tasks("--harbor-agent=tmux", f"--harbor-model={name}", "--harbor-network=no-network")
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["agent_result"]["n_input_tokens"] == 400
    assert result["agent_result"]["n_output_tokens"] == 80
    assert result["agent_info"]["name"] == "tmux"
    said = [json.dumps(call.body["messages"][-1], ensure_ascii=False) for call in model.calls]
    assert "Write the word ok" in said[0]
    assert "it holds no JSON object" in said[1]
    assert "b;" in said[2]
    assert "ö-130" in said[3]
    assert "say so again" in said[3]
    trajectory = json.loads((ran.folder() / "agent/trajectory.json").read_text())
    steps = trajectory["steps"]
    assert [step["source"] for step in steps] == ["user", *["agent"] * 4]
    assert steps[3]["tool_calls"][1]["arguments"]["keystrokes"] == "C-c"
    assert "ö-130" in steps[3]["observation"]["results"][0]["content"]


def test_a_terminal_that_is_lost_or_out_of_time_is_no_end_of_the_trial(
    run_tasks, make_task, model
) -> None:
    toml = '=version = "1.0"\n[agent]\ntimeout_sec = 12\n[verifier]\ntimeout_sec = 60\n'
    test = """\
        #!/bin/bash
        sleep 2
        if [ -e /app/late ] || [ "$(cat /app/out.txt)" != ok ]; then exit 1; fi
        echo 1 > /logs/verifier/reward.txt
        """
    make_task(dockerfile=IMAGE, toml=toml, test=test)
    model.script.refill(
        [
            typed("exit\n"),
            typed("seq 300; echo ok > out.txt\n"),
            typed("sleep 14; touch late\n", duration=60),
        ]
    )
    ran = run_tasks("--harbor-agent=tmux", "--harbor-model=openai/m")
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["exception_info"]["exception_type"] == "AgentTimeoutError"
    assert "this is a new one" in model.calls[1].body["messages"][-1]["content"]
    assert "\n1\n2\n" in model.calls[2].body["messages"][-1]["content"]


def test_a_model_that_may_not_be_asked_is_no_lack_of_skill(run_tasks, make_task, model) -> None:
    make_task(dockerfile=IMAGE)
    model.script.refill([Turn.rate_limit(), Turn(status=401, error="wrong key")])
    ran = run_tasks("--harbor-agent=tmux", "--harbor-model=openai/m")
    ran.run.assert_outcomes(failed=1)
    assert ran.one()["pytest_harbor"]["category"] == "agent"
    assert ran.one()["exception_info"]["exception_type"] == "AgentAuthenticationError"
    assert len(model.calls) == 2
