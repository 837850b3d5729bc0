"""The agent at a terminal: its model's answers, its keys, and talks without a container."""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.agent.base import AgentContext
from pytest_harbor.agent.call import call_agent
from pytest_harbor.agent.faults import AgentAuthenticationError, ApiOverloadedError
from pytest_harbor.agent.model_route import ModelRoute
from pytest_harbor.agent.tmux.agent import TmuxAgent
from pytest_harbor.agent.tmux.model import ChatModel
from pytest_harbor.agent.tmux.reply import read_reply
from pytest_harbor.environment.base import ExecResult
from pytest_harbor.errors import AgentUnableError, OptionError
from tests.model_server import ModelServer, Turn


@dataclass
class Desk:
    """A box whose tmux shows the same screen all the time, and notes what is pressed."""

    screen: str = "$"
    pressed: list[str] = field(default_factory=list)
    ended: bool = False

    def exec(self, command: list[str], **_: Any) -> ExecResult:
        if command[0] == "sh":
            return ExecResult(0, f"7\n{self.screen}\n\n", "", 0.1)
        if "send-keys" in command:
            self.pressed.append(command[-1])
        self.ended = "kill-server" in command
        return ExecResult(0, "", "", 0.1)


def route(server: ModelServer, wire: str = "openai") -> ModelRoute:
    bases = {"openai": f"{server.root}/v1", "anthropic": server.root}
    return ModelRoute(wire, "m", {wire: bases[wire]}, "token-1", is_gateway=True)


def worked(
    turns: list[Turn], tmp_path: Path, *, desk: Desk | None = None, **options: Any
) -> tuple[Desk, AgentContext, ModelServer]:
    desk = desk or Desk()
    with ModelServer(turns) as server:
        context = AgentContext(
            task=None,  # type: ignore[arg-type]
            timeout_sec=None,
            user=None,
            env={},
            logs_dir=tmp_path,
            log=None,
            model=route(server),
        )
        agent = TmuxAgent(model_name="openai/m", **options)
        call_agent(agent.run, desk, context, "Do it.")  # type: ignore[arg-type]
    return desk, context, server


def typed(*keystrokes: str, **more: Any) -> Turn:
    commands = [{"keystrokes": one, "duration": 0} for one in keystrokes]
    return Turn(json.dumps({"plan": "p", "commands": commands, **more}))


DONE = typed(task_complete=True)


def test_keys_go_in_and_the_screen_comes_back(tmp_path: Path) -> None:
    long = "x" * 3000
    desk, context, server = worked(
        [typed("ls;\n", "C-c", "ls;"), typed(long), DONE], tmp_path, desk=Desk("$ a file")
    )
    assert desk.pressed == ["ls;\r", "C-c", "ls\\;", "x" * 2000, "x" * 1000]
    assert desk.ended
    assert server.calls[1].body["messages"][-1]["content"] == "Terminal:\n$ a file"
    trajectory = context.trajectory.build()
    assert trajectory is not None
    assert [step.source for step in trajectory.steps] == ["user", "agent", "agent", "agent"]
    assert trajectory.final_metrics is not None
    assert trajectory.final_metrics.total_prompt_tokens == 300


def test_work_is_done_only_when_that_is_said_without_commands(tmp_path: Path) -> None:
    _, _, server = worked([typed("ls\n", task_complete=True), DONE], tmp_path)
    assert "say so again, without commands" in server.calls[1].body["messages"][-1]["content"]
    assert len(server.calls) == 2


def test_a_model_that_never_answers_as_told_is_given_up(tmp_path: Path) -> None:
    _, context, server = worked([Turn("What shall I do?")] * 9, tmp_path)
    assert len(server.calls) == 5
    assert len(context.trajectory) == 6


def test_turns_are_limited_and_old_ones_left_out(tmp_path: Path) -> None:
    desk = Desk("y" * 4000)
    turns = [typed(f"echo {number}\n") for number in range(9)]
    _, _, server = worked(turns, tmp_path, desk=desk, max_turns=6, max_context_tokens=4000)
    assert len(server.calls) == 6
    first, *later = server.calls[-1].body["messages"]
    assert "Do it." in first["content"]
    assert "Older turns are left out" in first["content"]
    assert 2 <= len(later) < 10
    assert [one["role"] for one in later[:2]] == ["assistant", "user"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no", "no JSON object"),
        ('{"a": 1}', "no JSON object"),
        ('{"commands": "ls"}', "commands"),
        ('{"commands": [{"keystrokes": "x", "duration": -1}]}', "duration"),
        pytest.param('{"analysis":' + "[" * 100_000, "no JSON object", id="deep"),
    ],
)
def test_an_answer_that_cannot_be_read_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_reply(text)


def test_an_answer_may_stand_among_words_and_hold_bare_newlines() -> None:
    reply = read_reply(
        'I think {so}:\n```json\n{"plan": "a", "commands": [{"keystrokes": "a\nb"}]}'
    )
    assert reply.commands[0].keystrokes == "a\nb"
    assert reply.commands[0].wait_sec == 1.0
    assert read_reply('{"commands": [{"duration": 9000}]}').commands[0].wait_sec == 60.0


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_both_protocols_are_spoken_and_faults_got_over(wire: str) -> None:
    turns = [Turn(fault="html"), Turn.rate_limit("0"), Turn("at last")]
    with ModelServer(turns) as server:
        answer = asyncio.run(ask(route(server, wire)))
    assert answer.text == "at last"
    assert answer.metrics == {"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 40}
    assert len(server.calls) == 3
    sent = server.calls[-1]
    assert sent.body["model"] == "m"
    assert "token-1" in (sent.headers.get("x-api-key") or sent.headers["authorization"])


async def ask(way: ModelRoute) -> Any:
    async with ChatModel(way, 0.5, 100) as model:
        return await model.answer([{"role": "user", "content": "hello"}])


@pytest.mark.parametrize(
    ("turn", "error", "calls"),
    [
        (Turn(status=401), AgentAuthenticationError, 1),
        (Turn(status=400), AgentUnableError, 1),
        (Turn(status=529, headers={"Retry-After": "0"}), ApiOverloadedError, 6),
    ],
)
def test_what_cannot_be_got_over_is_no_lack_of_skill(
    turn: Turn, error: type[Exception], calls: int
) -> None:
    with ModelServer(default=turn) as server, pytest.raises(error):
        asyncio.run(ask(route(server)))
    assert len(server.calls) == calls


def test_a_model_is_needed() -> None:
    with pytest.raises(OptionError, match="--harbor-model"):
        TmuxAgent().check(None)  # type: ignore[arg-type]
