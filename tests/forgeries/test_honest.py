"""Honest work that looks suspicious: it passes, and nothing is said against it."""

import pytest


@pytest.mark.rows("honest", "shared", "separate")
def test_honest_work(rows, mode, grade, subtests):
    trials = grade(rows, mode)
    for row in rows:
        with subtests.test(row=row.id):
            graded = trials[row.id]
            assert graded.passed, graded
            assert graded.suspicious <= set(row.allowed), graded


@pytest.mark.rows("honest", "isolated", part="first")
@pytest.mark.long
def test_honest_work_of_each_kind_in_a_fresh_box(rows, mode, grade, subtests):
    test_honest_work(rows, mode, grade, subtests)


@pytest.mark.long
@pytest.mark.rows("honest", "isolated", part="rest")
def test_the_rest_in_a_fresh_box(rows, mode, grade, subtests):
    test_honest_work(rows, mode, grade, subtests)
