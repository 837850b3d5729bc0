"""Names on the engine; no engine needed."""

import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.environment.docker.naming import (
    container_name,
    is_kept,
    kept_name,
    slug,
)

VALID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@given(st.text())
def test_any_text_gives_a_valid_slug(text: str):
    assert VALID.fullmatch(slug(text))
    assert len(slug(text)) <= 40


@given(st.text())
def test_container_names_are_valid_and_fresh(hint: str):
    name = container_name(hint)
    assert VALID.fullmatch(name)
    assert len(name) <= 63
    assert name != container_name(hint)
    assert is_kept("/" + kept_name(name))
    assert not is_kept(name)


def test_a_slug_recalls_the_text():
    assert slug("My Täsk: v1.0") == "my-task-v1-0"
