"""Files that are written of the job at the end of a run, and the job it is compared with.

With pytest-xdist the controller does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_harbor.plugin.ini import absolute_path

if TYPE_CHECKING:
    from pytest_harbor.report.comparison import Comparison
    from pytest_harbor.report.job import JobReading

_FILES = ("html", "csv", "jsonl", "json")


class ReportSettings(NamedTuple):
    """What to write, and what to compare with; None: not asked for.

    Attributes:
        html: File of the report.
        csv: File of the table of trials.
        jsonl: File of the traces.
        json: File of the numbers.
        baseline: Folder of the earlier job.
    """

    html: Path | None = None
    csv: Path | None = None
    jsonl: Path | None = None
    json: Path | None = None
    baseline: Path | None = None


def report_settings(config: pytest.Config, value: Mapping[str, Any]) -> ReportSettings:
    """The options' values as paths: from the command line's folder, or the ini file's.

    Raises:
        pytest.UsageError: Two files are one, a file is a folder, or the baseline is no job.
    """
    found = {
        name: absolute_path(config, f"harbor_{name}", value[name])
        for name in ReportSettings._fields
        if value[name] is not None
    }
    wanted = ReportSettings(**found)
    if not hasattr(config, "workerinput"):
        _check(wanted)
    return wanted


def _check(wanted: ReportSettings) -> None:
    files = {name: path for name in _FILES if (path := getattr(wanted, name)) is not None}
    for name, path in files.items():
        if path.is_dir():
            raise pytest.UsageError(f"--harbor-{name}: expected a file, {path} is a folder")
        same = [other for other in files if other != name and files[other] == path]
        if same:
            raise pytest.UsageError(f"--harbor-{name} and --harbor-{same[0]} are both {path}")
    if wanted.baseline is not None:
        _check_baseline(wanted.baseline)


def _check_baseline(path: Path) -> None:
    # Reading jobs takes more than a plain pytest run has loaded.
    from pytest_harbor.errors import OptionError
    from pytest_harbor.report.job import check_job

    try:
        check_job(path)
    except OptionError as error:
        raise pytest.UsageError(f"--harbor-baseline: {error}") from None


def register(config: pytest.Config, wanted: ReportSettings) -> None:
    """Have the files written, where any is asked for."""
    if any(wanted):
        config.pluginmanager.register(ReportWriter(config, wanted), "harbor-reports")


class ReportWriter:
    """Reads the job's folder once the run has ended, and writes of it what was asked for."""

    def __init__(self, config: pytest.Config, wanted: ReportSettings) -> None:
        self._config = config
        self._wanted = wanted
        self._lines: list[str] = []
        self._compared: list[str] = []
        self._comparison: Comparison | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the files; one that cannot be written makes a run that passed fail."""
        if session.config.option.collectonly:
            return
        from pytest_harbor.errors import OptionError

        for write in self._writers():
            try:
                write()
            except OptionError as error:
                self._lines.append(f"harbor: {error}")
                if session.exitstatus == pytest.ExitCode.OK:
                    session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_harbor_summary(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Show the comparison."""
        baseline = self._wanted.baseline
        if baseline is None or not self._compared:
            return []
        return [(f"harbor: against {baseline.name}", self._compared)]

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell where the files are."""
        for line in self._lines:
            terminalreporter.write_line(line)

    def _writers(self) -> Iterator[Callable[[], None]]:
        """What is to be done, each apart: one may fail."""
        from pytest_harbor.plugin.job_reading import job_reading
        from pytest_harbor.report.tables import csv_lines
        from pytest_harbor.report.traces import jsonl_lines

        job = job_reading(self._config)
        if job is None:
            self._lines.append("harbor: no trial ran, so no report was written")
            return
        wanted = self._wanted
        if wanted.baseline:
            yield partial(self._compare, job, wanted.baseline)
        if wanted.html:
            yield partial(self._write, wanted.html, lambda: self._page(job))
        if wanted.csv:
            yield partial(self._write, wanted.csv, lambda: csv_lines(job.trials))
        if wanted.jsonl:
            yield partial(self._write, wanted.jsonl, lambda: jsonl_lines(job.trials))
        if wanted.json:
            yield partial(self._write, wanted.json, lambda: self._numbers(job))

    def _compare(self, job: JobReading, baseline: Path) -> None:
        from pytest_harbor.report.comparison import compare, comparison_lines
        from pytest_harbor.report.job import read_job

        self._comparison = compare(job, read_job(baseline))
        self._compared = list(comparison_lines(self._comparison))

    def _page(self, job: JobReading) -> Iterator[str]:
        from pytest_harbor.report.page import page

        return page(job, job.trials, self._comparison)

    def _numbers(self, job: JobReading) -> Iterator[str]:
        from pytest_harbor.report.numbers_file import json_lines

        at_end = self._config.pluginmanager.getplugin("harbor-numbers")
        return json_lines(job, job.trials, at_end.results if at_end else ())

    def _write(self, path: Path, lines: Callable[[], Iterator[str]]) -> None:
        from pytest_harbor.report.files import write_lines

        write_lines(path, lines())
        self._lines.append(f"report: {path}")
