"""What pytest loads: the hooks, each handed on to the room that does the work.

This module loads in every pytest run on a machine, so it and all that it imports keep
to the standard library and pytest; docker and pydantic come when the first task does.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_harbor.plugin import (
    ahead,
    best_of,
    changed,
    ci_report,
    collect,
    dataset_lock,
    dataset_roots,
    defaults,
    engine,
    fixtures,
    guard,
    hookspecs,
    labels,
    numbers_at_end,
    options,
    report_options,
    resume,
    untrusted,
)
from pytest_harbor.plugin.notices import HarborWarning
from pytest_harbor.plugin.workflow_log import pytest_cmdline_main

__all__ = ["HarborWarning", "pytest_cmdline_main"]


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare our hooks and bring in our fixtures."""
    pluginmanager.add_hookspecs(hookspecs)
    pluginmanager.register(fixtures, "harbor-fixtures")
    pluginmanager.register(defaults, "harbor-defaults")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare our options."""
    options.add_options(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Keep pytest from importing ``conftest.py`` files of tasks before collection."""
    untrusted.close_early(early_config)
    guard.refuse_ini_file(early_config)
    anchors = guard.conftest_anchors(early_config)
    namespace = early_config.known_args_namespace
    given = namespace.file_or_dir
    if anchors is not None:
        namespace.file_or_dir = anchors
    try:
        yield
    finally:
        namespace.file_or_dir = given


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the options, name our marker, and point arguments at tasks, not into them."""
    options.settings(config)
    defaults.check_verifier(config)
    config.addinivalue_line("markers", labels.MARKER)
    resume.begin(config)
    guard.rewrite_args(config)
    changed.register(config)
    dataset_roots.register(config)
    ci_report.register(config)
    untrusted.register(config, options.settings(config).ci.untrusted)
    if options.settings(config).check:
        from pytest_harbor.plugin.check_report import CheckReport

        config.pluginmanager.register(CheckReport(config), "harbor-check")
    if hasattr(config, "workerinput"):
        return
    from pytest_harbor.plugin.terminal import TrialReporter

    config.pluginmanager.register(TrialReporter(config), "harbor-reporter")
    dataset_lock.register(config)
    numbers_at_end.register(config)
    best_of.register(config)
    if (earlier := options.settings(config).benchmark.regrade) is not None:
        from pytest_harbor.plugin.regrade import RegradeSummary

        config.pluginmanager.register(RegradeSummary(earlier), "harbor-regrade")
    report_options.register(config, options.settings(config).reports)
    if config.pluginmanager.hasplugin("xdist"):
        from pytest_harbor.plugin.workers import XdistHooks

        config.pluginmanager.register(XdistHooks(config), "harbor-xdist")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_ignore_collect(
    collection_path: Path, config: pytest.Config
) -> Generator[None, bool | None, bool | None]:
    """Never drop a task in silence, never look where only a container may."""
    ignored = yield
    return collect.is_left_out(collection_path, config, ignored)


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a task's folder as a task."""
    return collect.collect_folder(path, parent)


def pytest_report_teststatus(
    report: pytest.TestReport | pytest.CollectReport, config: pytest.Config
) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """Say of which items the outcome is an earlier run's."""
    return resume.status_word(report) if options.settings(config).resume else None


def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Report what --harbor-tasks asked for and collection did not find."""
    labels.check_patterns(config)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Meet the engine before the first trial, and end the run here where there is none."""
    config = session.config
    if config.option.collectonly or hasattr(config, "workerinput"):
        return
    if any(isinstance(item, collect.TrialItem) for item in session.items):
        first = session.items[0]
        ids = [item.nodeid for item in session.items]
        engine.require_for(config, ids, first if isinstance(first, collect.TrialItem) else None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """A worker has collected: let it load what its first trial needs while it waits for items."""
    if hasattr(session.config, "workerinput"):
        ahead.load(session)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Keep secrets out of logs; begin what the next trial would wait for while this item runs."""
    if _has_trial(item):
        from pytest_harbor.plugin.redaction import watch

        watch(item)
    for coming in (item, nextitem):
        if isinstance(coming, collect.TrialItem):
            engine.foresee(coming)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Errors of ours in the set-up of a trial become outcomes that explain themselves."""
    if not isinstance(item, collect.TrialItem):
        return (yield)
    from pytest_harbor.plugin.outcomes import guard_setup
    from pytest_harbor.plugin.retries import set_up

    return (yield from set_up(item, contextmanager(guard_setup)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Secrets of a trial are in no report."""
    report = yield
    if _has_trial(item):
        from pytest_harbor.plugin.redaction import clean_report

        clean_report(item, report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Say at pytest's debugger what of a trial is at hand."""
    if isinstance(node, collect.TrialItem) and node.config.getoption("usepdb", False):
        from pytest_harbor.plugin.debugger import hint

        reporter = node.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and (text := hint(node)):
            reporter.write_line(f"\n{text}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Once all else has ended, workers too: remove what is left of this run."""
    try:
        return (yield)
    finally:
        engine.clean_up(session.config)


def _has_trial(item: pytest.Item) -> bool:
    return isinstance(item, collect.TrialItem) or "harbor" in getattr(item, "fixturenames", ())
