"""OpenCode, tried with 1.18.33."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_harbor.agent.cli.entries.shared import skills_into
from pytest_harbor.agent.cli.entry import CliEntry, Connection, NpmPackage, Setting
from pytest_harbor.agent.mcp import McpServerSpec, header_variables


def _settings(servers: Sequence[McpServerSpec], _no_web: bool) -> str:
    variables = iter(header_variables(servers))
    return json.dumps({"mcp": {server.name: _server(server, variables) for server in servers}})


def _server(server: McpServerSpec, variables: Iterator[str]) -> dict[str, Any]:
    if server.transport == "stdio":
        return {"type": "local", "command": [server.command, *server.args], "enabled": True}
    headers = {name: f"{{env:{next(variables)}}}" for name in server.headers}
    return {"type": "remote", "url": server.url, "headers": headers, "enabled": True}


def _provider(name: str, base_url: str) -> str:
    """Its configuration; a model that it does not know has to be named in it."""
    provider = {"options": {"baseURL": base_url}, "models": {"{short}": {}}}
    return json.dumps({"provider": {name: provider}, "permission": "allow", "autoupdate": False})


ENTRY = CliEntry(
    name="opencode",
    version="1.18.33",
    package=NpmPackage("opencode-ai"),
    binary="opencode",
    connections={
        "anthropic": Connection(
            {
                "OPENCODE_CONFIG_CONTENT": _provider("anthropic", "{base_url}/v1"),
                "ANTHROPIC_API_KEY": "{key}",
            },
            model="anthropic/{name}",
        ),
        "openai": Connection(
            {
                "OPENCODE_CONFIG_CONTENT": _provider("openai", "{base_url}"),
                "OPENAI_API_KEY": "{key}",
            },
            model="openai/{name}",
        ),
    },
    # As an argument the prompt would reach the model within quotation marks.
    command=('opencode run --format json -m "$HARBOR_MODEL" {flags} < "$HARBOR_INSTRUCTION_FILE"'),
    env={"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
    settings=(Setting("$HOME/.config/opencode/opencode.json", _settings),),
    before=skills_into("$HOME/.config/opencode/skills"),
    after=(
        'if [ -d "$HOME/.local/share/opencode/log" ]; then\n'
        '  cp -r "$HOME/.local/share/opencode/log" /logs/agent/opencode-log\n'
        "fi"
    ),
)
