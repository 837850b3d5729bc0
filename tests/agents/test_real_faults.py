"""Real command line agents whose model fails, is slow, or may not be asked any more."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.agents.test_real_agents import SCRIPTS, TOML
from tests.model_server import Turn

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(900)]

TOOLS = ("mini-swe-agent", "claude-code", "codex")
STREAMING = ("claude-code", "codex")
LONG_TEXT = "word " * 30
TIMED = f"""\
=version = "1.0"
[agent]
timeout_sec = {{seconds}}
[verifier]
timeout_sec = 60
[environment]
{TOML}"""


def fault_of(result: Mapping[str, Any]) -> str:
    return str((result["exception_info"] or {}).get("exception_type"))


class Runs:
    """Runs one tool on one task whose image all tests share."""

    def __init__(self, run_tasks: Any, make_task: Any, model: Any) -> None:
        self._run_tasks, self._make_task, self._model = run_tasks, make_task, model

    def __call__(
        self, name: str, turns: list[Any], *more: str, seconds: int = 120, **changed: Any
    ) -> Any:
        toml = TIMED.format(seconds=seconds)
        folder = self._make_task(toml=toml, remove=("environment/Dockerfile",), **changed)
        (folder / "environment").mkdir(exist_ok=True)
        self._model.script.refill(turns)
        wanted = [f"--harbor-agent={name}", f"--harbor-model={SCRIPTS[name][0]}"]
        return self._run_tasks(*wanted, "--harbor-network=no-network", *more)


@pytest.fixture
def run_tool(run_tasks, make_task, model) -> Runs:
    return Runs(run_tasks, make_task, model)


def always(model: Any, turn: Any) -> None:
    model.script.default = turn


# -- faults that are got over -----------------------------------------------------

ONCE = {
    "overload": Turn(status=529, error="overloaded"),
    "unavailable": Turn(status=503, error="try again"),
    "page": Turn(fault="html"),
    "reset": Turn(fault="reset"),
}


@pytest.mark.parametrize("name", TOOLS)
def test_overloads_and_stray_pages_are_got_over(run_tool, name) -> None:
    ran = run_tool(name, [*ONCE.values(), *SCRIPTS[name][1]], seconds=240)
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["exception_info"] is None
    calls = (ran.folder() / "agent/model_calls.jsonl").read_text().splitlines()
    outcomes = [json.loads(call)["outcome"] for call in calls]
    assert outcomes[:4] == ["refused", "refused", "not_json", "unreachable"]


@pytest.mark.parametrize("name", TOOLS)
def test_one_answer_that_is_cut_is_got_over(run_tool, name) -> None:
    ran = run_tool(name, [Turn(LONG_TEXT, fault="cut"), *SCRIPTS[name][1]], seconds=240)
    ran.run.assert_outcomes(passed=1)
    assert ran.one()["exception_info"] is None


@pytest.mark.parametrize("fault", ["cut", "early_end", "malformed", "error_event"])
def test_what_was_said_of_a_broken_answer_is_no_lack_of_skill(run_tool, model, fault) -> None:
    # The text before the break is whole, so that the tool may take it for the answer.
    turn = Turn.tool("Bash", "first", command="true", description="w")
    always(model, replace(turn, fault=fault))
    ran = run_tool("claude-code", [], seconds=30)
    assert ran.one()["pytest_harbor"]["category"] == "agent"
    ran.run.assert_outcomes(failed=1)


# -- faults that stay ---------------------------------------------------------------

STAYING = {
    "cut": (Turn(LONG_TEXT, fault="cut"), "ApiConnectionClosedError"),
    "wrong-key": (Turn(status=401, error="wrong key"), "AgentAuthenticationError"),
    "page": (Turn(fault="html"), "UnknownApiError"),
    "overload": (Turn(status=529, error="overloaded"), "ApiOverloadedError"),
}


@pytest.mark.parametrize("fault", STAYING)
@pytest.mark.parametrize("name", TOOLS)
def test_a_model_that_fails_for_good_is_no_lack_of_skill(run_tool, model, name, fault) -> None:
    turn, expected = STAYING[fault]
    always(model, turn)
    ran = run_tool(name, [], seconds=90 if name == "mini-swe-agent" else 30)
    ran.run.assert_outcomes(failed=1)
    result = ran.one()
    assert result["pytest_harbor"]["category"] == "agent"
    assert result["reward_valid"] is False
    assert expected in json.dumps(result)


# -- time and limits -----------------------------------------------------------------

GRADED_ALONE = """\
#!/bin/bash
for status in /proc/[0-9]*/cmdline; do
  if tr '\\0' ' ' < "$status" 2>/dev/null | grep -qE '[c]laude|[c]odex|[b]in/mini'; then
    echo "alive: $status"; echo 0 > /logs/verifier/reward.txt; exit
  fi
