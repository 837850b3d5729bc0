"""What a check comes to: findings on reports, a section of the summary, the exit status."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from pytest_harbor.check.finding import finding_line
from pytest_harbor.plugin.check_options import house_rules
from pytest_harbor.task.plural import in_number, number_of

_SHOWN = 50


class CheckReport:
    """Lives in every process of a run that checks; the controller's sees all reports.

    Attributes:
        findings: Of every item, in the form of :meth:`CheckFinding.as_dict`.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.findings: list[dict[str, Any]] = []
        self._checked: set[str] = set()
        self._unproven: dict[str, str] = {}
        self._oracles: dict[str, dict[str, bool]] = defaultdict(dict)
        house_rules(config)  # its errors are the user's: before anything is collected

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put an item's findings on its report, as plain values: they pass through xdist."""
        report = yield
        if report.when == "call":
            from pytest_harbor.plugin.check_items import FINDINGS

            found = item.stash.get(FINDINGS, [])
            root = self._config.rootpath
            plain = [one.as_dict(root) for one in found]
            report.harbor_findings = plain  # type: ignore[attr-defined]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of findings, of oracles, and of trials that proved nothing."""
        task, separator, name = report.nodeid.partition("::")
        if not separator or not task.endswith("task.toml"):
            return
        self._checked.add(task)
        if report.when == "call":
            self.findings += getattr(report, "harbor_findings", [])
        if report.skipped and report.when in ("setup", "call"):
            self._unproven[report.nodeid] = _reason(report)
        if name.startswith("oracle[") and report.when == "call":
            self._oracles[task][name] = report.passed

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A task of which a trial was skipped is not proven, and the run not green."""
        if self._unproven and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show warnings too, which fail nothing, and what else a failed item does not tell."""
        if not self._checked:
            return
        terminalreporter.section("harbor check", "=")
        for line in self._lines():
            terminalreporter.write_line(line)

    def _lines(self) -> Iterator[str]:
        counts = Counter(one["severity"] for one in self.findings)
        shown = [number_of(counts[kind], kind) for kind in ("error", "warning") if counts[kind]]
        yield f"{number_of(len(self._checked), 'task')}: {', '.join(shown) or 'no findings'}"
        warnings = [one for one in self.findings if one["severity"] == "warning"]
        yield from map(finding_line, warnings[:_SHOWN])
        if len(warnings) > _SHOWN:
            yield f"and {in_number(len(warnings) - _SHOWN, 'warnings')} more"
        yield from self._switched_off()
        for task, attempts in self._oracles.items():
            passed = sum(attempts.values())
            if 0 < passed < len(attempts):
                yield f"flaky: {task}: the oracle passed {passed} of {len(attempts)}"
        for nodeid, reason in self._unproven.items():
            yield f"not proven: {nodeid}: {reason}"

    def _switched_off(self) -> Iterator[str]:
        ignored: dict[str, Counter[str]] = defaultdict(Counter)
        for one in self.findings:
            if one["severity"] == "ignored":
                ignored[one["code"]][one["file"]] += 1
        for code, files in sorted(ignored.items()):
            yield f"switched off: {code}: {files.total()} in {', '.join(list(files)[:3])}"


def _reason(report: pytest.TestReport) -> str:
    told = report.longrepr
    return str(told[2] if isinstance(told, tuple) else told).removeprefix("Skipped: ")
