"""The page for authors says what there is."""

import re
from pathlib import Path

from pytest_harbor.check.registry import CHECKS
from pytest_harbor.plugin.check_options import RULES

PAGE = Path(__file__).parents[2] / "docs" / "authors.md"


def rows(first: str) -> list[list[str]]:
    """The cells of the table rows whose first cell begins so."""
    lines = PAGE.read_text().splitlines()
    cells = [re.split(r"(?<!\\) ?\| ?", line)[1:-1] for line in lines if line.startswith("| `")]
    return [[one.replace("\\|", "|") for one in row] for row in cells if row[0].startswith(first)]


def test_every_check_is_in_the_table() -> None:
    table = [row for row in rows("`") if len(row) == 4]
    wanted = sorted(CHECKS.values(), key=lambda check: check.code)
    assert table == [
        [f"`{one.code}`", "house" if one.house else one.severity, one.reason, one.remedy]
        for one in wanted
    ]


def test_every_rule_is_in_the_table() -> None:
    assert rows("`harbor_check_") == [[f"`harbor_check_{one.name}`", one.help] for one in RULES]
