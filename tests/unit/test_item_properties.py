"""Properties of an item: those of its last trial, beside what others recorded."""

import pytest

from pytest_harbor.plugin.trial_of_item import forget, set_properties


@pytest.fixture
def item(pytester: pytest.Pytester) -> pytest.Item:
    return pytester.getitem("def test_func(): pass")


def test_a_later_trial_leaves_nothing_of_an_earlier_one(item: pytest.Item) -> None:
    item.user_properties.append(("own", 1))
    set_properties(item, [("reward", 1.0), ("category", "reward")])
    set_properties(item, [("category", "task"), ("attempt", 1)])
    assert item.user_properties == [("own", 1), ("category", "task"), ("attempt", 1)]


def test_a_property_is_there_once(item: pytest.Item) -> None:
    item.user_properties.append(("category", "recorded by somebody"))
    set_properties(item, [("category", "task")])
    assert item.user_properties == [("category", "task")]


def test_an_item_that_is_run_again_begins_anew(item: pytest.Item) -> None:
    item.user_properties.append(("own", 1))
    set_properties(item, [("reward", 1.0)])
    forget(item)
    assert item.user_properties == [("own", 1)]
    forget(item)
    set_properties(item, [("category", "task")])
    assert item.user_properties == [("own", 1), ("category", "task")]
