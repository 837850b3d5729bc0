"""OpenHands' command line, tried with 1.16.0."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_harbor.agent.cli.entries.shared import given_as, skills_into
from pytest_harbor.agent.cli.entry import CliEntry, Connection, PipPackage, Setting
from pytest_harbor.agent.mcp import McpServerSpec, config_text


def _settings(servers: Sequence[McpServerSpec], _no_web: bool) -> str:
    return config_text(servers) if servers else ""


ENTRY = CliEntry(
    name="openhands",
    version="1.16.0",
    package=PipPackage("openhands", packages=("git", "tmux"), python=((3, 12), (3, 13))),
    binary="openhands",
    # Its library, LiteLLM, tells the protocol by the first part of the model's name.
    connections={
        "anthropic": Connection(
            {"LLM_BASE_URL": "{base_url}", "LLM_API_KEY": "{key}", "LLM_MODEL": "{model}"},
            model="anthropic/{name}",
        ),
        "openai": Connection(
            {"LLM_BASE_URL": "{base_url}", "LLM_API_KEY": "{key}", "LLM_MODEL": "{model}"},
            model="openai/{name}",
        ),
    },
    command=('openhands --headless --json --override-with-envs "$@" {flags} < /dev/null'),
    env={
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENHANDS_SUPPRESS_BANNER": "1",
    },
    settings=(Setting("$HOME/.openhands/mcp.json", _settings),),
    before=skills_into("$HOME/.agents/skills")
    + "\n"
    + given_as('--task "$(cat "$HARBOR_INSTRUCTION_FILE")"', '--file "$HARBOR_INSTRUCTION_FILE"'),
    after=(
        'if [ -d "$HOME/.openhands/conversations" ]; then\n'
        '  cp -r "$HOME/.openhands/conversations" /logs/agent/sessions\n'
        "fi"
    ),
)
