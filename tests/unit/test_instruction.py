"""Canary lines at the top of an instruction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.task.instruction import instruction_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Do it.\n", "Do it.\n"),
        ("\n\n  Do it.  \n\n", "  Do it.  \n\n"),
        ("<!-- harbor-canary GUID 1 -->\nDo it.\n", "Do it.\n"),
        ("  # CANARY 1  \n# canary 2\n\n\nDo it.\n", "Do it.\n"),
        ("# Canary bird\nDo it.\n", "Do it.\n"),
        ("## a canary\nDo it.\n", "Do it.\n"),
        ("\n# canary\nDo it.\n", "# canary\nDo it.\n"),
        ("Do it.\n# canary\n", "Do it.\n# canary\n"),
        ("canary\nDo it.\n", "canary\nDo it.\n"),
        ("<!-- note -->\n# canary\nDo it.\n", "<!-- note -->\n# canary\nDo it.\n"),
        ("<!-- canary --> Do it.\n", "<!-- canary --> Do it.\n"),
        ("# canary", ""),
        ("", ""),
    ],
)
def test_what_the_agent_is_told(text: str, expected: str) -> None:
    assert instruction_text(text) == expected


@given(st.text())
def test_the_end_of_any_text_is_kept(text: str) -> None:
    assert text.endswith(instruction_text(text))
