"""Codex, tried with 0.171.0."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_harbor.agent.cli.entries.shared import first_readable, sessions_from, skills_into
from pytest_harbor.agent.cli.entry import CliEntry, Connection, NpmPackage, Option, Setting
from pytest_harbor.agent.mcp import McpServerSpec, header_variables
from pytest_harbor.result.agent_logs.codex import read_codex
from pytest_harbor.result.trajectory import Trajectory


def _settings(servers: Sequence[McpServerSpec], no_web: bool) -> str:
    """``config.toml``; JSON's strings and lists are TOML's, too."""
    lines = [
        "check_for_update_on_startup = false",
        *(['web_search = "disabled"'] if no_web else []),
        "[analytics]",
        "enabled = false",
        "[features]",
        "plugins = false",
        "apps = false",
    ]
    variables = iter(header_variables(servers))
    for server in servers:
        lines += _server(server, variables)
    return "\n".join(lines) + "\n"


def _server(server: McpServerSpec, variables: Iterator[str]) -> list[str]:
    lines = [f"[mcp_servers.{json.dumps(server.name)}]"]
    if server.transport == "stdio":
        return [
            *lines,
            f"command = {json.dumps(server.command)}",
            f"args = {json.dumps(list(server.args))}",
        ]
    headers = [f"{json.dumps(name)} = {json.dumps(next(variables))}" for name in server.headers]
    lines.append(f"url = {json.dumps(server.url)}")
    if headers:
        lines.append(f"env_http_headers = {{ {', '.join(headers)} }}")
    return lines


def _trajectory(logs_dir: Path, instruction: str | None) -> Trajectory | None:
    return first_readable(
        logs_dir,
        instruction,
        lambda data, text: read_codex(data, instruction=text),
        "sessions/rollout-*.jsonl",
        "codex.txt",
    )


# One setting per line of a table that is given whole: the base URL stands in it.
_PROVIDER = (
    "-c 'model_provider=\"harbor\"'"
    ' -c "model_providers.harbor={name=\\"harbor\\",base_url=\\"$HARBOR_BASE_URL\\",'
    'env_key=\\"OPENAI_API_KEY\\",wire_api=\\"responses\\"}"'
)

ENTRY = CliEntry(
    name="codex",
    version="0.171.0",
    package=NpmPackage("@openai/codex", native="*/vendor/*/bin/codex"),
    binary="codex",
    connections={
        "openai": Connection({"OPENAI_API_KEY": "{key}", "CODEX_API_KEY": "{key}"}, flags=_PROVIDER)
    },
    command=(
        "codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --json"
        ' -m "$HARBOR_MODEL" {flags} - < "$HARBOR_INSTRUCTION_FILE"'
    ),
    # Not below /logs: its state holds a database and the skills that it brings.
    env={"CODEX_HOME": "/tmp/codex-home"},
    options={
        "reasoning_effort": Option("-c model_reasoning_effort={value}"),
        "reasoning_summary": Option("-c model_reasoning_summary={value}"),
    },
    settings=(Setting("$CODEX_HOME/config.toml", _settings),),
    before=skills_into("$HOME/.agents/skills"),
    after=sessions_from('"$CODEX_HOME/sessions"', "rollout-*"),
    trajectory=_trajectory,
)
