"""The numbers of a run: in the job's ``result.json``, and metrics in the summary.

Lives in the process that owns the job: the controller under pytest-xdist.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin.dataset_metrics import DatasetMetrics
from pytest_harbor.plugin.job import job_in_use
from pytest_harbor.plugin.notices import printable
from pytest_harbor.plugin.options import settings
from pytest_harbor.task.plural import in_number, listed, number_of

if TYPE_CHECKING:
    from pytest_harbor.report.custom_metrics import Metric, MetricResult
    from pytest_harbor.report.trial import Trial

PLUGIN = "harbor-numbers"
_SHOWN = 20
"""Numbers of one metric in the summary; all are in the files."""


def register(config: pytest.Config) -> None:
    """Have the numbers written at the end.

    Raises:
        pytest.UsageError: A metric that was asked for is none, or may not be run.
    """
    if settings(config).benchmark.runs_dataset_metrics and settings(config).ci.untrusted:
        raise pytest.UsageError(
            "--harbor-metric=dataset runs programs that datasets bring on this machine, and "
            "--harbor-untrusted is for tasks that nothing of may run there: leave one out"
        )
    config.pluginmanager.register(NumbersAtEnd(config, _metrics(config)), PLUGIN)


def _metrics(config: pytest.Config) -> Sequence[Metric]:
    if not settings(config).benchmark.metrics:
        return ()
    from pytest_harbor.errors import OptionError
    from pytest_harbor.report.custom_metrics import find_metric

    from_ini = config.getoption("harbor_metric", None) is None and config.inipath
    folder = from_ini.parent if from_ini else config.invocation_params.dir
    try:
        return [find_metric(spec, folder) for spec in settings(config).benchmark.metrics]
    except OptionError as error:
        raise pytest.UsageError(str(error)) from None


class NumbersAtEnd:
    """Reckons once the run has ended.

    Attributes:
        results: What the datasets' and the user's metrics came to.
    """

    def __init__(self, config: pytest.Config, metrics: Sequence[Metric]) -> None:
        self._config = config
        self._metrics = metrics
        self.results: Sequence[MetricResult] = ()
        self._own = DatasetMetrics(config)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """See that what the datasets bring can be run, before days of trials."""
        self._own.check()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Reckon and write; a metric that fails makes a run that passed fail."""
        trials = [] if session.config.option.collectonly else self._trials()
        # Under a check nop passes where it earns nothing: its rewards are no numbers.
        if not trials or settings(self._config).check:
            return
        own = self._own.by_label()
        if self._metrics or own:
            from pytest_harbor.report.custom_metrics import metric_results

            self.results = metric_results(self._metrics, trials, own)
        if (current := job_in_use(self._config)) is not None:
            write_numbers(current.path, trials, self.results, self._retried())
        failed = any(result.problem for result in self.results)
        if failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_harbor_summary(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Show the metrics, and which were not run."""
        several = len({result.dataset_label for result in self.results}) > 1
        lines = [_line(result, several) for result in self.results]
        if self._found() and not settings(self._config).check:
            lines += self._own.lines()
        return [("harbor: metrics", lines)] if lines else []

    def _found(self) -> Mapping[str, Mapping[str, Any]]:
        reporter = self._config.pluginmanager.getplugin("harbor-reporter")
        return reporter.in_order() if reporter else {}

    def _retried(self) -> int:
        return sum(known.get("tries", 1) - 1 for known in self._found().values())

    def _trials(self) -> list[Trial]:
        found = self._found()
        if not found:
            return []
        from pytest_harbor.report.trial import trial_of_properties

        return [trial_of_properties(nodeid, known) for nodeid, known in found.items()]


def _line(result: MetricResult, several: bool) -> str:
    from pytest_harbor.report.numbers import on_dataset
    from pytest_harbor.result.reward import shown

    # The dataset's own are told with it, even where it is the only one.
    is_theirs = result.given_by == "dataset"
    named = on_dataset(result.group, result.dataset_label or "")
    what = f"{result.metric} of {named if several or is_theirs else result.group}"
    if result.problem:
        return printable(f"{what}: failed: {result.problem}")
    values = listed([f"{key} {shown(value)}" for key, value in result.values.items()], _SHOWN)
    return printable("; ".join((f"{what}: {values}", *_of_how_many(result))))


def _of_how_many(result: MetricResult) -> Iterator[str]:
    yield f"over {number_of(result.trials, 'valid reward')}"
    if result.left_out:
        yield "not counted: " + ", ".join(in_number(n, why) for why, n in result.left_out.items())


def write_numbers(
    folder: Path, trials: Sequence[Trial], metrics: Sequence[MetricResult], retried: int = 0
) -> None:
    """Add the numbers to a job's ``result.json``; what Harbor has a place for goes there, too.

    There, the metrics of a group are the dataset's, then the user's, in Harbor's order.

    A file that cannot be read or written is left: the trials' own hold the results.

    Args:
        folder: Of the job.
        trials: Of the run.
        metrics: What the datasets' and the user's came to.
        retried: How many trials were begun again.
    """
    from pytest_harbor.report.data import plain
    from pytest_harbor.report.dataset_metrics import evals_metrics
    from pytest_harbor.report.harbor_figures import harbor_figures
    from pytest_harbor.report.numbers_file import numbers_json
    from pytest_harbor.trial.record import write_json

    path = folder / "result.json"
    try:
        content = json.loads(path.read_bytes())
        evals = content["stats"]["evals"]
        for key, figures in harbor_figures(trials, believes=False).items():
            if key in evals:
                evals[key]["pass_at_k"] = dict(figures.pass_at_k)
        for key, found in evals_metrics(trials, metrics).items():
            if key in evals:
                evals[key]["metrics"] = plain(found)
        stats = content["stats"]
        stats["n_retries"] = stats.get("n_retries", 0) + retried
        write_json(path, {**content, "pytest_harbor": numbers_json(trials, metrics)})
    except (OSError, ValueError, KeyError, TypeError):
        return
