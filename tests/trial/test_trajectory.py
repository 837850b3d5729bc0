"""Trajectories in whole trials: kept, checked, counted, and given to agents."""

import json
from typing import Any

import pytest

pytestmark = pytest.mark.docker

AGENTS = """\
    import time
    from pytest_harbor import Agent
    from pytest_harbor.result.agent_logs.codex import read_codex

    class Told(Agent):
        name, version = "told", "1.0"

        def run(self, instruction, environment, context):
            context.trajectory.user(instruction)
            context.trajectory.agent(
                "I write it.",
                tool_calls=[{"tool_call_id": "1", "function_name": "sh", "arguments": {"a": None}}],
                metrics={"prompt_tokens": 1000, "cached_tokens": 400, "completion_tokens": 20,
                         "cost_usd": 0.5},
            )
            environment.exec(["sh", "-c", "echo ok > /app/out.txt"])
            context.trajectory.observe(f"written with {context.env.get('API_KEY')}", call="1")

    class Crashing(Told):
        def run(self, instruction, environment, context):
            super().run(instruction, environment, context)
            raise RuntimeError("boom")

    class Endless(Told):
        def run(self, instruction, environment, context):
            super().run(instruction, environment, context)
            time.sleep(600)

    class Odd(Told):
        def run(self, instruction, environment, context):
            context.trajectory.agent(tool_calls=[
                {"tool_call_id": "1", "function_name": "f", "arguments": {"a": object()}}])
            environment.exec(["sh", "-c", "echo ok > /app/out.txt"])

    class FromLogs(Agent):
        name = "from-logs"

        def run(self, instruction, environment, context):
            log = '{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}'
            environment.exec(["sh", "-c", f"echo '{log}' > /logs/agent/codex.jsonl"])
            environment.exec(["sh", "-c", "echo ok > /app/out.txt"])

        def read_trajectory(self, logs_dir):
            return read_codex((logs_dir / "codex.jsonl").read_bytes())

    class GoesOn(Agent):
        name = "goes-on"

        def load_atif_trajectory(self, trajectory, environment, context):
            environment.write("/app/out.txt", str(trajectory.steps[0].message))

        def run(self, instruction, environment, context):
            pass
    """

GIVEN = {
    "agent": {"name": "earlier", "version": "1"},
    "steps": [{"step_id": 1, "source": "user", "message": "ok"}],
}


@pytest.fixture
def agents(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(my_agents=AGENTS)
    pytester.syspathinsert()


def trajectory(ran: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ran.folder() / "agent/trajectory.json").read_text())
    return content


@pytest.mark.usefixtures("agents")
def test_what_an_agent_tells_is_kept_and_counted(make_task, run_tasks):
    make_task()
    ran = run_tasks(
        "tasks", "--harbor-agent=my_agents:Told", "--harbor-model=acme/m", "--junitxml=report.xml"
    )
    ran.run.assert_outcomes(passed=1)
    document = trajectory(ran)
    assert [step["source"] for step in document["steps"]] == ["user", "agent"]
    assert document["agent"] == {"name": "told", "version": "1.0", "model_name": "acme/m"}
    assert document["session_id"] == f"{ran.one()['trial_name']}__agent"
    assert document["steps"][1]["tool_calls"][0]["arguments"] == {"a": None}
    counts = {"n_input_tokens": 1000, "n_cache_tokens": 400, "n_output_tokens": 20, "cost_usd": 0.5}
    result = ran.one()["agent_result"]
    assert {name: result[name] for name in counts} == counts
    assert result["model_usage"] == {"acme/m": counts}
    (job,) = ran.folder().parent.glob("result.json")
    stats = json.loads(job.read_text())["stats"]
    assert {name: stats[name] for name in counts} == counts
    spent = "*1,000 tokens read; 400 of them cached; 20 tokens written; 0.5000 USD*"
    ran.run.stdout.fnmatch_lines([spent])
    report = (ran.folder().parents[2] / "report.xml").read_text()
    for name, value in {"input_tokens": 1000, "cost_usd": 0.5, "steps": 2}.items():
        assert f'name="{name}" value="{value}"' in report


@pytest.mark.usefixtures("agents")
@pytest.mark.parametrize(
    ("agent", "fault"), [("Crashing", "AgentCrashError"), ("Endless", "AgentTimeoutError")]
)
@pytest.mark.long
def test_what_was_told_before_the_end_is_kept(make_task, run_tasks, agent, fault):
    make_task()
    ran = run_tasks(
        "tasks", f"--harbor-agent=my_agents:{agent}", "--harbor-agent-timeout-multiplier=0.05"
    )
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["exception_info"]["exception_type"] == fault
    assert len(trajectory(ran)["steps"]) == 2
    assert ran.one()["agent_result"]["n_input_tokens"] == 1000


