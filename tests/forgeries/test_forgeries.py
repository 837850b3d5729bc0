"""What forged work earns: nothing, or a finding that says so, or what only a task can stop."""

import pytest


def judge(row, expected, graded):
    """Hold a trial against what its row expects.

    unpaid: it does not pass. reported: whatever it earns, a suspicious finding says so.
    told: so does a finding of the row's codes, at any level.
    paid: nothing but the task can stop it, and the row says why. no-verdict: it does not
    pass, and stays in the rates. any: either way is fair, and the row says why.
    """
    if expected in ("unpaid", "no-verdict"):
        assert not graded.passed, graded
    if expected == "no-verdict":
        assert graded.own["category"] == "reward", graded
    if expected == "paid":
        assert graded.passed, graded
    if expected == "told":
        assert graded.codes & set(row.codes), graded
    if expected in ("reported", "no-verdict"):
        assert graded.suspicious, graded
        assert not row.codes or graded.suspicious & set(row.codes), graded


@pytest.mark.rows("forgeries", "shared", "separate", "isolated", part="first")
def test_one_of_each_family(rows, mode, grade, subtests):
    trials = grade(rows, mode)
    for row in rows:
        with subtests.test(row=row.id):
            judge(row, row.modes[mode], trials[row.id])


@pytest.mark.long
@pytest.mark.rows("forgeries", "shared", "separate", "isolated", part="rest")
def test_the_rest(rows, mode, grade, subtests):
    test_one_of_each_family(rows, mode, grade, subtests)


@pytest.mark.long
def test_background_writer_earns_nothing_in_twenty_trials(tables, grade):
    (writer,) = [row for row in tables["forgeries"] if row.id == "plain-loop"]
    trials = grade([writer], "shared", "--harbor-attempts=20")
    assert len(trials) == 20
    assert not any(graded.passed for graded in trials.values())
