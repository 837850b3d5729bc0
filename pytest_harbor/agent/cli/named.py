"""The agents by which entry points name the tools."""

from __future__ import annotations

from pytest_harbor.agent.cli.agent import CliAgent
from pytest_harbor.agent.cli.entries import claude_code, codex, mini_swe_agent


class ClaudeCode(CliAgent):
    """Anthropic's Claude Code."""

    entry = claude_code.ENTRY


class Codex(CliAgent):
    """OpenAI's Codex."""

    entry = codex.ENTRY


class MiniSweAgent(CliAgent):
    """mini-SWE-agent."""

    entry = mini_swe_agent.ENTRY
