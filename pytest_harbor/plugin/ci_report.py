"""What a pull request is shown of a run: annotations, and a summary for the job's page.

Every process notes on a report which file a failure is about; the one that the user started
gathers reports and writes.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin import changed, workflow_log
from pytest_harbor.plugin.ci_options import GITHUB_SUMMARY, CiSettings
from pytest_harbor.plugin.collect import TaskFile, TrialItem
from pytest_harbor.plugin.options import settings

if TYPE_CHECKING:
    from pytest_harbor.errors import Problem
    from pytest_harbor.report.annotations import Annotation
    from pytest_harbor.report.job_page import Outcome, TaskRow

_HEADLINE_LINES = 3


def register(config: pytest.Config) -> None:
    """Begin, where annotations or a summary are wanted."""
    wanted = settings(config).ci
    if wanted.annotations is None and wanted.summary is None:
        return
    config.pluginmanager.register(Places(config), "harbor-places")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(CiReport(config, wanted), "harbor-ci-report")


class Places:
    """Notes on reports what they are about."""

    def __init__(self, config: pytest.Config) -> None:
        self._root = config.rootpath

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Plain values: they pass through xdist."""
        report = yield
        file = item.parent
        if report.failed and isinstance(file, TaskFile):
            fault = file.fault
            problems = fault.problems if fault and isinstance(item, TrialItem) else ()
            report.harbor_problems = [self._plain(one) for one in problems]  # type: ignore[attr-defined]
            place = _script(item) if isinstance(item, TrialItem) and not fault else file.path
            report.harbor_place = str(place)  # type: ignore[attr-defined]
        return report

    def _plain(self, problem: Problem) -> dict[str, Any]:
        from pytest_harbor.check.finding import CheckFinding

        code = problem.code or "broken-task"
        finding = CheckFinding(
            code, "error", problem.path, problem.line, problem.message, "", problem.field
        )
        return finding.as_dict(self._root)


def _script(item: TrialItem) -> Path:
    """The script that a proof is about; the task's own file where it is none."""
    role = item.originalname.partition("[")[0]
    if settings(item.config).check is None:
        return item.path
    if role in ("oracle", "no-network-grading") or role.startswith("mutant-"):
        return item.task.solution_script or item.path
    tests = item.path.parent / "tests" / "test.sh"
    return tests if role in ("nop", "planted-reward") and tests.is_file() else item.path


