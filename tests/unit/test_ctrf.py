"""Test reports of a verifier, well-meant and hostile."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.result import ctrf
from pytest_harbor.result.ctrf import CtrfReport, CtrfTest, parse_ctrf


def report(**results: Any) -> CtrfReport:
    parsed = parse_ctrf(json.dumps({"results": results}).encode())
    assert parsed is not None
    return parsed


def test_an_ordinary_report() -> None:
    tests = [
        {"name": "test_a", "status": "passed", "duration": 1},
        {"name": "test_b", "status": "failed", "message": "assert 1 == 2", "trace": "t.py:3\nE"},
        {"name": "test_c", "status": "skipped"},
    ]
    counts = {"passed": 1, "failed": 1, "skipped": 1, "pending": 0, "other": 0}
    parsed = report(tool={"name": "pytest"}, summary={"tests": 3, **counts}, tests=tests)
    failed = (CtrfTest("test_b", "assert 1 == 2", "t.py:3\nE"),)
    assert parsed == CtrfReport("pytest", 3, **counts, failed_tests=failed)


def test_counts_are_made_where_the_summary_has_none() -> None:
    tests = [{"status": "passed"}, {"status": "FAILED"}, {"status": "odd"}, {}, "junk"]
    parsed = report(tests=tests, summary={"passed": -1, "failed": "x", "other": 1e400})
    assert (parsed.tests, parsed.passed, parsed.failed, parsed.other) == (4, 1, 1, 2)
    assert parsed.failed_tests[0].name == "a test without a name"


def test_a_summary_alone_is_a_report() -> None:
    assert report(summary={"tests": 2, "failed": 2}).failed == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"results": []}',
        b'{"results": {}}',
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"results": {"tests": [' + b"9" * 5_000 + b"]}}",
    ],
)
def test_what_is_no_report(data: bytes) -> None:
    assert parse_ctrf(data) is None


def test_a_huge_report_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctrf, "MAX_BYTES", 10)
    assert parse_ctrf(b'{"results": {"tests": []}}') is None


def test_texts_and_lists_are_bounded() -> None:
    long = "x" * 20_000
    test = {"name": long, "status": "failed", "message": long, "trace": long}
    parsed = report(tests=[test] * 120)
    assert len(parsed.failed_tests) == 50
    assert (parsed.failed, parsed.omitted) == (120, 70)
    assert len(parsed.failed_tests[0].name) == 301
    assert len(parsed.failed_tests[0].message) == 2_001
    assert len(parsed.failed_tests[0].trace) == 8_001


def test_control_characters_do_not_reach_the_terminal() -> None:
    test = {
        "name": "a\x1b[31mb\x00",
        "status": "failed",
        "message": "\ud800\u202e\tx\n",
        "trace": 5,
    }
    (failed,) = report(tests=[test]).failed_tests
    assert failed == CtrfTest("a\ufffd[31mb\ufffd", "\ufffd\ufffd\tx\n", "")


@given(st.binary())
def test_any_bytes_are_a_report_or_none(data: bytes) -> None:
    parsed = parse_ctrf(data)
    assert parsed is None or isinstance(parsed, CtrfReport)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "status", "message", "trace", "tests", "summary"]), inner
        )
    ),
)


@given(JSON, JSON, JSON)
def test_any_content_of_a_report_is_survived(tests: Any, summary: Any, tool: Any) -> None:
    parsed = report(tests=tests, summary=summary, tool=tool)
    assert parsed.tests >= 0
    assert len(parsed.failed_tests) <= 50
