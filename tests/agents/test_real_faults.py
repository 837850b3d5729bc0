"""Real command line agents whose model fails, is slow, or may not be asked any more."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.agents.test_real_agents import SCRIPTS, TOML, model  # noqa: F401
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

    def __init__(self, run_tasks: Any, make_task: Any, model: Any) -> None:  # noqa: F811
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
def run_tool(run_tasks, make_task, model) -> Runs:  # noqa: F811
    return Runs(run_tasks, make_task, model)


def always(model: Any, turn: Any) -> None:  # noqa: F811
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
def test_what_was_said_of_a_broken_answer_is_no_lack_of_skill(run_tool, model, fault) -> None:  # noqa: F811
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
def test_a_model_that_fails_for_good_is_no_lack_of_skill(run_tool, model, name, fault) -> None:  # noqa: F811
    turn, expected = STAYING[fault]
    always(model, turn)
    ran = run_tool(name, [], seconds=90 if name == "mini-swe-agent" else 30)
    ran.run.assert_outcomes(failed=1)
    result = ran.one()
    assert result["pytest_harbor"]["category"] == "agent"
    assert result["reward_valid"] is False
    assert expected in json.dumps(result)
