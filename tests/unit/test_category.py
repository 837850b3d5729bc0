"""Whose doing a trial's end is, and that tampering buys no way out of the rates."""

from pathlib import Path

import pytest

from pytest_harbor.errors import (
    AgentSetupError,
    EngineUnavailableError,
    EnvironmentLostError,
    EnvironmentStartError,
    TransferError,
)
from pytest_harbor.result.integrity import IntegrityFinding, IntegrityReport, Level
from pytest_harbor.result.trial import TrialResult
from pytest_harbor.trial.category import broken_category, settled_category


def trial(*codes: str, level: Level = "suspicious") -> TrialResult:
    found = [IntegrityFinding(code, level, code) for code in codes]
    made = TrialResult(
        trial_name="t__a",
        trial_dir=Path("/jobs/t__a"),
        task_name="t",
        task_path=Path("/tasks/t"),
        agent_name="agent",
    )
    made.integrity = IntegrityReport(findings=found)
    return made


@pytest.mark.parametrize(
    "error",
    [EnvironmentStartError("x"), EnvironmentLostError("x"), TransferError("x"), ValueError("x")],
)
def test_a_box_that_was_tampered_with_counts_however_it_breaks(error: Exception) -> None:
    assert broken_category(trial("replaced-program"), error) == "reward"
    assert broken_category(trial(), error) == "environment"
    assert broken_category(trial("left-running", level="information"), error) == "environment"
    assert broken_category(trial("tests-in-image"), error) == "environment"


@pytest.mark.parametrize("error", [EngineUnavailableError("x"), KeyboardInterrupt()])
def test_an_engine_that_is_gone_and_an_interrupt_are_nobodys_doing(error: BaseException) -> None:
    assert broken_category(trial("replaced-program"), error) == "environment"


def test_an_agents_own_fault_is_its_own() -> None:
    assert broken_category(trial(), AgentSetupError("x")) == "agent"


def test_no_agent_talks_itself_out_of_what_was_found() -> None:
    unable = trial("replaced-program")
    unable.agent_unable = True
    assert settled_category(unable) == "reward"
    unable = trial("tests-in-image")
    unable.agent_unable = True
    assert settled_category(unable) == "agent"
    assert settled_category(trial()) == "task"


def test_an_image_that_holds_the_tests_is_not_the_agents_doing() -> None:
    result = trial("tests-in-image")
    result.fails_on_tamper = True
    assert result.suspicious
    assert not result.is_tampered
    other = trial("tests-in-image", "loader")
    other.fails_on_tamper = True
    assert other.is_tampered
