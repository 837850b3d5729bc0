"""The agent: a loop between a model and a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_harbor.agent.aio import AsyncEnvironment
from pytest_harbor.agent.base import Agent, AgentContext
from pytest_harbor.agent.cli.install import install_here, packages_script
from pytest_harbor.agent.model_route import ModelRoute
from pytest_harbor.agent.tmux.reply import RULES, Reply, read_reply
from pytest_harbor.agent.tmux.terminal import Terminal
from pytest_harbor.environment.base import Environment, ImageLayer
from pytest_harbor.errors import OptionError
from pytest_harbor.model_gateway import load
from pytest_harbor.task.model import Task

if TYPE_CHECKING:
    from pytest_harbor.agent.tmux.model import ChatModel

_INSTALL = f"if command -v tmux >/dev/null; then exit 0; fi\n{packages_script('tmux')}"
_MAX_UNREADABLE = 5
_CHARS_PER_TOKEN = 4
_SKILLS = "\nThe folder {folder} holds skills: what its SKILL.md files say may help.\n"


class TmuxAgent(Agent):
    """A model that types into a terminal and reads its screen; the loop runs on this machine.

    Keyword arguments: ``max_turns`` (answers of the model's), ``temperature``,
    ``max_output_tokens`` (of one answer, with Anthropic's protocol), ``max_context_tokens``
    (older turns are left out beyond them, by a rough count), ``tmux_pane_width`` and
    ``tmux_pane_height``, ``base_url`` (of the model's provider).
    """

    name = "tmux"
    version = "1.0.0"
    model_wires = ("anthropic", "openai")
    calls_model_from = "host"
    # So that the terminal can be ended after the limit.
    keeps_time = True
    supports_mcp = False

    def __init__(
        self,
        *,
        model_name: str | None = None,
        max_turns: int = 1000,
        temperature: float | None = None,
        max_output_tokens: int = 16_000,
        max_context_tokens: int = 120_000,
        tmux_pane_width: int = 160,
        tmux_pane_height: int = 40,
        base_url: str | None = None,
    ) -> None:
        super().__init__(model_name=model_name)
        self.base_url = base_url
        self._max_turns = max_turns
        self._temperature, self._max_output_tokens = temperature, max_output_tokens
        self._max_chars = max_context_tokens * _CHARS_PER_TOKEN
        self._size = {"width": tmux_pane_width, "height": tmux_pane_height}

    def check(self, task: Task) -> None:
        """See that there is a model, and what it takes to call one."""
        if not self.model_name:
            raise OptionError("agent tmux needs a model: --harbor-model=PROVIDER/NAME")
        load()

    def layers(self, timeout_sec: float | None) -> tuple[ImageLayer, ...]:
        """tmux, where the image lacks it."""
        return (ImageLayer(name="tmux", script=_INSTALL, timeout_sec=timeout_sec),)

    def setup(self, environment: Environment, context: AgentContext) -> None:
        """Install tmux where the environment could not be made with it."""
        if environment.exec(["tmux", "-V"]).exit_code != 0:
            install_here(environment, context, "tmux", _INSTALL)

    async def run(
        self, instruction: str, environment: AsyncEnvironment, context: AgentContext
    ) -> None:
        """Let the model type until it says that all is done."""
        from pytest_harbor.agent.tmux.model import ChatModel

        route = context.model or ModelRoute()
        async with (
            ChatModel(route, self._temperature, self._max_output_tokens) as model,
            Terminal(environment, **self._size) as terminal,
        ):
            skills = _SKILLS.format(folder=context.skills_dir) if context.skills_dir else ""
            shown = await terminal.look()
            prompt = f"{RULES}{skills}\nTask:\n{instruction}\n\nTerminal:\n{shown}"
            context.trajectory.user(prompt)
            await self._converse(prompt, model, terminal, context)

    async def _converse(
        self, prompt: str, model: ChatModel, terminal: Terminal, context: AgentContext
    ) -> None:
        messages = [{"role": "user", "content": prompt}]
        unreadable = 0
        for turn in range(self._max_turns):
            answer = await model.answer(_within(messages, self._max_chars))
            try:
                reply = read_reply(answer.text)
            except ValueError as error:
                unreadable += 1
                context.trajectory.agent(answer.text, metrics=answer.metrics)
                if unreadable == _MAX_UNREADABLE:
                    return
                seen = f"Your answer cannot be read: {error}. Answer as you were told to."
            else:
                unreadable = 0
                _keep(reply, turn, answer.metrics, context)
                if reply.task_complete and not reply.commands:
                    return
                seen = await _carry_out(reply, terminal)
            context.trajectory.observe(seen)
            messages.append({"role": "assistant", "content": answer.text or "(nothing)"})
            messages.append({"role": "user", "content": seen})


def _keep(reply: Reply, turn: int, metrics: Any, context: AgentContext) -> None:
    calls = [
        {
            "tool_call_id": f"{turn + 1}.{number}",
            "function_name": "keystrokes",
            "arguments": keys.model_dump(),
        }
        for number, keys in enumerate(reply.commands, 1)
    ]
    context.trajectory.agent(reply.words, tool_calls=calls or None, metrics=metrics)


async def _carry_out(reply: Reply, terminal: Terminal) -> str:
    for keys in reply.commands:
        if keys.keystrokes:
            await terminal.press(keys.keystrokes)
        await asyncio.sleep(keys.wait_sec)
    shown = f"Terminal:\n{await terminal.look()}"
    if not reply.task_complete:
        return shown
    return f"{shown}\n\nIf all is done, say so again, without commands."


def _within(messages: Sequence[dict[str, str]], max_chars: int) -> list[dict[str, str]]:
    """The first message and as many of the last as there is room for."""
    first, *later = messages
    room = max_chars - len(first["content"])
    sizes = [len(message["content"]) for message in later]
    start = 0
    while sum(sizes[start:]) > room and start < len(later) - 2:
        start += 2
    if start == 0:
        return list(messages)
    note = "\n\n[Older turns are left out here.]"
    return [{**first, "content": first["content"] + note}, *later[start:]]
