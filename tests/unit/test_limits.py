"""Time limits and their factors."""

import math

import pytest

from pytest_harbor.trial.limits import Multipliers


@pytest.mark.parametrize(
    ("base", "every", "own", "limit"),
    [
        (60.0, 1.0, None, 60.0),
        (60.0, 2.0, None, 120.0),
        (60.0, 2.0, 0.5, 30.0),
        (60.0, 1.0, 3.0, 180.0),
        (0.0, 2.0, None, 0.0),
        (60.0, 2.0, 0.0, 0.0),
        (None, 2.0, 3.0, None),
        (math.inf, 1.0, None, None),
        (1e12, 1.0, None, None),
        (60.0, 1e12, None, None),
    ],
)
def test_a_phases_own_factor_replaces_the_general_one(
    base: float | None, every: float, own: float | None, limit: float | None
) -> None:
    assert Multipliers(every=every).scaled(base, own) == limit


def test_limits_may_be_lifted() -> None:
    assert Multipliers(none=True).scaled(60.0, 2.0) is None
