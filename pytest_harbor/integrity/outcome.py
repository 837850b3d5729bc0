"""What a graded run says of itself: did any test run, and do its numbers add up?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from pytest_harbor.integrity.python_text import parsed
from pytest_harbor.result.ctrf import CtrfReport
from pytest_harbor.result.integrity import IntegrityFinding
from pytest_harbor.result.reward import Reward

_TAIL_BYTES = 1024 * 1024
_MAX_FILES = 200
_STARTED = re.compile(r"^=+ test session starts =+\s*$", re.MULTILINE)
_ENDED = re.compile(
    r"^=* ?((?:no tests ran|\d+ (?:passed|failed|skipped|deselected|errors?|xfailed|xpassed"
    r"|warnings?|rerun)\b)[^\n]*) in [\d.]+s",
    re.MULTILINE,
)
_RAN = re.compile(r"(\d{1,9}) (?:passed|failed|errors?|xfailed|xpassed)\b")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def outcome_findings(
    reward: Reward | None, ctrf: CtrfReport | None, output: Path, tests: Sequence[Path]
) -> Iterator[IntegrityFinding]:
    """Judge a reward beside the test report and the output of the script that wrote it.

    Args:
        reward: As read; None where there is none.
        ctrf: The script's own report.
        output: The script's output on this machine.
        tests: Folders of tests on this machine.
    """
    if reward is None or not any(value > 0 for value in reward.values.values()):
        return
    text = _tail(output)
    ended = [sum(map(int, _RAN.findall(line))) for line in _ENDED.findall(text)]
    started = len(_STARTED.findall(text))
    if reason := _nothing_ran(ctrf, ended, started):
        message = f"the script gave a reward above 0 although {reason}"
        yield IntegrityFinding("no-test-ran", "suspicious", message)
    if ctrf is not None:
        yield from _impossible(ctrf)
    written, ran = _test_functions(tests), max([*ended, ctrf.tests if ctrf else 0])
    if 0 < ran * 2 < written:
        message = f"{ran} tests ran, and the task's tests hold {written} test functions"
        yield IntegrityFinding("test-count", "information", message)


def _nothing_ran(ctrf: CtrfReport | None, ended: Sequence[int], started: int) -> str:
    if ctrf is not None and ctrf.tests - ctrf.skipped - ctrf.pending <= 0:
        return "no test ran, says its report"
    if ended and not any(ended):
        return "no test ran, says its output"
    if started > len(ended) and ctrf is None:
        return "pytest began and never came to its end"
    return ""


def _impossible(ctrf: CtrfReport) -> Iterator[IntegrityFinding]:
    total = ctrf.passed + ctrf.failed + ctrf.skipped + ctrf.pending + ctrf.other
    if total == ctrf.tests:
        return
    message = f"the test report counts {ctrf.tests} tests and {total} outcomes"
    suspicious = ctrf.passed > ctrf.tests
    yield IntegrityFinding(
        "impossible-count", "suspicious" if suspicious else "information", message
    )


def _test_functions(folders: Sequence[Path]) -> int:
    files = [file for folder in folders for file in sorted(folder.rglob("test_*.py"))]
    return sum(map(_functions_in, files[:_MAX_FILES]))


@lru_cache(maxsize=4096)
def _functions_in(file: Path) -> int:
    try:
        tree = parsed(file.read_bytes())
    except OSError:
        return 0
    if tree is None:
        return 0
    return sum(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
        for node in ast.walk(tree)
    )


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            return _COLOUR.sub("", file.read().decode("utf-8", "replace")).replace("\r\n", "\n")
    except OSError:
        return ""
