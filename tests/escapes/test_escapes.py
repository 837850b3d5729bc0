"""No escape gets out under any policy, and what a policy allows works.

What is tried is a row of ``table.py``; under which policies, ``policies.py`` tells.
"""

import pytest

from .policies import CASE, CASES
from .table import BY_NAME

ROWS = [(case.name, row.name) for case in CASES for row in case.rows]
ALLOWANCES = [(case.name, each.name) for case in CASES for each in case.allowances]
HELD = [(case.name, row.name) for case in CASES for row in case.rows if row.held]


@pytest.mark.parametrize(("case", "row"), ROWS)
def test_nothing_gets_out(outcome_of, case: str, row: str):
    outcome = outcome_of(case)
    assert row in outcome.said, "the probe did not try it"
    assert outcome.proofs[row] == [], f"{BY_NAME[row]}; the box saw: {outcome.said[row]}"


@pytest.mark.parametrize(("case", "row"), HELD)
def test_what_was_held_had_been_open(outcome_of, case: str, row: str):
    opened = outcome_of(case).opened[row]
    assert opened, "nothing answered, so that this row proves nothing"
    assert "Error" not in opened


@pytest.mark.parametrize(("case", "allowance"), ALLOWANCES)
def test_what_is_allowed_works(outcome_of, case: str, allowance: str):
    heard = outcome_of(case).allowed[allowance]
    (hears,) = [each.hears for each in CASE[case].allowances if each.name == allowance]
    assert hears in heard


REFUSED = [
    ("exact", "other.test", "dns", None),
    ("exact", "other.test", "tcp", 443),
    ("exact", "198.51.100.11", "tcp", 9999),
    ("exact", "198.51.100.11", "udp", 9999),
    ("wildcard", "evilwild.test", "tcp", 80),
    ("addresses", "allowed.test", "dns", None),
    ("denied", "denied.test", "tcp", 443),
    ("denied", "198.51.100.65", "udp", 9999),
]


@pytest.mark.parametrize(("case", "destination", "protocol", "port"), REFUSED)
def test_what_was_refused_is_told(outcome_of, case, destination, protocol, port):
    refused = {
        (each["destination"], each["protocol"], each["port"]) for each in outcome_of(case).refused
    }
    assert (destination, protocol, port) in refused
