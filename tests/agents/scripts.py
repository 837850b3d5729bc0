"""What a model has to say for each tool to solve the usual task, and where tools are tried."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from tests.conftest import BASE_IMAGE
from tests.model_server import Turn

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
    "openhands": ("openai/m", [with_tool("terminal", command=WORK, security_risk="LOW")] * 2),
}


# OpenHands runs on no other Python, and no package index has one.
IMAGES = {"openhands": os.environ.get("PYTEST_HARBOR_PYTHON_312_IMAGE", "python:3.12-slim")}
