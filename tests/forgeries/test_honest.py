"""Honest work that looks suspicious: it passes, and nothing is said against it."""

import pytest


@pytest.mark.rows("honest", "shared", "separate", "isolated")
def test_honest_work(rows, mode, grade, subtests):
    trials = grade(rows, mode)
    for row in rows:
        with subtests.test(row=row.id):
            graded = trials[row.id]
            assert graded.passed, graded
            assert graded.suspicious <= set(row.allowed), graded
