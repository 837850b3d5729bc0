"""The tasks themselves: honest work earns 1, doing nothing earns 0."""

import pytest


@pytest.mark.parametrize(("agent", "passes"), [("oracle", True), ("nop", False)])
def test_task_is_sound(task, agent, passes, grade, make_row):
    graded = grade(make_row(task), "shared", agent=agent)
    assert graded.passed is passes, graded
    assert graded.result["reward_valid"], graded
