"""Real command line agents whose model fails, is slow, or may not be asked any more."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.agents.scripts import SCRIPTS
from tests.model_server import Turn

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(900)]

TOOLS = ("mini-swe-agent", "claude-code", "codex")
STREAMING = ("claude-code", "codex")
LONG_TEXT = "word " * 30
ONE_TRY = "--harbor-retries=0"


def fault_of(result: Mapping[str, Any]) -> str:
    return str((result["exception_info"] or {}).get("exception_type"))


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
    ran = run_tool("claude-code", [], ONE_TRY, seconds=30)
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
    ran = run_tool(name, [], ONE_TRY, seconds=90 if name == "mini-swe-agent" else 30)
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
    run_tool, model, pytester, name, limit, said
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
