"""Secrets of a trial are in no report of pytest's: what was captured, local variables, tracebacks.

A Python agent runs in this process, and so its output and its errors are pytest's to show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin.options import settings
from pytest_harbor.plugin.trial_of_item import ITEM_TRIAL
from pytest_harbor.trial.secrets import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable


def clean_report(item: pytest.Item, report: pytest.TestReport) -> None:
    """Take the secrets of an item's trial out of its report."""
    clean = _redactor(item).text
    report.sections = [(clean(name), clean(text)) for name, text in report.sections]
    report.user_properties = [
        (name, _cleaned(value, clean)) for name, value in report.user_properties
    ]
    report.longrepr = _cleaned(report.longrepr, clean)


def _redactor(item: pytest.Item) -> Redactor:
    item_trial = item.stash.get(ITEM_TRIAL, None)
    if item_trial is not None:
        return item_trial.trial.record.redactor
    # What failed before there was a trial may show what was to be handed to its agent.
    return Redactor(settings(item.config).agent_env.values())


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """The value; as a text without secrets, if its text has any."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, tuple):
        return tuple(_cleaned(one, clean) for one in value)
    text = str(value)
    without = clean(text)
    return value if without == text else without
