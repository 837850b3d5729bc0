"""Secrets of a trial are in nothing of pytest's: output, tracebacks, logs, warnings.

A Python agent runs in this process, and so its output and its errors are pytest's to show.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin.live_output import clean_output
from pytest_harbor.plugin.options import settings
from pytest_harbor.plugin.trial_of_item import ITEM_TRIAL
from pytest_harbor.trial.model_access import VARIABLES
from pytest_harbor.trial.secrets import Redactor

if TYPE_CHECKING:
    import warnings
    from collections.abc import Callable, Sequence

_NAME = "harbor-redaction"


def watch(item: pytest.Item) -> None:
    """From now on output, logs and warnings are this item's: they lose its trial's secrets."""
    known: _Watch | None = item.config.pluginmanager.getplugin(_NAME)
    if known is None:
        known = _Watch(item)
        item.config.pluginmanager.register(known, _NAME)
        _guard_logs(item.config, known)
    known.begin(item)


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
    keys = (os.environ[name] for name in VARIABLES if name in os.environ)
    given = settings(item.config)
    return Redactor([*given.agent_env.values(), *given.keyword_secrets, *keys])


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """The value; as a text without secrets, if its text has any."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, tuple):
        return tuple(_cleaned(one, clean) for one in value)
    text = str(value)
    without = clean(text)
    return value if without == text else without


class _Watch:
    """Cleans what pytest writes while an item runs.

    Attributes:
        item: The item.
    """

    def __init__(self, item: pytest.Item) -> None:
        self.item = item
        self._output = ExitStack()

    def begin(self, item: pytest.Item) -> None:
        """The item runs now."""
        self._output.close()
        self.item = item
        early = _redactor(item)

        def secrets() -> Sequence[bytes]:
            item_trial = item.stash.get(ITEM_TRIAL, None)
            return (item_trial.trial.record.redactor if item_trial else early).forms()

        self._output = clean_output(secrets)

    def clean(self, text: str) -> str:
        """The text without secrets."""
        return _redactor(self.item).text(text)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        """The item is over."""
        self._output.close()

    def pytest_unconfigure(self) -> None:
        """The same where the session broke."""
        self._output.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        """Before anybody writes it down, or sends it to another process."""
        text = str(warning_message.message)
        without = self.clean(text)
        if without != text:
            warning_message.message = UserWarning(without)


class _CleanFormatter(logging.Formatter):
    """Another formatter's text, without secrets."""

    def __init__(self, inner: logging.Formatter, watched: _Watch) -> None:
        super().__init__()
        self._inner = inner
        self._watched = watched

    def format(self, record: logging.LogRecord) -> str:
        return self._watched.clean(self._inner.format(record))


def _guard_logs(config: pytest.Config, watched: _Watch) -> None:
    """Clean what goes to pytest's log file and, live, to the terminal; the rest is in reports."""
    plugin = config.pluginmanager.getplugin("logging-plugin")
    for name in ("log_file_handler", "log_cli_handler"):
        handler = getattr(plugin, name, None)
        if isinstance(handler, logging.Handler) and handler.formatter is not None:
            handler.setFormatter(_CleanFormatter(handler.formatter, watched))
