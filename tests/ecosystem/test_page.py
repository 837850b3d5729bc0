"""The page on other plugins names what is tried here."""

import re
from pathlib import Path

import pytest

from pytest_harbor.plugin.option_table import OPTIONS

PAGE = (Path(__file__).parents[2] / "docs/ecosystem.md").read_text(encoding="utf-8")
ROWS = re.findall(r"(?m)^\| ([^|]*) \|", PAGE)[1:]


@pytest.mark.parametrize(
    "plugin",
    [
        "allure-pytest",
        "pytest-html",
        "pytest-json-report",
        "pytest-randomly",
        "pytest-reportlog",
        "pytest-rerunfailures",
        "pytest-split",
        "pytest-timeout",
        "pytest-xdist",
        "teamcity-messages",
    ],
)
def test_every_plugin_has_a_row(plugin):
    rows = [row for row in ROWS if plugin in row]
    assert len(rows) == 1
    assert re.search(r"\d+\.\d+", rows[0])


def test_every_option_on_the_page_is_one():
    named = set(re.findall(r"--harbor-[a-z-]+", PAGE))
    assert named <= {option.flag for option in OPTIONS}
    assert named
