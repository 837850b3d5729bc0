"""Gemini CLI, tried with 0.61.0."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_harbor.agent.cli.entries.shared import first_readable, sessions_from, skills_into
from pytest_harbor.agent.cli.entry import CliEntry, Connection, NpmPackage, Setting
from pytest_harbor.agent.mcp import McpServerSpec, header_variables
from pytest_harbor.result.agent_logs.gemini_cli import read_gemini_cli
from pytest_harbor.result.trajectory import Trajectory

_URL_KEYS = {"sse": "url", "streamable-http": "httpUrl"}


def mcp_servers(servers: Sequence[McpServerSpec]) -> dict[str, Any]:
    """The table ``mcpServers`` as this tool, and those made from it, read it."""
    variables = iter(header_variables(servers))
    return {server.name: _server(server, variables) for server in servers}


def _server(server: McpServerSpec, variables: Iterator[str]) -> dict[str, Any]:
    if server.transport == "stdio":
        return {"command": server.command, "args": list(server.args)}
    headers = {name: f"${{{next(variables)}}}" for name in server.headers}
    return {_URL_KEYS[server.transport]: server.url, "headers": headers}


def _settings(servers: Sequence[McpServerSpec], no_web: bool) -> str:
    tools = {"tools": {"exclude": ["google_web_search", "web_fetch"]}} if no_web else {}
    return json.dumps(
        {
            # Without it the base URL selects a way to log in that needs a person.
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
            "experimental": {"skills": True},
            "mcpServers": mcp_servers(servers),
            **tools,
        }
    )


def _trajectory(logs_dir: Path, instruction: str | None) -> Trajectory | None:
    return first_readable(
        logs_dir, instruction, lambda data, _: read_gemini_cli(data), "sessions/session-*"
    )


ENTRY = CliEntry(
    name="gemini-cli",
    version="0.61.0",
    package=NpmPackage("@google/gemini-cli", node=22),
    binary="gemini",
    connections={
        "gemini": Connection({"GOOGLE_GEMINI_BASE_URL": "{base_url}", "GEMINI_API_KEY": "{key}"})
    },
    command=(
        'gemini -m "$HARBOR_MODEL" --yolo --output-format stream-json {flags}'
        ' < "$HARBOR_INSTRUCTION_FILE"'
    ),
    env={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    settings=(Setting("$HOME/.gemini/settings.json", _settings),),
    before=skills_into("$HOME/.gemini/skills"),
    after=sessions_from('"$HOME"/.gemini/tmp/*/chats', "session-*"),
    trajectory=_trajectory,
)
