"""Options for the choice among attempts."""

from __future__ import annotations

from typing import Any

from pytest_harbor.plugin.option_values import assignment, non_empty

ROWS: tuple[tuple[Any, ...], ...] = (
    (
        "--harbor-best-of",
        "Who chooses the best of each task's attempts at the end, for --harbor-attempts from 2: "
        "reward, reward:KEY, judge (a model compares them), package.module:name, or a name from "
        "an entry point; no verdict changes",
        non_empty,
        "string",
        "BY",
    ),
    (
        "--harbor-best-of-kwarg",
        "Keyword argument for --harbor-best-of, repeatable; the value is read as JSON, else as "
        "True, False or None, else as text",
        assignment,
        "args",
        "KEY=VALUE",
    ),
)
