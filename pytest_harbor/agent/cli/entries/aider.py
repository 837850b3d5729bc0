"""Aider, tried with 0.86.2."""

from __future__ import annotations

from pytest_harbor.agent.cli.entry import CliEntry, Connection, Option, PipPackage

ENTRY = CliEntry(
    name="aider",
    version="0.86.2",
    package=PipPackage("aider-chat", packages=("git", "libsqlite3-0"), python=((3, 10), (3, 13))),
    binary="aider",
    connections={
        "openai": Connection(
            {"OPENAI_API_BASE": "{base_url}", "OPENAI_API_KEY": "{key}"}, model="openai/{name}"
        ),
        "anthropic": Connection(
            {"ANTHROPIC_API_BASE": "{base_url}", "ANTHROPIC_API_KEY": "{key}"},
            model="anthropic/{name}",
        ),
    },
    # Its histories would lie in the working folder, and be graded with it.
    command=(
        "aider --yes-always --no-git --no-check-update --analytics-disable --no-gitignore"
        " --no-show-model-warnings --chat-history-file /logs/agent/aider.chat.history.md"
        " --input-history-file /tmp/aider.input.history --llm-history-file /dev/null"
        ' --model "$HARBOR_MODEL" --message-file "$HARBOR_INSTRUCTION_FILE" {flags} < /dev/null'
    ),
    env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    options={
        "reasoning_effort": Option("--reasoning-effort {value}"),
        "thinking_tokens": Option("--thinking-tokens {value}"),
        "map_tokens": Option("--map-tokens {value}"),
        "cache_prompts": Option("--cache-prompts"),
        "auto_lint": Option("--auto-lint"),
        "auto_test": Option("--auto-test"),
        "test_cmd": Option("--test-cmd {value}"),
        "weak_model": Option("--weak-model {value}"),
    },
    supports_mcp=False,
    supports_skills=False,
)
