"""What a graded run says of itself, what its files say, and what lies in the build context."""

from pathlib import Path

import pytest

from pytest_harbor.integrity.leftovers import tests_in_image as leftovers
from pytest_harbor.integrity.outcome import outcome_findings
from pytest_harbor.result.ctrf import CtrfReport
from pytest_harbor.result.integrity import IntegrityFinding
from pytest_harbor.result.reward import Reward, parse_reward

PAID = Reward({"reward": 1.0}, "reward.txt")
STARTS = "============ test session starts ============\ncollected 2 items\n"


def ctrf(tests: int, passed: int = 0, failed: int = 0, skipped: int = 0) -> CtrfReport:
    return CtrfReport("pytest", tests, passed, failed, skipped, 0, 0)


def found(
    tmp_path: Path, output: str = "", report: CtrfReport | None = None, reward: Reward | None = PAID
) -> list[IntegrityFinding]:
    file = tmp_path / "out.txt"
    file.write_text(output)
    tests = tmp_path / "tests"
    tests.mkdir(exist_ok=True)
    (tests / "test_a.py").write_text("\n".join(f"def test_{n}(): pass" for n in range(5)))
    return list(outcome_findings(reward, report, file, (tests,)))


@pytest.mark.parametrize(
    ("output", "report"),
    [
        ("no tests ran in 0.01s\n", None),
        (f"{STARTS}====== no tests ran in 0.01s ======\n", None),
        ("=== 3 deselected in 0.10s ===\n", None),
        ("=== 2 skipped in 0.10s ===\n", None),
        ("\x1b[32m== 2 skipped in 0.10s ==\x1b[0m\n", None),
        (STARTS, None),
        ("", ctrf(0)),
        ("", ctrf(4, skipped=4)),
    ],
)
def test_a_reward_without_a_test_that_ran(
    tmp_path: Path, output: str, report: CtrfReport | None
) -> None:
    (one,) = found(tmp_path, output, report)
    assert (one.code, one.level) == ("no-test-ran", "suspicious")
    assert not found(tmp_path, output, report, Reward({"reward": 0.0}, "reward.txt"))
    assert not found(tmp_path, output, report, None)


@pytest.mark.parametrize(
    ("output", "report"),
    [
        ("ok\n", None),
        (f"{STARTS}===== 5 passed in 0.01s =====\n", None),
        ("5 passed in 0.01s\n", None),
        ("=== 1 failed, 4 passed, 1 warning in 1.00s ===\n=== 2 skipped in 0.1s ===\n", None),
        ("", ctrf(5, passed=5)),
        ("no tests in this text\n", ctrf(5, passed=4, failed=1)),
    ],
)
def test_honest_runs_are_clean(tmp_path: Path, output: str, report: CtrfReport | None) -> None:
    assert found(tmp_path, output, report) == []


@pytest.mark.parametrize(
    ("report", "level"), [(ctrf(5, passed=9), "suspicious"), (ctrf(5, passed=4), "information")]
)
def test_counts_that_contradict_themselves(tmp_path: Path, report: CtrfReport, level: str) -> None:
    (one,) = found(tmp_path, report=report)
    assert (one.code, one.level) == ("impossible-count", level)


def test_far_fewer_tests_than_the_task_holds(tmp_path: Path) -> None:
    (one,) = found(tmp_path, "1 passed in 0.01s\n")
    assert (one.code, one.level) == ("test-count", "information")


@pytest.mark.parametrize(
    ("json", "text", "codes"),
    [
        (None, b"1", {}),
        (None, b"1_0", {"odd-spelling": "suspicious"}),
        (None, b"-3", {"odd-spelling": "information"}),
        (None, b"1e30", {"odd-spelling": "suspicious"}),
        (b'{"reward": true}', None, {"odd-spelling": "information"}),
        (b'{"reward": 1}', b"1", {"both-files": "information"}),
        (b'{"reward": 1}', b"0", {"rewards-disagree": "suspicious"}),
        (b'{"reward": 1, "bytes": 12345678, "drift": -3}', None, {}),
        (b'{"reward": 1e30, "bytes": 1}', None, {"odd-spelling": "suspicious"}),
        (b'{"bytes": 1e30, "speed": 1}', None, {"odd-spelling": "suspicious"}),
        (b'{"f1": 0.5, "recall": 1}', b"0.75", {"both-files": "information"}),
    ],
)
def test_reward_files(json: bytes | None, text: bytes | None, codes: dict[str, str]) -> None:
    assert {one.code: one.level for one in parse_reward(json, text).integrity} == codes


def test_content_of_the_tests_in_the_build_context(tmp_path: Path) -> None:
    tests, context = tmp_path / "tests", tmp_path / "environment"
    for folder in (tests, context / "data"):
        folder.mkdir(parents=True)
    (tests / "expected.txt").write_text("the answer to all of it\n")
    (tests / "short").write_text("1\n")
    (context / "data/seed.txt").write_text("the answer to all of it\n")
    (context / "data/short").write_text("1\n")
    (one,) = leftovers(context, (tests,))
    assert (one.code, one.level) == ("tests-in-image", "information")
    assert "environment/data/seed.txt" in one.message
    assert "tests/expected.txt" in one.message


def test_a_test_script_in_the_build_context_is_suspicious(tmp_path: Path) -> None:
    for name in ("tests", "environment"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.sh").write_text("#!/bin/bash\necho 1 > reward\n")
    (one,) = leftovers(tmp_path / "environment", (tmp_path / "tests",))
    assert (one.code, one.level) == ("tests-in-image", "suspicious")


def test_an_output_with_a_number_of_any_length_is_read(tmp_path: Path) -> None:
    assert found(tmp_path, f"==== {'9' * 5000} passed in 0.01s ====\n") == []
