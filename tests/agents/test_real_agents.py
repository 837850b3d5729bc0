"""Real command line agents solve a task under ``no-network``, with a scripted model."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BASE_IMAGE
from tests.model_server import ModelServer, Turn

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(1500)]

KEY = "sk-real-0123456789abcdef0123456789"
WORK = "echo ok > /app/out.txt"
# One image for all tasks, so that each tool is installed once.
TOML = f'docker_image = "{BASE_IMAGE}"\nworkdir = "/app"\n'


def mini(command: str) -> Turn:
    return Turn.tool("bash", command=command)


def opencode(command: str) -> Callable[[dict[str, Any]], Turn]:
    """Its first call may be the one for a title, which offers no tools."""

    def turn(body: dict[str, Any]) -> Turn:
        if body.get("tools"):
            return Turn.tool("bash", command=command, description="w")
        return Turn("a title")

    return turn


SCRIPTS: Mapping[str, tuple[str, list[Any]]] = {
    "mini-swe-agent": (
        "openai/m",
        [mini(WORK), mini("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")],
    ),
    "claude-code": ("anthropic/claude-m", [Turn.tool("Bash", command=WORK, description="w")]),
    "codex": ("openai/m", [Turn.tool("exec_command", cmd=WORK)]),
    "gemini-cli": (
        "gemini/gemini-2.5-pro",
        [Turn.tool("run_shell_command", command=WORK, description="w")],
    ),
    "qwen-coder": (
        "openai/m",
        [Turn.tool("run_shell_command", command=WORK, description="w", is_background=False)],
    ),
    "opencode": ("anthropic/claude-m", [opencode(WORK), opencode(WORK)]),
}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    with ModelServer() as server:
        for name in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{name}_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.port}/v1")
        monkeypatch.setenv("GEMINI_API_KEY", KEY)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{server.port}")
        yield server


def prebuilt(make_task) -> Path:
    folder = make_task(toml=TOML, remove=("environment/Dockerfile",))
    (folder / "environment").mkdir(exist_ok=True)
    return folder


def options(name: str) -> list[str]:
    model, _ = SCRIPTS[name]
    return [f"--harbor-agent={name}", f"--harbor-model={model}", "--harbor-network=no-network"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_real_agent_solves_a_task_without_network_or_key(
    run_tasks, make_task, model, name, pytester
) -> None:
    prebuilt(make_task)
    model.script.refill(SCRIPTS[name][1])
    ran = run_tasks(*options(name), "--harbor-setup-timeout-multiplier=2")
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert result["agent_result"]["n_input_tokens"] >= 200
    trajectory = json.loads((ran.folder() / "agent/trajectory.json").read_text())
    calls = [call for step in trajectory["steps"] for call in step.get("tool_calls", ())]
    assert any("out.txt" in json.dumps(call["arguments"]) for call in calls)
    assert (ran.folder() / "agent/model_calls.jsonl").read_text().count("\n") >= 2
    files = (path for path in (pytester.path / "jobs").rglob("*") if path.is_file())
    assert not any(KEY.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_rate_limit_is_waited_for(run_tasks, make_task, model, name) -> None:
    prebuilt(make_task)
    model.script.refill([Turn.rate_limit(), *SCRIPTS[name][1]])
    ran = run_tasks(*options(name))
    ran.run.assert_outcomes(passed=1)
