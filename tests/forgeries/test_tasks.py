"""The tasks themselves: honest work earns 1, doing nothing earns 0."""

import pytest


@pytest.mark.parametrize(("agent", "passes"), [("oracle", True), ("nop", False)])
def test_shared_tasks_are_sound(task_rows, grade, subtests, agent, passes):
    for name, graded in grade(task_rows, "shared", agent=agent).items():
        with subtests.test(task=name):
            assert graded.passed is passes, graded
            assert graded.result["reward_valid"], graded
            # One of them has its tests in the image, which is said of it.
            assert graded.suspicious == ({"tests-in-image"} if name == "leaky" else set()), graded


@pytest.mark.long
@pytest.mark.parametrize("table", ["forgeries", "honest"])
def test_doing_nothing_earns_0_for_tests_of_a_rows_own(tables, grade, subtests, table):
    """Each kind of tests once."""
    kinds = {str(row.tests): row for row in tables[table] if row.tests}
    for name, graded in grade(list(kinds.values()), "shared", agent="nop").items():
        with subtests.test(row=name):
            assert not graded.passed, graded


@pytest.mark.long
def test_honest_work_earns_1_for_tests_of_a_forgerys_own(tables, grade, subtests):
    kinds = {str(row.tests): row for row in tables["forgeries"] if row.solve}
    assert kinds
    for name, graded in grade(list(kinds.values()), "shared", agent="oracle").items():
        with subtests.test(row=name):
            assert graded.passed, graded
