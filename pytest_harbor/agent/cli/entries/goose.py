"""Goose, tried with 1.52.0."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_harbor.agent.cli.entries.shared import skills_into
from pytest_harbor.agent.cli.entry import CliEntry, Connection, NpmPackage, Option, Setting
from pytest_harbor.agent.mcp import McpServerSpec, header_variables

_BUILTIN = {"type": "builtin", "name": "developer", "enabled": True, "timeout": 300}


def _settings(servers: Sequence[McpServerSpec], _no_web: bool) -> str:
    """``config.yaml``; JSON is YAML, too."""
    variables = iter(header_variables(servers))
    own = {server.name: _server(server, variables) for server in servers}
    return json.dumps({"extensions": {"developer": _BUILTIN, **own}})


def _server(server: McpServerSpec, variables: Iterator[str]) -> dict[str, Any]:
    shared = {"name": server.name, "description": "", "enabled": True, "timeout": 300}
    if server.transport == "stdio":
        return {**shared, "type": "stdio", "cmd": server.command, "args": list(server.args)}
    names = {name: next(variables) for name in server.headers}
    return {
        **shared,
        # It has no other kind of client for servers with a URL any more.
        "type": "streamable_http",
        "uri": server.url,
        "headers": {name: f"${{{variable}}}" for name, variable in names.items()},
        "env_keys": list(names.values()),
    }


ENTRY = CliEntry(
    name="goose",
    version="1.52.0",
    package=NpmPackage("@aaif/goose-binary-linux-{cpu}", native="*/bin/goose"),
    binary="goose",
    connections={
        "openai": Connection(
            {
                "GOOSE_PROVIDER": "openai",
                "OPENAI_BASE_URL": "{base_url}",
                "OPENAI_API_KEY": "{key}",
                "GOOSE_MODEL": "{model}",
            }
        ),
        "anthropic": Connection(
            {
                "GOOSE_PROVIDER": "anthropic",
                "ANTHROPIC_HOST": "{base_url}",
                "ANTHROPIC_API_KEY": "{key}",
                "GOOSE_MODEL": "{model}",
            }
        ),
    },
    command=(
        'goose run --instructions "$HARBOR_INSTRUCTION_FILE" --output-format stream-json'
        " {flags} < /dev/null"
    ),
    env={
        "GOOSE_MODE": "auto",
        "GOOSE_DISABLE_KEYRING": "true",
        "GOOSE_TELEMETRY_OFF": "1",
        "XDG_STATE_HOME": "/logs/agent/goose-state",
    },
    options={
        "max_turns": Option("--max-turns {value}"),
        "reasoning_effort": Option(env="GOOSE_THINKING_EFFORT"),
        "temperature": Option(env="GOOSE_TEMPERATURE"),
        "max_tokens": Option(env="GOOSE_MAX_TOKENS"),
        "context_limit": Option(env="GOOSE_CONTEXT_LIMIT"),
    },
    settings=(Setting("$HOME/.config/goose/config.yaml", _settings),),
    before=skills_into("$HOME/.config/goose/skills"),
)
