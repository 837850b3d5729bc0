"""Claude Code, tried with 2.1.197."""

from __future__ import annotations

from pathlib import Path

from pytest_harbor.agent.cli.entries.shared import first_readable, skills_into
from pytest_harbor.agent.cli.entry import CliEntry, Connection, NpmPackage, Option
from pytest_harbor.result.agent_logs.claude_code import read_claude_code
from pytest_harbor.result.trajectory import Trajectory


def _trajectory(logs_dir: Path, instruction: str | None) -> Trajectory | None:
    return first_readable(
        logs_dir,
        instruction,
        lambda data, text: read_claude_code(data, instruction=text),
        "claude-code.txt",
        "sessions/projects/*/*.jsonl",
    )


ENTRY = CliEntry(
    name="claude-code",
    version="2.1.197",
    package=NpmPackage("@anthropic-ai/claude-code"),
    binary="claude",
    connections={
        "anthropic": Connection(
            {
                "ANTHROPIC_BASE_URL": "{base_url}",
                "ANTHROPIC_API_KEY": "{key}",
                "ANTHROPIC_MODEL": "{model}",
            }
        )
    },
    # The prompt comes on standard input: an argument has a limit of 128 KiB.
    command=(
        "claude --print --verbose --output-format stream-json --dangerously-skip-permissions"
        ' --model "$HARBOR_MODEL" {flags} < "$HARBOR_INSTRUCTION_FILE"'
    ),
    env={
        "CLAUDE_CONFIG_DIR": "/logs/agent/sessions",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        # It refuses to skip permissions as root anywhere but in a sandbox.
        "IS_SANDBOX": "1",
    },
    options={
        "max_turns": Option("--max-turns {value}"),
        "reasoning_effort": Option("--effort {value}"),
        "max_thinking_tokens": Option(env="MAX_THINKING_TOKENS"),
        "max_budget_usd": Option("--max-budget-usd {value}"),
        "fallback_model": Option("--fallback-model {value}"),
        "append_system_prompt": Option("--append-system-prompt {value}"),
        "allowed_tools": Option("--allowedTools={value}"),
        "disallowed_tools": Option("--disallowedTools={value}"),
    },
    mcp_flags='--mcp-config="$HARBOR_MCP_CONFIG"',
    no_web_flags="--disallowedTools=WebSearch,WebFetch",
    before=skills_into("$CLAUDE_CONFIG_DIR/skills"),
    trajectory=_trajectory,
)
