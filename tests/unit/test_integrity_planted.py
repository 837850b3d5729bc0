"""What lay in the verifier's folders before grading: the agent's, an image's, or nothing."""

import hashlib
from pathlib import Path

import pytest

from pytest_harbor.environment.base import Change
from pytest_harbor.integrity.planted import paths_of_tests, planted_findings
from pytest_harbor.result.integrity import IntegrityFinding

TESTS = {"/tests/test.sh", "/tests/unit/test_one.py"}


def found(*changes: Change) -> list[IntegrityFinding]:
    return list(planted_findings(changes, TESTS, lambda path: b"1\n"))


def levels(*changes: Change) -> list[tuple[str, str, str]]:
    return [(one.code, one.level, one.path) for one in found(*changes)]


@pytest.mark.parametrize(
    ("path", "level"),
    [
        ("/logs/verifier/reward.txt", "suspicious"),
        ("/logs/verifier/reward.json", "suspicious"),
        ("/tests/test.sh", "suspicious"),
        ("/tests/unit/test_one.py", "suspicious"),
        ("/tests/notes.md", "information"),
        ("/logs/verifier/ctrf.json", "information"),
    ],
)
def test_files_in_the_verifiers_folders(path: str, level: str) -> None:
    assert levels(Change(path, "added", "file")) == [("planted-file", level, path)]


def test_the_evidence_says_what_was_there() -> None:
    (one,) = found(Change("/logs/verifier/reward.txt", "added", "file"))
    assert one.found == hashlib.sha256(b"1\n").hexdigest()
    (one,) = found(Change("/logs/verifier/reward.txt", "added", "link", "/etc/hosts"))
    assert "'/etc/hosts'" in one.message
    assert one.found == ""


@pytest.mark.parametrize("path", ["/tests", "/logs", "/logs/verifier"])
def test_what_stands_in_a_folders_place(path: str) -> None:
    assert levels(Change(path, "changed", "link", "/x")) == [("link-in-place", "suspicious", path)]
    assert levels(Change(path, "added", "other")) == [("planted-file", "suspicious", path)]


@pytest.mark.parametrize(
    "change",
    [
        Change("/tests", "added", "folder"),
        Change("/tests", "added"),
        Change("/tests/sub", "added", "folder"),
        Change("/tests/data", "added"),
        Change("/tests/test.sh", "deleted"),
        Change("/logs/agent/reward.txt", "added", "file"),
        Change("/logs/artifacts/reward.txt", "added", "file"),
        Change("/app/tests/test.sh", "added", "file"),
        Change("/testsuite/test.sh", "added", "file"),
    ],
)
def test_what_is_nobodys_business(change: Change) -> None:
    assert found(change) == []


def test_a_flood_of_files_is_counted() -> None:
    tests = {f"/tests/{number}.py" for number in range(300)}
    changes = [Change(path, "added", "file") for path in sorted(tests)]
    told = list(planted_findings(changes, tests, lambda path: b""))
    assert len(told) == 11
    assert ": 290," in told[-1].message
    assert {one.level for one in told} == {"suspicious"}


def test_places_of_a_tasks_tests(tmp_path: Path) -> None:
    for name in ("a/test.sh", "a/sub/x.py", "b/y.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    folders = [tmp_path / "a", tmp_path / "b"]
    assert paths_of_tests(folders) == {"/tests/test.sh", "/tests/sub/x.py", "/tests/y.py"}
