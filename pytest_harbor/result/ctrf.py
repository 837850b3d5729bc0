"""Test reports in the Common Test Report Format, which many verifiers leave behind.

The file comes out of a container in which an agent worked: nothing in it is trusted,
it never touches the reward, and a part that is not as expected is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_BYTES = 16 * 1024 * 1024
MAX_FAILED_TESTS = 50
MAX_NAME_CHARACTERS = 300
MAX_MESSAGE_CHARACTERS = 2_000
MAX_TRACE_CHARACTERS = 8_000

_STATUSES = ("passed", "failed", "skipped", "pending", "other")


@dataclass(frozen=True, slots=True)
class CtrfTest:
    """A test that failed; texts are short and hold no control characters."""

    name: str
    message: str = ""
    trace: str = ""


@dataclass(frozen=True, slots=True)
class CtrfReport:
    """What a report says.

    Attributes:
        tool: The program that wrote it.
        tests: Number of tests; the fields down to ``other`` count them by status.
        failed_tests: The first of those that failed.
        omitted: How many more failed.
    """

    tool: str
    tests: int
    passed: int
    failed: int
    skipped: int
    pending: int
    other: int
    failed_tests: tuple[CtrfTest, ...] = ()
    omitted: int = 0


def parse_ctrf(data: bytes) -> CtrfReport | None:
    """Read a report; None for anything that is not one or is larger than ``MAX_BYTES``."""
    results = _results(data)
    if results is None:
        return None
    tests = [test for test in _list(results.get("tests")) if isinstance(test, dict)]
    counts = _counts(_dict(results.get("summary")), tests)
    failed = [test for test in tests if _status(test) == "failed"]
    return CtrfReport(
        tool=_text(_dict(results.get("tool")).get("name"), MAX_NAME_CHARACTERS),
        **counts,
        failed_tests=tuple(map(_test, failed[:MAX_FAILED_TESTS])),
        omitted=max(len(failed) - MAX_FAILED_TESTS, 0),
    )


def _results(data: bytes) -> Mapping[str, Any] | None:
    if len(data) > MAX_BYTES:
        return None
    try:
        content = json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return None
    results = _dict(content).get("results")
    if not isinstance(results, dict) or not ({"tests", "summary"} & results.keys()):
        return None
    return results


def _counts(summary: Mapping[str, Any], tests: list[dict[str, Any]]) -> dict[str, int]:
    """Numbers of the summary; counted where it has none."""
    statuses = [_status(test) for test in tests]
    counted = {status: statuses.count(status) for status in _STATUSES}
    counted["other"] += len(statuses) - sum(counted.values())
    counted["tests"] = len(tests)
    return {name: _count(summary.get(name), default) for name, default in counted.items()}


def _count(value: Any, default: int) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value <= 10**9:
        return default
    return int(value)


def _status(test: Mapping[str, Any]) -> str:
    status = test.get("status")
    return status.lower() if isinstance(status, str) else "other"


def _test(test: Mapping[str, Any]) -> CtrfTest:
    return CtrfTest(
        name=_text(test.get("name"), MAX_NAME_CHARACTERS) or "a test without a name",
        message=_text(test.get("message"), MAX_MESSAGE_CHARACTERS),
        trace=_text(test.get("trace"), MAX_TRACE_CHARACTERS),
    )


def _text(value: Any, limit: int) -> str:
    """At most ``limit`` characters, fit for a terminal and for XML."""
    if not isinstance(value, str):
        return ""
    cut = value[:limit] + ("…" if len(value) > limit else "")
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in cut
    )


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
