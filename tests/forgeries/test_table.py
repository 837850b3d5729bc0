"""The tables themselves: whole, and argued where they let something pass."""

import pytest

FAMILIES = (
    *("stale_files", "background_writer", "background_reader", "replaced_program", "loader"),
    *("python_start_up", "pytest_configuration", "shell_start_up", "rewards_place"),
    *("verifiers_files", "code_under_test", "leftovers", "odd_reward", "no_verdict"),
)
EXPECTED = {"unpaid", "reported", "told", "paid", "no-verdict", "any"}


def test_every_family_has_rows(tables):
    assert {row.family for row in tables["forgeries"]} == set(FAMILIES)
    assert len(tables["forgeries"]) >= 45
    assert len(tables["honest"]) >= 13


@pytest.mark.parametrize("table", ["forgeries", "honest"])
def test_rows_are_whole(tables, table):
    rows = tables[table]
    assert len({row.id for row in rows}) == len(rows)
    for row in rows:
        assert bool(row.task) != bool(row.tests), row.id
        assert row.modes.keys() <= {"shared", "isolated", "separate"}, row.id
        assert set(row.modes.values()) <= EXPECTED, row.id
        assert "shared" in row.modes, row.id


def test_what_is_let_through_is_argued(tables):
    for row in tables["forgeries"]:
        lets = {"paid", "any"} & set(row.modes.values())
        assert not lets or row.why, row.id


def test_honest_rows_pass_or_say_why_a_fresh_box_will_not_do(tables):
    for row in tables["honest"]:
        assert set(row.modes.values()) == {"paid"}, row.id
        assert "isolated" in row.modes or row.why, row.id
        assert not row.allowed or row.why, row.id
