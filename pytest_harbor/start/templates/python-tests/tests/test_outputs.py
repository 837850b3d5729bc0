"""What the agent must have left."""

from pathlib import Path


def test_the_sum_is_written() -> None:
    """12 + 7 - 3 + 26."""
    assert Path("/app/sum.txt").read_text().strip() == "42"
