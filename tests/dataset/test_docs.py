"""The page on datasets names what there is."""

import re
import shlex
from pathlib import Path

from pytest_harbor.__main__ import make_parser
from pytest_harbor.plugin.option_table import OPTIONS

PAGE = (Path(__file__).parents[2] / "docs/datasets.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"(?m)^\$ (.*)$", PAGE)


def test_every_option_on_the_page_is_one():
    named = set(re.findall(r"--harbor-[a-z-]+", PAGE))
    assert named <= {option.flag for option in OPTIONS}
    assert len(named) > 5


def test_the_commands_for_the_cache_are_accepted():
    asked = [line for line in COMMANDS if line.startswith("python -m pytest_harbor ")]
    for line in asked:
        make_parser().parse_args(shlex.split(line)[3:])
    assert len(asked) == 3
