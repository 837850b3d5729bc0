"""What becomes of findings: severities, switches, order, and what they look like."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.check.finding import finding_line
from pytest_harbor.check.registry import CHECKS
from pytest_harbor.check.rules import (
    HouseRules,
    parse_codes,
    parse_metadata,
    parse_range,
    parse_severities,
)
from pytest_harbor.check.run import check_task
from pytest_harbor.errors import Problem
from pytest_harbor.task.reader import read_task

LITTER = '[metadata]\nharbor_ignore = ["litter"]\n'


def littered(make_task: Any, toml: str = "") -> Path:
    folder = make_task(toml=toml)
    make_task.write(folder, "tests/.DS_Store", "x")
    return Path(folder)


def test_a_finding_says_what_where_and_what_to_do(
    make_task: Any, check: Callable[..., Any]
) -> None:
    folder = make_task(dockerfile="# base\nFROM ubuntu\nWORKDIR /app\n")
    (found,) = check(folder)
    assert finding_line(found.as_dict(folder)) == (
        "environment/Dockerfile:2: error: ubuntu: no tag, so the latest; write a version as "
        "tag, better the digest too: name:1.2@sha256:… [unpinned-image]"
    )
    assert json.loads(json.dumps(found.as_dict(folder))) == found.as_dict(folder)


def test_the_task_switches_a_check_off(make_task: Any, check: Callable[..., Any]) -> None:
    (found,) = check(littered(make_task, LITTER))
    assert (found.code, found.severity) == ("litter", "ignored")


def test_the_house_switches_a_check_off(make_task: Any, check: Callable[..., Any]) -> None:
    (found,) = check(littered(make_task), HouseRules(ignore=frozenset({"litter"})))
    assert found.severity == "ignored"


def test_what_the_house_enforces_no_task_switches_off(
    make_task: Any, check: Callable[..., Any]
) -> None:
    found = check(littered(make_task, LITTER), HouseRules(enforce=frozenset({"litter"})))
    assert {one.code: one.severity for one in found} == {
        "litter": "warning",
        "unknown-code": "warning",
    }


def test_the_house_settles_severities(make_task: Any, check: Callable[..., Any]) -> None:
    (found,) = check(littered(make_task), HouseRules(severity={"litter": "error"}))
    assert found.severity == "error"


def test_warnings_of_reading_are_errors_here(make_task: Any, check: Callable[..., Any]) -> None:
    (found,) = check(make_task(toml="memroy = 1\n"))
    assert (found.code, found.severity, found.line) == ("unknown-field", "error", 8)


def test_problems_of_others_keep_their_severity(make_task: Any) -> None:
    folder = make_task()
    extra = [Problem(folder, "ugly", severity="warning"), Problem(folder, "wrong", code="litter")]
    found = check_task(read_task(folder), extra=extra)
    assert [(one.code, one.severity) for one in found] == [
        ("litter", "error"),
        ("house-check", "warning"),
    ]


def test_errors_come_first_and_many_of_a_code_are_cut(
    make_task: Any, check: Callable[..., Any]
) -> None:
    installs = "".join(f"RUN pip install pkg{n}\n" for n in range(50))
    found = check(make_task(dockerfile=f"FROM ubuntu\nWORKDIR /app\n{installs}"))
    assert [one.code for one in found] == ["unpinned-image"] + ["unpinned-package"] * 20


@pytest.mark.parametrize("check", CHECKS.values(), ids=list(CHECKS))
def test_each_check_explains_itself(check: Any) -> None:
    assert check.reason
    assert check.remedy
    assert "\n" not in check.reason + check.remedy
    assert not check.reason.endswith(".")


@pytest.mark.parametrize(
    ("parse", "value", "message"),
    [
        (lambda text: parse_codes([text], CHECKS), "liter", r"'liter' \(did you mean litter\?\)"),
        (lambda text: parse_severities([text], CHECKS), "litter=bad", "CODE=error"),
        (parse_range, "9-1", "two numbers"),
        (parse_range, "9", "two numbers"),
    ],
)
def test_a_rule_that_cannot_be_read_is_told(parse: Any, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(value)


def test_rules_of_metadata() -> None:
    assert parse_metadata(["a", "b=x| y"]) == {"a": (), "b": ("x", "y")}