class CiReport:
    """Gathers all reports of a run, and writes at its end."""

    def __init__(self, config: pytest.Config, wanted: CiSettings) -> None:
        self._config = config
        self._wanted = wanted
        self._tasks: dict[str, TaskRow] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._found: list[Annotation] = []
        self._failed: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """What could not be collected."""
        if report.failed:
            where = self._config.rootpath / report.nodeid.partition("::")[0]
            self._add("error", where, None, "not collected", report.longreprtext, "collection")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What was found, and what failed."""
        file = report.nodeid.partition("::")[0]
        task = file.removesuffix("/task.toml")
        if file.endswith("task.toml"):
            if isinstance(report, pytest.SubtestReport):
                return  # a step: the trial's own report has it
            self._note(task, report)
        listed = getattr(report, "harbor_findings", None) if report.when == "call" else None
        listed = listed or getattr(report, "harbor_problems", None) or []
        for one in listed:
            self._finding(task, one)
        if report.failed and not any(one["severity"] == "error" for one in listed):
            self._failure(task, report)

    def _note(self, task: str, report: pytest.TestReport) -> None:
        from pytest_harbor.report.job_page import STATIC, TaskRow
        from pytest_harbor.result.reward import as_float

        row = self._tasks.setdefault(task, TaskRow(task))
        outcome = self._outcome(row, report)
        known: dict[str, Any] = dict(report.user_properties)
        outcome.seconds += report.duration
        if known.get("reward") is not None:
            outcome.reward = as_float(known["reward"])
        if report.when == "call" and outcome.column == STATIC:
            row.errors, row.warnings = known.get("check.errors", 0), known.get("check.warnings", 0)
        if settings(self._config).check is None and "agent" in known:
            outcome.column = " ".join([known["agent"], known.get("model") or ""]).strip()
        if report.failed and outcome.outcome != "error":
            outcome.outcome = "failed" if report.when == "call" else "error"
        elif report.skipped and outcome.outcome == "passed":
            outcome.outcome = "skipped"

    def _outcome(self, row: TaskRow, report: pytest.TestReport) -> Outcome:
        """That of the report's item; anew where the item is run again."""
        from pytest_harbor.report.job_page import Outcome

        known = self._outcomes.get(report.nodeid)
        if known is None or report.when == "setup":
            if known is not None:
                row.outcomes.remove(known)
            known = Outcome(report.nodeid.partition("::")[2].partition("[")[0])
            self._outcomes[report.nodeid] = known
            row.outcomes.append(known)
        return known

    def _finding(self, task: str, finding: dict[str, Any]) -> None:
        if finding["severity"] not in ("error", "warning"):
            return
        said = ": ".join(part for part in (finding["field"], finding["message"]) if part)
        message = f"{said}; {finding['remedy']}" if finding["remedy"] else said
        path, code = self._config.rootpath / finding["file"], finding["code"]
        self._add(finding["severity"], path, finding["line"], code, message, code, task)

    def _failure(self, task: str, report: pytest.TestReport) -> None:
        path, line = self._place(report)
        what = report.nodeid.rpartition("::")[2]
        title = f"{what} failed" if report.when == "call" else f"{what}: error in {report.when}"
        self._add("error", path, line, title, _headline(report), "failed-trial", task)

    def _place(self, report: pytest.TestReport) -> tuple[Path, int | None]:
        noted = getattr(report, "harbor_place", None)
        if noted is not None:
            return Path(noted), None
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            return self._config.rootpath / crash.path, crash.lineno
        return self._config.rootpath / report.nodeid.partition("::")[0], None

    def _add(
        self,
        level: Any,
        path: Path,
        line: int | None,
        title: str,
        message: str,
        code: str,
        task: str = "",
    ) -> None:
        from pytest_harbor.report.annotations import Annotation

        file = _in_repository(path)
        self._found.append(Annotation(level, file, line, title, message, code, task))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write; a file that cannot be written makes a run that passed fail."""
        from pytest_harbor.errors import OptionError

        if session.config.option.collectonly:
            return
        if self._wanted.annotations == "github":
            from pytest_harbor.report.annotations import github_lines

            workflow_log.annotate(self._config, github_lines(self._found))
        for path, text in self._files():
            try:
                _write(path, text)
            except OptionError as error:
                self._failed.append(f"harbor: {error}")
                if session.exitstatus == pytest.ExitCode.OK:
                    session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _files(self) -> Iterator[tuple[Path, str]]:
        if self._wanted.annotations == "gitlab":
            from pytest_harbor.report.annotations import GITLAB_FILE, gitlab_report

            folder = Path(self._config.invocation_params.dir)
            yield folder / GITLAB_FILE, gitlab_report(self._found)
        if self._wanted.summary is not None:
            from pytest_harbor.report.job_page import MAX_BYTES, job_page

            path = self._wanted.summary
            limit = MAX_BYTES - (_size(path) if _is_appended(path) else 0)
            notes = [one.removeprefix("harbor: ") for one in changed.lines(self._config)]
            yield path, job_page(list(self._tasks.values()), self._found, notes, limit)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell what could not be written."""
        for line in self._failed:
            terminalreporter.write_line(line)


def _headline(report: pytest.TestReport) -> str:
    """Why it failed: a trial's text begins with that, a test's traceback ends with it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and not hasattr(report, "harbor_place"):
        return str(crash.message)
    # Not the report's own text, which a worker of pytest-xdist begins with its name.
    lines = [one for one in str(report.longrepr).splitlines() if one.strip()]
    return "\n".join(lines[:_HEADLINE_LINES])


def _in_repository(path: Path) -> str | None:
    """The path from its repository's folder; None where it lies in none.

    Services name files from there, wherever pytest was started and the repository checked out.
    """
    from pytest_harbor.check.repository import Repository

    absolute = Path(os.path.abspath(path))
    repository = Repository.around(absolute.parent)
    return None if repository is None else absolute.relative_to(repository.path).as_posix()


def _is_appended(path: Path) -> bool:
    """GitHub's own file may hold what the step wrote before; any other is ours."""
    return str(path) == os.environ.get(GITHUB_SUMMARY)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _write(path: Path, text: str) -> None:
    from pytest_harbor.errors import OptionError
    from pytest_harbor.report.files import write_lines

    if not _is_appended(path):
        write_lines(path, [text])
        return
    try:
        with path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror}") from error
