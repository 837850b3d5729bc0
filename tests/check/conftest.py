"""A sound task to change, and what the checks say of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_harbor.check.finding import CheckFinding
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.run import check_task
from pytest_harbor.errors import TaskFormatError
from pytest_harbor.task.reader import read_task


def findings(folder: Path, rules: HouseRules | None = None) -> tuple[CheckFinding, ...]:
    """What the static checks find in a task's folder."""
    try:
        return check_task(read_task(folder), rules)
    except TaskFormatError as error:
        return check_task(error, rules)


@pytest.fixture
def check() -> Callable[..., tuple[CheckFinding, ...]]:
    """Check a folder: gives its findings."""
    return findings


@pytest.fixture
def codes() -> Callable[..., set[str]]:
    """Check a folder: gives the codes of its findings."""
    return lambda folder, rules=None: {one.code for one in findings(folder, rules)}
