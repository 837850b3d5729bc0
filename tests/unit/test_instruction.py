"""Canary lines at the top of an instruction."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.task.instruction import instruction_text, read_instruction


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


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (b"Do it.\r\nNow.\r\n", "Do it.\nNow.\n"),
        (b"Do it.\rNow.\n", "Do it.\nNow.\n"),
        (b"\xef\xbb\xbfDo it.\n", "Do it.\n"),
    ],
)
def test_line_ends_and_byte_order_marks_are_not_told(
    tmp_path: Path, written: bytes, told: str
) -> None:
    path = tmp_path / "instruction.md"
    path.write_bytes(written)
    problems: list[object] = []
    assert read_instruction(path, problems.append) == told
    assert not problems
