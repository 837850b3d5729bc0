"""Verifiers of anybody's: what comes of them is a report, or says why there is none."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_harbor.errors import (
    OptionError,
    TransferError,
    VerifierCrashError,
    VerifierFault,
    VerifierOutputParseError,
    VerifierTimeoutError,
)
from pytest_harbor.registry import make_verifier
from pytest_harbor.result.reward import Reward
from pytest_harbor.verifier.base import Verifier, VerifierReport
from pytest_harbor.verifier.call import graded


class Own(Verifier):
    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def verify(self, environment: Any, context: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def grade(tmp_path: Path) -> Any:
    context: Any = SimpleNamespace(
        verifier_dir=tmp_path, open_log=lambda path: path.open("wb"), homes={}
    )
    box: Any = io.BytesIO()
    return lambda answer: graded(Own(answer), box, context)


def report(values: Any, **more: Any) -> VerifierReport:
    return VerifierReport(reward=Reward(values, "verifier"), **more)


class OfNumpy(float):
    """As a number of another library is: a kind of float."""


@pytest.mark.parametrize(
    ("values", "taken"),
    [
        ({"reward": 1}, {"reward": 1}),
        ({"reward": True}, {"reward": 1.0}),
        ({"a": OfNumpy(0.5), "b": -2}, {"a": 0.5, "b": -2}),
        ({"reward": 10**400}, {"reward": 10**400}),
    ],
)
def test_numbers_are_taken_as_numbers(values: Any, taken: Any, grade: Any) -> None:
    found = grade(report(values)).reward.values
    assert found == taken
    assert {type(one) for one in found.values()} <= {int, float}


@pytest.mark.parametrize(
    "values",
    [
        {"reward": float("nan")},
        {"reward": float("inf")},
        {"reward": "1"},
        {"reward": None},
        {"reward": [1]},
        {1: 1.0},
        {"": 1.0},
        {},
        1.0,
        None,
    ],
)
def test_what_is_no_reward_is_a_fault_of_the_verifier(values: Any, grade: Any) -> None:
    found = grade(report(values, findings=["odd"]))
    assert found.reward is None
    assert isinstance(found.fault, VerifierOutputParseError)
    assert "the verifier Own: expected " in str(found.fault)
    assert found.findings == ["odd"]


def test_neither_reward_nor_fault_is_told(grade: Any) -> None:
    assert "neither a reward nor a fault" in str(grade(VerifierReport()).fault)
    loose: Any = VerifierReport(reward=1.0)  # type: ignore[arg-type]
    assert "expected a Reward" in str(grade(loose).fault)


@pytest.mark.parametrize("answer", [None, 1.0, {"reward": 1.0}])
def test_what_is_no_report_is_a_fault_of_the_verifier(answer: Any, grade: Any) -> None:
    with pytest.raises(VerifierOutputParseError, match="Own: expected a VerifierReport, got"):
        grade(answer)


def test_a_crash_is_the_verifiers_and_its_traceback_is_kept(grade: Any, tmp_path: Path) -> None:
    with pytest.raises(VerifierCrashError, match="the verifier Own crashed: KeyError: 'score'"):
        grade(KeyError("score"))
    assert "KeyError: 'score'" in (tmp_path / "exception.txt").read_text()
    for known in (TransferError("gone"), VerifierTimeoutError("late")):
        with pytest.raises(type(known)):
            grade(known)
    with pytest.raises(KeyboardInterrupt):
        grade(KeyboardInterrupt())


def test_a_fault_stays_one_whatever_it_is(grade: Any) -> None:
    fault = VerifierTimeoutError("late")
    both = report({"reward": 1.0}, fault=fault)
    assert grade(both).fault is fault
    assert grade(both).reward is None
    odd: Any = VerifierReport(fault=ValueError("x"))  # type: ignore[arg-type]
    assert isinstance(grade(odd).fault, VerifierFault)
    assert "ValueError: x" in str(grade(odd).fault)


class Unmade(Own):
    def __init__(self) -> None:
        raise RuntimeError("no such model")


def test_a_verifier_that_cannot_be_made_is_told() -> None:
    with pytest.raises(OptionError, match="Unmade cannot be made: RuntimeError: no such model"):
        make_verifier(f"{__name__}:Unmade")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--harbor-verifier=jugde"], "did you mean 'judge'"),
        (["--harbor-verifier=judge"], "missing a required argument: 'model'"),
        (
            ["--harbor-verifier=judge", "--harbor-verifier-kwarg=model=m",
             "--harbor-verifier-kwarg=votes=0"],
            "--harbor-verifier=judge: the judge's votes: expected a whole number from 1, got 0",
        ),
    ],
)  # fmt: skip
def test_a_run_is_refused_before_any_agent_works(
    pytester: pytest.Pytester, options: list[str], words: str
) -> None:
    pytester.makepyfile("def test_it(): raise SystemExit('ran')")
    result = pytester.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()