done
[ "$(cat /app/out.txt)" = ok ] && echo 1 > /logs/verifier/reward.txt
"""


@pytest.mark.parametrize("name", STREAMING)
def test_a_slow_answer_ends_with_the_agents_time_and_the_work_is_graded(run_tool, name) -> None:
    slow = Turn("word " * 2000, pause_sec=0.2)
    ran = run_tool(name, [*SCRIPTS[name][1], slow], seconds=30, test=GRADED_ALONE)
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert fault_of(result) == "AgentTimeoutError"
    trajectory = json.loads((ran.folder() / "agent/trajectory.json").read_text())
    assert "out.txt" in json.dumps(trajectory["steps"])
    (_, last) = (ran.folder() / "agent/model_calls.jsonl").read_text().splitlines()
    assert json.loads(last)["outcome"] == "client_gone"


PRICES = """\
["anthropic/claude-m"]
input = 1.0
output = 1000.0
["openai/m"]
input = 1.0
output = 1000.0
"""


@pytest.mark.parametrize(
    ("name", "limit", "said"),
    [
        ("mini-swe-agent", "--harbor-max-calls=3", "limit of 3 model calls"),
        ("claude-code", "--harbor-max-calls=3", "limit of 3 model calls"),
        ("codex", "--harbor-max-tokens=300", "limit of 300 tokens"),
        ("claude-code", "--harbor-max-cost=0.05", "limit of 0.05 US dollars"),
    ],
)
def test_a_limit_ends_a_tool_and_is_the_reason_in_the_result(
    run_tool,
    model,
    pytester,
    name,
    limit,
    said,
) -> None:
    (pytester.path / "prices.toml").write_text(PRICES)
    again = SCRIPTS[name][1][0]
    always(model, again)
    ran = run_tool(name, [again], limit, "--harbor-prices=prices.toml", seconds=240)
    ran.run.assert_outcomes(passed=1)
    result = ran.one()
    assert fault_of(result) == "AgentModelLimitError"
    assert said in result["exception_info"]["exception_message"]
    assert result["pytest_harbor"]["category"] == "reward"
    assert len(model.calls) == 3


# -- MCP servers and skills ----------------------------------------------------------

VAULT = r"""
$| = 1;
while (<STDIN>) {
  my ($id) = /"id"\s*:\s*("?[\w-]+"?)/;
  my ($method) = /"method"\s*:\s*"([^"]+)"/;
  next unless defined $id;
  my $result = "{}";
  if ($method eq "initialize") {
    my ($version) = /"protocolVersion"\s*:\s*"([^"]+)"/;
    $result = qq({"protocolVersion":"$version","capabilities":{"tools":{}},)
      . qq("serverInfo":{"name":"vault","version":"1"}});
  } elsif ($method eq "tools/list") {
    $result = qq({"tools":[{"name":"open_vault","description":"Opens the vault.",)
      . qq("inputSchema":{"type":"object","properties":{}}}]});
  } elsif ($method eq "tools/call") {
    $result = qq({"content":[{"type":"text","text":"a heron is inside"}]});
  }
  print qq({"jsonrpc":"2.0","id":$id,"result":$result}\n);
}
"""
SKILL = """\
---
name: find-the-bird
description: How to find a bittern in any vault.
---
Open the vault.
"""
WITH_TOOLS = """\
=version = "1.0"
[agent]
timeout_sec = 180
[verifier]
timeout_sec = 60
[environment]
network_mode = "allowlist"
allowed_hosts = ["a.example"]
skills_dir = "/skills"
[[environment.mcp_servers]]
name = "vault"
transport = "stdio"
command = "perl"
args = ["/opt/vault.pl"]
"""
IMAGE = """\
FROM debian:bookworm-slim
COPY vault.pl /opt/vault.pl
COPY skills /skills
WORKDIR /app
"""
CALLS = {"claude-code": "mcp__vault__open_vault", "gemini-cli": "mcp_vault_open_vault"}


def work_once_seen(name: str) -> Any:
    """Work only if what the server said has reached the model."""
    done = SCRIPTS[name][1][0]
    return lambda body: done if "a heron is inside" in json.dumps(body) else Turn("no bird")


def with_tools(make_task: Any, toml: str, **changed: Any) -> Any:
    folder = make_task(toml=toml, dockerfile=IMAGE, **changed)
    make_task.write(folder, "environment/vault.pl", VAULT)
    make_task.write(folder, "environment/skills/find-the-bird/SKILL.md", SKILL)
    return folder


@pytest.mark.parametrize("name", CALLS)
def test_servers_and_skills_reach_a_tool_in_every_step_of_a_compose_task(
    run_tasks,
    make_task,
    model,
    name,
) -> None:
    steps = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    folder = with_tools(make_task, WITH_TOOLS + steps, remove=("instruction.md",))
    for step in ("one", "two"):
        make_task.write(folder, f"steps/{step}/instruction.md", f"Find the bird of {step}.\n")
    make_task.write(folder, "environment/docker-compose.yaml", "services:\n  main: {init: true}\n")
    look = Turn.tool(CALLS[name])
    turns = [look, work_once_seen(name), Turn("done")]
    model.script.refill([*turns, *turns])
    ran = run_tasks("tasks", f"--harbor-agent={name}", f"--harbor-model={SCRIPTS[name][0]}")
    ran.run.assert_outcomes(passed=1)
    assert len(model.calls) == 6
    assert "find a bittern in any vault" in json.dumps(model.calls[0].body)
    assert "Find the bird of two" in json.dumps(model.calls[3].body)
    steps_told = [step["pytest_harbor"] for step in ran.one()["step_results"]]
    assert len(steps_told) == 2


def test_codex_offers_its_model_a_tasks_servers_and_skills(run_tasks, make_task, model) -> None:
    with_tools(make_task, WITH_TOOLS)
    model.script.refill(SCRIPTS["codex"][1])
    ran = run_tasks("tasks", "--harbor-agent=codex", "--harbor-model=openai/m")
    ran.run.assert_outcomes(passed=1)
    offered = json.dumps(model.calls[0].body)
    assert "open_vault" in offered
    assert "find a bittern in any vault" in offered


# -- long instructions ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini-cli", "qwen-coder"])
def test_an_instruction_longer_than_an_argument_reaches_the_model_whole(
    run_tool,
    model,
    name,
) -> None:
    text = "A long story. " * 12_000 + "The last word is bittern.\n"
    ran = run_tool(name, SCRIPTS[name][1], instruction=text)
    ran.run.assert_outcomes(passed=1)
    sent = json.dumps(model.calls[0].body)
    assert sent.count("A long story.") >= 12_000
    assert "The last word is bittern." in sent


def test_one_that_no_argument_holds_is_told_before_any_container(run_tool) -> None:
    ran = run_tool("mini-swe-agent", [], instruction="word " * 30_000)
    ran.run.assert_outcomes(errors=1)
    assert "takes it as an argument, of which Linux allows less than 131072 bytes" in ran.text
    assert not ran.trials
