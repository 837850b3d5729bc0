"""All static checks of one task: found, judged by the house and the task, sorted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_harbor.check.dataset import Dataset
from pytest_harbor.check.finding import CheckFinding, Found
from pytest_harbor.check.registry import CHECKS, FAMILIES
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.subject import Subject
from pytest_harbor.errors import Problem, TaskFormatError
from pytest_harbor.task.finding import nearest
from pytest_harbor.task.model import Task

IGNORE_KEY = "harbor_ignore"
"""Key of ``[metadata]`` with the codes that the task switches off."""

MAX_OF_A_CODE = 20
"""Findings of one code that are listed of one task."""

_RANK = {"error": 0, "warning": 1, "ignored": 2}


def check_task(
    task: Task | TaskFormatError,
    rules: HouseRules | None = None,
    *,
    dataset: Dataset | None = None,
    extra: Iterable[Problem] = (),
) -> tuple[CheckFinding, ...]:
    """Look a task over without running anything of it.

    Args:
        task: The task as read, or why it cannot be.
        rules: The house's own.
        dataset: The tasks that it is held against; None: none.
        extra: Problems that others found; their severity is kept.

    Returns:
        Errors first, then warnings, then what is switched off; by file and line.
    """
    rules = rules or HouseRules()
    judge = _Judge(rules, task if isinstance(task, Task) else None)
    findings = [judge.problem(one, is_strict=True) for one in task.problems]
    findings += [judge.problem(one, is_strict=False) for one in extra]
    if isinstance(task, Task):
        findings += map(judge.found, _found(task, rules, dataset))
        findings += judge.unknown_codes()
    return tuple(_bounded(sorted(dict.fromkeys(findings), key=_order)))


def judge_found(found: Iterable[Found], task: Task, rules: HouseRules) -> list[CheckFinding]:
    """What trials found of a task, judged as the static checks' findings are."""
    return [_Judge(rules, task).found(one) for one in found]


def _found(task: Task, rules: HouseRules, dataset: Dataset | None) -> Iterator[Found]:
    subject = Subject(task)
    yield from _no_solution(task)
    for family in FAMILIES:
        yield from family(subject, rules)
    if dataset is not None:
        yield from dataset.find(task.path, rules.similarity)


def _no_solution(task: Task) -> Iterator[Found]:
    """Only where there is no folder: an empty one was reported when the task was read."""
    for step in task.steps or (None,):
        script = step.solution_script if step else task.solution_script
        folder = step.solution_dir if step and step.solution_dir.is_dir() else task.solution_dir
        if script is None and not folder.is_dir():
            whose = f"the step {step.name} has" if step else "the task has"
            yield Found("no-solution", f"{whose} no solution", task.config_file)


class _Judge:
    """Settles the severity of what was found."""

    def __init__(self, rules: HouseRules, task: Task | None) -> None:
        self._rules = rules
        self._task = task
        asked = task.config.metadata.get(IGNORE_KEY, ()) if task else ()
        self._asked = [one for one in _as_list(asked) if isinstance(one, str)]
        self._ignored = (rules.ignore | frozenset(self._asked)) - rules.enforce

    def found(self, one: Found) -> CheckFinding:
        """A finding of ours."""
        check = CHECKS[one.code]
        severity = self._severity(one.code, check.severity)
        return CheckFinding(
            one.code, severity, one.path, one.line, one.message, check.remedy, one.field
        )

    def problem(self, one: Problem, *, is_strict: bool) -> CheckFinding:
        """A problem that reading the task found, or somebody's hook; it tells the remedy."""
        code = one.code or "house-check"
        severity = self._severity(code, "error" if is_strict else one.severity)
        return CheckFinding(code, severity, one.path, one.line, one.message, "", one.field)

    def unknown_codes(self) -> Iterator[CheckFinding]:
        """Codes in the task's own list that no check has, or that may not be there."""
        assert self._task is not None
        for code in self._asked:
            message = ""
            if code not in CHECKS:
                message = f"no check has the code {code!r}{nearest(code, sorted(CHECKS))}"
            elif code in self._rules.enforce:
                message = f"{code} may not be switched off here"
            if message:
                field = f"metadata.{IGNORE_KEY}"
                yield self.found(
                    Found("unknown-code", message, self._task.config_file, field=field)
                )

    def _severity(self, code: str, usual: str) -> str:
        if code in self._ignored:
            return "ignored"
        return self._rules.severity.get(code, usual)


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _order(finding: CheckFinding) -> tuple[int, str, int, str]:
    return _RANK[finding.severity], str(finding.path), finding.line or 0, finding.code


def _bounded(findings: Iterable[CheckFinding]) -> Iterator[CheckFinding]:
    counts: dict[tuple[str, str], int] = {}
    for one in findings:
        key = (one.code, one.severity)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= MAX_OF_A_CODE:
            yield one


def dataset_of(folders: Iterable[Path]) -> Dataset:
    """The tasks of a run, with those beside them on disk."""
    from pytest_harbor.check.dataset import neighbours

    given = list(folders)
    parents: dict[Path, Path] = {folder.parent: folder for folder in given}
    beside = (one for folder in parents.values() for one in neighbours(folder))
    return Dataset([*given, *beside])
