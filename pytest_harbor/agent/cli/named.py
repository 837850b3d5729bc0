"""The agents by which entry points name the tools."""

from __future__ import annotations

from pytest_harbor.agent.cli.agent import CliAgent
from pytest_harbor.agent.cli.entries import (
    aider,
    claude_code,
    codex,
    gemini_cli,
    goose,
    mini_swe_agent,
    opencode,
    openhands,
    qwen_coder,
    swe_agent,
)


class Aider(CliAgent):
    """Aider."""

    entry = aider.ENTRY


class ClaudeCode(CliAgent):
    """Anthropic's Claude Code."""

    entry = claude_code.ENTRY


class Codex(CliAgent):
    """OpenAI's Codex."""

    entry = codex.ENTRY


class GeminiCli(CliAgent):
    """Google's Gemini CLI."""

    entry = gemini_cli.ENTRY


class Goose(CliAgent):
    """Goose, of the Agentic AI Foundation."""

    entry = goose.ENTRY


class MiniSweAgent(CliAgent):
    """mini-SWE-agent."""

    entry = mini_swe_agent.ENTRY


class OpenCode(CliAgent):
    """OpenCode."""

    entry = opencode.ENTRY


class OpenHands(CliAgent):
    """OpenHands."""

    entry = openhands.ENTRY


class QwenCoder(CliAgent):
    """Alibaba's Qwen Code."""

    entry = qwen_coder.ENTRY


class SweAgent(CliAgent):
    """SWE-agent."""

    entry = swe_agent.ENTRY
