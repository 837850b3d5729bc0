"""The fixtures of a trial; override any of them in a ``conftest.py`` above the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_harbor.task.reader import Task


@pytest.fixture
def harbor_task(request: pytest.FixtureRequest) -> Task:
    """The task of this item, as read; do not change it."""
    task: Task = request.node.task
    return task
