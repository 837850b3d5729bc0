"""Real command line agents solve a task under ``no-network``, with a scripted model."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.registry import make_agent
from tests.agents.conftest import KEY
from tests.conftest import BASE_IMAGE
from tests.model_server import Turn

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(1500)]

WORK = "echo ok > /app/out.txt"
# One image for all tasks, so that each tool is installed once.
TOML = f'docker_image = "{BASE_IMAGE}"\nworkdir = "/app"\n'


def mini(command: str) -> Turn:
    return Turn.tool("bash", command=command)


def with_tool(suffix: str, **arguments: Any) -> Callable[[dict[str, Any]], Turn]:
    """A call of the tool whose name ends so; no tool where the call is one on the side."""

    def turn(body: dict[str, Any]) -> Turn:
        tools = (tool.get("function", tool) for tool in body.get("tools") or ())
        names = [tool["name"] for tool in tools if tool["name"].endswith(suffix)]
        return Turn.tool(names[0], **arguments) if names else Turn("a title")

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
    "opencode": ("anthropic/claude-m", [with_tool("bash", command=WORK, description="w")] * 2),
    "aider": ("openai/m", [Turn("I write it.\n\nout.txt\n```\nok\n```\n")]),
    "goose": ("openai/m", [with_tool("shell", command=WORK)] * 2),
    "openhands": ("openai/m", [with_tool("terminal", command=WORK)] * 2),
}


# OpenHands runs on no other Python, and no package index has one.
IMAGES = {"openhands": os.environ.get("PYTEST_HARBOR_PYTHON_312_IMAGE", "python:3.12-slim")}


def prebuilt(make_task, engine, name: str = "") -> Path:
    image = IMAGES.get(name, BASE_IMAGE)
    if name in IMAGES and not engine.api.images(image):
        pytest.skip(f"{name} is tried in the image {image}, and the engine has none")
    toml = TOML.replace(BASE_IMAGE, image)
    folder = make_task(toml=toml, remove=("environment/Dockerfile",))
    (folder / "environment").mkdir(exist_ok=True)
    return folder


def options(name: str) -> list[str]:
    model, _ = SCRIPTS[name]
    return [f"--harbor-agent={name}", f"--harbor-model={model}", "--harbor-network=no-network"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_real_agent_solves_a_task_without_network_or_key(
    run_tasks, make_task, model, name, pytester, engine
) -> None:
    prebuilt(make_task, engine, name)
    model.script.refill(SCRIPTS[name][1])
    ran = run_tasks(*options(name), "--harbor-setup-timeout-multiplier=2")
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
def test_a_rate_limit_is_waited_for(run_tasks, make_task, model, name, engine) -> None:
    prebuilt(make_task, engine, name)
    model.script.refill([Turn.rate_limit(), *SCRIPTS[name][1]])
    ran = run_tasks(*options(name))
    ran.run.assert_outcomes(passed=1)
