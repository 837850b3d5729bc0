"""Qwen Code, tried with 0.15.10."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pytest_harbor.agent.cli.entries.gemini_cli import mcp_servers
from pytest_harbor.agent.cli.entries.shared import sessions_from, skills_into
from pytest_harbor.agent.cli.entry import CliEntry, Connection, NpmPackage, Setting
from pytest_harbor.agent.mcp import McpServerSpec


def _settings(servers: Sequence[McpServerSpec], _no_web: bool) -> str:
    return json.dumps(
        {
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
            "mcpServers": mcp_servers(servers),
        }
    )


ENTRY = CliEntry(
    name="qwen-coder",
    version="0.15.10",
    package=NpmPackage("@qwen-code/qwen-code", node=22),
    binary="qwen",
    connections={
        "openai": Connection(
            {"OPENAI_BASE_URL": "{base_url}", "OPENAI_API_KEY": "{key}", "OPENAI_MODEL": "{model}"}
        )
    },
    command=(
        "qwen --yolo --auth-type openai --output-format stream-json {flags}"
        ' < "$HARBOR_INSTRUCTION_FILE"'
    ),
    settings=(Setting("$HOME/.qwen/settings.json", _settings),),
    before=skills_into("$HOME/.qwen/skills"),
    after=sessions_from('"$HOME/.qwen/projects"', "*.jsonl"),
)