@pytest.mark.usefixtures("agents")
def test_a_trajectory_holds_no_secret(make_task, run_tasks):
    make_task()
    ran = run_tasks(
        "tasks", "--harbor-agent=my_agents:Told", "--harbor-agent-env=API_KEY=sk-secret-123"
    )
    seen = trajectory(ran)["steps"][1]["observation"]["results"][0]["content"]
    assert seen == "written with [REDACTED]"


@pytest.mark.usefixtures("agents")
def test_one_that_cannot_be_written_fails_nothing(make_task, run_tasks):
    make_task()
    ran = run_tasks("tasks", "--harbor-agent=my_agents:Odd")
    ran.run.assert_outcomes(passed=1)
    (finding,) = ran.one()["pytest_harbor"]["findings"]
    assert finding.startswith("the agent's trajectory could not be written: ")


def test_nobody_told_anything(make_task, run_tasks):
    make_task()
    ran = run_tasks("tasks")
    assert not (ran.folder() / "agent/trajectory.json").exists()
    assert ran.one()["agent_result"]["model_usage"] is None
    assert "tokens read" not in ran.text


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        ('{"agent": {"name": "a", "version": "1"}, "steps": []}', "steps: expected at least one"),
        ("[[[", "expected JSON"),
    ],
)
def test_a_commands_own_trajectory_that_is_not_valid_is_reported(
    make_task, run_tasks, content, finding
):
    make_task()
    command = f"echo ok > /app/out.txt; echo '{content}' > /logs/agent/trajectory.json"
    ran = run_tasks("tasks", f"--harbor-agent-command={command}")
    ran.run.assert_outcomes(passed=1)
    (found,) = ran.one()["pytest_harbor"]["findings"]
    assert found.startswith(f"agent/trajectory.json is no valid trajectory: {finding}")
    kept = (ran.folder() / "agent/trajectory.json").read_text()
    assert kept == content + "\n"


@pytest.mark.parametrize("separate", [False, True], ids=["shared", "separate"])
def test_a_commands_own_trajectory_is_counted(make_task, run_tasks, separate):
    final = {"total_prompt_tokens": 7, "total_cost_usd": 0.25}
    document = json.dumps({**GIVEN, "final_metrics": final})
    toml = 'artifacts = ["/app/out.txt"]\n[verifier]\nenvironment_mode = "separate"\n'
    make_task(**({"toml": "=" + toml} if separate else {}))
    command = f"echo ok > /app/out.txt; echo '{document}' > /logs/agent/trajectory.json"
    ran = run_tasks("tasks", f"--harbor-agent-command={command}")
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["verifier_environment_mode"] == ("separate" if separate else "shared")
    assert ran.one()["agent_result"]["n_input_tokens"] == 7
    assert ran.one()["pytest_harbor"]["usage"]["n_steps"] == 1


def test_each_step_has_its_own(make_task, run_tasks):
    folder = make_task(toml="[[steps]]\nname = 'one'\n[[steps]]\nname = 'two'\n")
    for name in ("one", "two"):
        make_task.write(folder, f"steps/{name}/instruction.md", "Write ok.\n")
    document = json.dumps({**GIVEN, "final_metrics": {"total_prompt_tokens": 7}})
    command = f"echo ok > /app/out.txt; echo '{document}' > /logs/agent/trajectory.json"
    ran = run_tasks("tasks", f"--harbor-agent-command={command}")
    ran.run.assert_outcomes(passed=1)
    results = ran.one()["step_results"]
    assert [step["agent_result"]["n_input_tokens"] for step in results] == [7, 7]
    assert ran.one()["pytest_harbor"]["usage"]["n_input_tokens"] == 14
    assert (ran.folder() / "steps/two/agent/trajectory.json").exists()


@pytest.mark.usefixtures("agents")
def test_an_agents_own_logs_become_its_trajectory(make_task, run_tasks):
    make_task()
    ran = run_tasks("tasks", "--harbor-agent=my_agents:FromLogs")
    ran.run.assert_outcomes(passed=1)
    assert trajectory(ran)["steps"][0]["message"] == "Done."


@pytest.mark.usefixtures("agents")
def test_a_tasks_trajectory_is_given_to_the_agent(make_task, run_tasks):
    folder = make_task()
    make_task.write(folder, "trajectory.json", json.dumps(GIVEN))
    run_tasks("tasks", "--harbor-agent=my_agents:GoesOn").run.assert_outcomes(passed=1)
    run_tasks("tasks", "--harbor-agent=oracle").run.assert_outcomes(passed=1)


@pytest.mark.usefixtures("agents")
@pytest.mark.parametrize(
    ("agent", "content", "message"),
    [
        ("Told", GIVEN, "*agent told has no load_atif_trajectory*"),
        ("GoesOn", {**GIVEN, "steps": []}, "*trajectory.json: steps: expected at least one*"),
    ],
)
def test_a_tasks_trajectory_that_cannot_be_loaded_fails_it(
    make_task, run_tasks, agent, content, message
):
    folder = make_task()
    make_task.write(folder, "trajectory.json", json.dumps(content))
    ran = run_tasks("tasks", f"--harbor-agent=my_agents:{agent}")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines([message])
