"""The summary at the end of a run, and the job's own files: both read the reports.

Lives in the process that owns the job: the controller under pytest-xdist.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin.engine import is_trial_id
from pytest_harbor.plugin.job import counted, job, job_in_use, job_record
from pytest_harbor.plugin.options import settings

if TYPE_CHECKING:
    from pytest_harbor.plugin.progress_lines import Counts


class TrialReporter:
    """Gathers every trial's properties; writes the job's files and the summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._kept: dict[object, None] = {}
        self._places: dict[str, int] = {}
        self._begun: dict[str, float] = {}
        self._ended: set[str] = set()
        self.trials: dict[str, dict[str, Any]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Take note of the trials to come."""
        self._expect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """The same where workers collect; all find the same."""
        self._expect(ids)

    def _expect(self, ids: Iterable[str]) -> None:
        self._places = {one: place for place, one in enumerate(filter(is_trial_id, ids))}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A trial begins."""
        if is_trial_id(nodeid):
            first = not self._begun
            self._begun[nodeid] = time.time()
            self._ended.discard(nodeid)
            if first:
                self._show_progress()

    def _show_progress(self) -> None:
        if settings(self._config).progress == "off" or not sys.stdout.isatty():
            return
        from pytest_harbor.plugin import progress

        progress.begin(self._config, self._running, self._counts)

    def _running(self) -> dict[str, float]:
        """The trials that run, and when they began."""
        return {one: when for one, when in list(self._begun.items()) if one not in self._ended}

    def _counts(self) -> Counts:
        from pytest_harbor.plugin.progress_lines import Counts

        failed = sum(one["outcome"] in ("failed", "error") for one in list(self.trials.values()))
        return Counts(ended=len(self._ended), expected=len(self._places), failed=failed)

    @property
    def _cut_off(self) -> int:
        """How many trials have begun and not ended."""
        return len(self._running())

    @property
    def _not_begun(self) -> int:
        return max(len(self._places) - len(self._begun), 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a trial; of its phases the last one knows most."""
        self._kept |= {value: None for name, value in report.user_properties if name == "kept"}
        if not is_trial_id(report.nodeid):
            return
        if report.when == "setup":
            # A trial that is run again reports anew.
            self.trials.pop(report.nodeid, None)
        known = self.trials.setdefault(report.nodeid, {"outcome": "passed"})
        known.update(report.user_properties)
        if report.when == "call":
            # What breaks afterwards takes nothing from the reward.
            known["passed"] = report.passed
        if report.outcome != "passed":
            known["outcome"] = "error" if report.when != "call" else report.outcome
            if report.skipped:
                known["outcome"] = "skipped"
        if report.when not in ("setup", "call"):
            self._ended.add(report.nodeid)  # a worker that crashed reports no phase
        if report.when == "teardown":
            self._add_to_job(report.nodeid, known)

    def pytest_sessionfinish(self) -> None:
        """Write the job's final state."""
        if job_in_use(self._config) is not None:
            job_record(self._config).finish(cancelled=self._cut_off, pending=self._not_begun)

    def pytest_unconfigure(self) -> None:
        """All processes have ended: what those that were killed left tells nobody anything."""
        if (current := job_in_use(self._config)) is not None:
            from pytest_harbor.trial.status import forget_running

            forget_running(current.path)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show what the trials came to."""
        for kept in self._kept:
            terminalreporter.section("kept environment", "-")
            terminalreporter.write_line(str(kept))
        if not (self.trials or self._begun):
            return
        terminalreporter.section("harbor", "=")
        for line in self._lines(self._config.get_terminal_writer().fullwidth):
            terminalreporter.write_line(line)
        answers = self._config.hook.pytest_harbor_summary(
            config=self._config, results=list(self.trials.values())
        )
        for title, lines in (section for answer in answers if answer for section in answer):
            terminalreporter.section(title, "-")
            for line in lines:
                terminalreporter.write_line(line)

    def _lines(self, width: int = 80) -> Iterator[str]:
        from pytest_harbor.plugin.summary import summary_lines
        from pytest_harbor.task.plural import number_of

        trials = list(self.trials.values())
        tasks = {nodeid.partition("::")[0] for nodeid in self.trials}
        resumed = sum("resumed" in trial for trial in trials)
        told = f"; {resumed} from an earlier run (resumed)" if resumed else ""
        count = f"{number_of(len(tasks), 'task')}, {number_of(len(trials), 'trial')}"
        yield f"{count}{self._left_open()}{told}"
        yield from summary_lines(
            self.in_order(),
            width=width,
            # Under a check nop passes where it earns nothing: no rate of rewards says so.
            rates=settings(self._config).check is None,
            short=self._config.get_verbosity() < 0,
        )
        if any("trial" in trial for trial in trials) or (self._begun and job_in_use(self._config)):
            yield f"results: {job(self._config).path}"
            yield from self._how_to_go_on()

    def in_order(self) -> dict[str, dict[str, Any]]:
        """The trials as they were collected: workers end them in any order."""
        ordered = sorted(self.trials, key=lambda one: self._places.get(one, 0))
        return {nodeid: self.trials[nodeid] for nodeid in ordered}

    def _how_to_go_on(self) -> Iterator[str]:
        """The command for what a run that ended early has left."""
        wanted, current = settings(self._config), job_in_use(self._config)
        if current is None or wanted.check or wanted.benchmark.regrade or not self._left_open():
            return
        from pytest_harbor.plugin.rerun import go_on

        yield f"the rest: {go_on(self._config, current.path)}"

    def _left_open(self) -> str:
        """What a run that ended early has no result of."""
        counts = {"cut off": self._cut_off, "not begun": self._not_begun}
        return "".join(f"; {number} {what}" for what, number in counts.items() if number)

    def _add_to_job(self, nodeid: str, trial: dict[str, Any]) -> None:
        # What an earlier run of the job has done is in its record from the beginning.
        if "trial" in trial and "category" in trial and "resumed" not in trial:
            job_record(self._config).add(
                nodeid,
                counted(trial, Path(trial["trial"]).name),
                running=self._cut_off,
                pending=self._not_begun,
            )
