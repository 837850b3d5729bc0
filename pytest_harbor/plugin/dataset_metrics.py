"""The metrics that the datasets of a run bring: formulas, and scripts that are run on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin.dataset_roots import NAME as ROOTS
from pytest_harbor.plugin.dataset_roots import DatasetRoots, hub_maker
from pytest_harbor.plugin.notices import printable
from pytest_harbor.plugin.options import settings

if TYPE_CHECKING:
    from pytest_harbor.dataset.dataset import Dataset
    from pytest_harbor.dataset.metric_script import Scripts
    from pytest_harbor.dataset.metrics import MetricScript
    from pytest_harbor.report.custom_metrics import Metric

_OPTION = "--harbor-metric=dataset"


class DatasetMetrics:
    """What the datasets bring, in the process that the user started."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @property
    def _datasets(self) -> Sequence[Dataset]:
        roots: DatasetRoots | None = self._config.pluginmanager.getplugin(ROOTS)
        return roots.datasets if roots is not None else ()

    @property
    def _runs_scripts(self) -> bool:
        return settings(self._config).benchmark.runs_dataset_metrics

    @cached_property
    def _scripts(self) -> Scripts:
        from pytest_harbor.dataset.cache import Cache
        from pytest_harbor.dataset.metric_script import Scripts

        return Scripts(Cache(), hub_maker(self._config))

    def check(self) -> None:
        """See that each script that is to be run is there, and is what was pinned.

        Raises:
            pytest.UsageError: One is not.
        """
        if not self._runs_scripts:
            return
        from pytest_harbor.errors import DatasetError

        for label, script in self._found_scripts():
            try:
                self._scripts.path(script)
            except DatasetError as error:
                raise pytest.UsageError(printable(f"{_OPTION}: {label}: {error}")) from None

    def by_label(self) -> dict[str, list[Metric]]:
        """The metrics of each dataset that are reckoned, in Harbor's order."""
        if not self._datasets:
            return {}
        from pytest_harbor.report.dataset_metrics import formula

        found: dict[str, list[Metric]] = {}
        for dataset in self._datasets:
            for one in dataset.metrics:
                if one.script is None:
                    found.setdefault(dataset.label, []).append(formula(one.type))
                elif self._runs_scripts:
                    found.setdefault(dataset.label, []).append(self._metric(one.script))
        return found

    def lines(self) -> Iterator[str]:
        """Which scripts were not run, and how they would be."""
        found = list(self._found_scripts())
        if self._runs_scripts:
            if not found and self._config.getoption("harbor_metric", None) is not None:
                yield f"{_OPTION}: no dataset of this run brings a metric"
            return
        for label, script in found:
            if script.problem:
                why = f"its metric {script.name} cannot be run: {script.problem}"
            else:
                why = (
                    f"its metric {script.name} ({script.digest[:19]}) was not run: it is a program "
                    f"of others. {self._how(script)}"
                )
            yield printable(f"{label}: {why}")

    def _how(self, script: MetricScript) -> str:
        from pytest_harbor.errors import DatasetError

        if settings(self._config).ci.untrusted:
            return "Under --harbor-untrusted none is run"
        try:
            return f"Read {self._scripts.kept(script)}, then run it with {_OPTION}"
        except DatasetError:
            return f"It is run with {_OPTION}"

    def _found_scripts(self) -> Iterator[tuple[str, MetricScript]]:
        for dataset in self._datasets:
            for one in dataset.metrics:
                if one.script is not None:
                    yield dataset.label, one.script

    def _metric(self, script: MetricScript) -> Metric:
        from pytest_harbor.report.custom_metrics import Metric
        from pytest_harbor.report.metric_process import run_script

        def compute(rewards: Sequence[Mapping[str, float] | None]) -> Any:
            # Held against its digest again: the trials may have taken days.
            return run_script(self._scripts.path(script), rewards, is_ours=False)

        return Metric(script.name, compute, "dataset", script.digest)
