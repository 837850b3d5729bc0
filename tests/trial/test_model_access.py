"""An agent in a box and its model: by the gateway, under any policy, with no key inside."""

import json
import subprocess
from pathlib import Path

import pytest

from pytest_harbor.environment.docker import remove_run
from tests.model_server import ModelServer, Turn

pytestmark = pytest.mark.docker

KEY = "sk-real-0123456789abcdef0123456789"
AGENT = '''\
from pytest_harbor import Agent
from urllib.parse import urlsplit

CALL = """
call() {
  body='{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
  exec 3<>"/dev/tcp/$HOST/$PORT" || return 1
  printf 'POST /v1/chat/completions HTTP/1.1\\\\r\\\\nHost: model\\\\r\\\\n' >&3
  printf 'Authorization: Bearer %s\\\\r\\\\nContent-Length: %d\\\\r\\\\n' "$KEY" "${#body}" >&3
  printf 'Content-Type: application/json\\\\r\\\\n' >&3
  printf 'Connection: close\\\\r\\\\n\\\\r\\\\n%s' "$body" >&3
  cat <&3
}
"""


class Caller(Agent):
    name = "caller"
    model_wires = ("openai",)
    script = "call && echo ok > /app/out.txt"

    def run(self, instruction, environment, context):
        base = urlsplit(context.model.base_urls["openai"])
        env = {"HOST": base.hostname, "PORT": str(base.port), "KEY": context.model.key}
        (context.logs_dir / "token").write_text(context.model.key[:14])
        with context.open_log("caller.txt") as log:
            result = environment.exec(
                CALL + self.script, env=env, output=log, merge_streams=True
            )
        context.exit_code = result.exit_code


class Endless(Caller):
    script = "while call; do :; done; echo ok > /app/out.txt; sleep 1000"
    keeps_time = True
'''


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester):
    pytester.makepyfile(callers=AGENT)
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.port}/v1")
        yield server


CALLER = ("--harbor-agent=callers:Caller", "--harbor-model=openai/m")


def written(folder: Path) -> bytes:
    """Everything that a run wrote."""
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("policy", ["public", "no-network"])
def test_the_model_is_reached_under_any_policy_and_no_key_is_anywhere(
    run_tasks, make_task, model, pytester, engine, policy
) -> None:
    make_task()
    ran = run_tasks(*CALLER, f"--harbor-network={policy}", "--harbor-keep=all")
    names = [n for line in ran.text.splitlines() if "docker exec -it" in line for n in line.split()]
    kept = next(name for name in names if name.startswith("pytest-harbor-kept-"))
    inspected = subprocess.run(["docker", "inspect", kept], capture_output=True, check=True).stdout
    remove_run(engine, ran.folder().parent.name.rpartition("__")[2], kept=True)
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["agent_result"]["n_input_tokens"] == 100
    assert result["agent_result"]["n_output_tokens"] == 20
    steps = json.loads((ran.folder() / "agent/trajectory.json").read_text())["steps"]
    assert [(step["source"], step["message"]) for step in steps] == [
        ("user", "hi"),
        ("agent", "done"),
    ]
    (call,) = (ran.folder() / "agent/model_calls.jsonl").read_text().splitlines()
    assert json.loads(call)["model"] == "m"
    assert model.calls[0].headers["authorization"] == f"Bearer {KEY}"
    everything = inspected + written(pytester.path / "jobs") + ran.text.encode()
    assert KEY.encode() not in everything


def test_a_missing_key_is_said_before_any_container(
    run_tasks, make_task, model, monkeypatch
) -> None:
    make_task()
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    ran = run_tasks(*CALLER)
    ran.run.assert_outcomes(errors=1)
    assert "OPENAI_API_KEY is not set" in ran.text
    assert not ran.trials


def test_a_key_for_the_agent_stays_on_this_machine(
    run_tasks, make_task, model, monkeypatch
) -> None:
    make_task()
    monkeypatch.delenv("OPENAI_API_KEY")
    ran = run_tasks(*CALLER, f"--harbor-agent-env=OPENAI_API_KEY={KEY}")
    ran.run.assert_outcomes(passed=1)
    assert model.calls[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_provider_that_fails_is_not_the_agents_lack_of_skill(run_tasks, make_task, model) -> None:
    make_task()
    model.script.refill([Turn(status=401, error="wrong key")])
    ran = run_tasks(*CALLER)
    # Its exit status was 0 and its work is done: a 401 all the same, and no measurement.
    result = ran.one()
    assert result["pytest_harbor"]["category"] == "agent"
    ran.run.assert_outcomes(failed=1)
    assert "AgentAuthenticationError" in json.dumps(result)


def test_a_limit_ends_the_agent_from_outside(run_tasks, make_task, model) -> None:
    make_task()
    ran = run_tasks(
        "--harbor-agent=callers:Endless", "--harbor-model=openai/m", "--harbor-max-calls=2"
    )
    ran.run.assert_outcomes(failed=1)
    assert len(model.calls) == 2
    result = ran.one()
    assert "AgentModelLimitError" in json.dumps(result)
    assert result["pytest_harbor"]["category"] == "reward"
