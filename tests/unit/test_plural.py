"""Numbers and lists of things in words."""

import pytest

from pytest_harbor.task.plural import in_number, listed


@pytest.mark.parametrize(
    ("number", "what", "words"),
    [
        (1, "tasks", "1 task"),
        (0, "tasks", "0 tasks"),
        (2, "tasks whose trials failed", "2 tasks whose trials failed"),
        (1, "tasks whose trials failed", "1 task whose trials failed"),
        (1, "environment faults", "1 environment fault"),
        (1, "without a result", "1 without a result"),
        (1, "the agent could not work", "1 the agent could not work"),
    ],
)
def test_a_single_one_is_no_plural(number: int, what: str, words: str) -> None:
    assert in_number(number, what) == words


@pytest.mark.parametrize(
    ("names", "words"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c", "d"], "a, b and 2 more")],
)
def test_the_first_names_are_listed_and_the_others_counted(names: list[str], words: str) -> None:
    assert listed(names, 2) == words
