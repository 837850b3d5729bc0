"""``--harbor-check``: the item of the static checks, and the trials that prove a task.

Imported only where a check was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.agent.base import Agent
from pytest_harbor.agent.probes import LookingAgent, MutantAgent, PlantedRewardAgent
from pytest_harbor.check.dataset import Dataset
from pytest_harbor.check.finding import CheckFinding, Found, finding_line
from pytest_harbor.check.instruction import inputs
from pytest_harbor.check.mutants import Mutant, mutants
from pytest_harbor.check.run import check_task, dataset_of, judge_found
from pytest_harbor.check.subject import Subject
from pytest_harbor.plugin import labels
from pytest_harbor.plugin.check_options import house_rules
from pytest_harbor.plugin.collect import AboveTask, TaskFile, TrialItem
from pytest_harbor.plugin.options import settings
from pytest_harbor.plugin.outcomes import Failed
from pytest_harbor.plugin.variants import Variant, variants
from pytest_harbor.trial.network_plan import task_network

if TYPE_CHECKING:
    from pytest_harbor.result.trial import TrialResult
    from pytest_harbor.result.work import Work
    from pytest_harbor.task.model import Task

NAME = "check"
"""The item of the static checks; no agent's."""

FINDINGS = pytest.StashKey[list[CheckFinding]]()
"""What an item found; its report has it as ``harbor_findings``."""

SLOW_SHARE = 0.5
"""Share of the verifier's limit above which it is too slow."""

_DATASET = pytest.StashKey[Dataset]()
_AGENTS = {"verifier-time": "oracle", "no-network-grading": "oracle"}


def static_check(request: pytest.FixtureRequest) -> None:
    """The function of every static check: all findings, errors first, in one text."""
    item: CheckItem = request.node
    findings = _static_findings(item)
    item.stash[FINDINGS] = findings
    errors = [one for one in findings if one.severity == "error"]
    codes = dict.fromkeys(one.code for one in errors)
    item.user_properties += [
        ("check.errors", len(errors)),
        ("check.warnings", sum(one.severity == "warning" for one in findings)),
        ("check.codes", ",".join(codes)),
    ]
    text = "\n".join(finding_line(one.as_dict(_near(item))) for one in findings)
    if errors:
        raise Failed(text)
    if text:
        item.add_report_section("call", "harbor check", text)


def _near(item: pytest.Item) -> Path:
    return Path(item.config.invocation_params.dir)


def _static_findings(item: CheckItem) -> list[CheckFinding]:
    file = item.parent
    read = file.fault or file.task
    rules = house_rules(item.config)
    findings = check_task(read, rules, dataset=_dataset(item), extra=file.asked)
    return list(findings)


def _dataset(item: pytest.Item) -> Dataset:
    """The tasks of this run and those beside them; read once by each process."""
    stash = item.config.stash
    if _DATASET not in stash:
        files = (one.parent for one in item.session.items)
        stash[_DATASET] = dataset_of(f.path.parent for f in files if isinstance(f, TaskFile))
    return stash[_DATASET]


class CheckItem(AboveTask, pytest.Function):
    """The static checks of one task; needs no engine."""

    parent: TaskFile

    def reportinfo(self) -> tuple[str, int | None, str]:
        """Point editors and reports at the task."""
        return str(self.path), 0, f"{self.path.parent.name}::{self.name}"


def check_item(file: TaskFile) -> CheckItem:
    """The item of a task's static checks, broken ones' too."""
    item: CheckItem = CheckItem.from_parent(file, name=NAME, callobj=static_check)
    if file.fault is None:
        arguments = labels.marker(file.task, Variant(NAME, None, 1, NAME))
        item.add_marker(pytest.mark.harbor(**arguments))
    return item


def check_variants(config: pytest.Config, task: Task | None) -> dict[str, Variant]:
    """The trials that prove a task, by the names of their items."""
    wanted = settings(config)
    if wanted.check == "static" or task is None:
        return {}
    names = [one for one in variants(wanted) if one.agent == "oracle"]
    names += [Variant("nop", None, 1, "nop")]
    if wanted.check == "full":
        names += [Variant(_AGENTS.get(name, name), None, 1, name) for name in _probes(task)]
    return {one.name: one for one in names}


def _probes(task: Task) -> Iterator[str]:
    yield "planted-reward"
    yield from (f"mutant-{number}" for number in range(1, len(mutants(task)) + 1))
    yield "verifier-time"
    if all(work.verifier.mode == "no-network" for work in task_network(task).works):
        yield "no-network-grading"


def probe_agent(item: pytest.Item) -> Agent | None:
    """The agent of an item that proves a task; None: the one that it is named after."""
    if not isinstance(item, TrialItem):
        return None
    role = item.originalname
    if role == "planted-reward":
        return PlantedRewardAgent()
    if role.startswith("mutant-"):
        mutant = _mutant(item)
        return MutantAgent(mutant.script, mutant.text)
    if role == "nop" and settings(item.config).check == "full":
        return LookingAgent([one.path for one in inputs(Subject(item.task))])
    return None


def _mutant(item: TrialItem) -> Mutant:
    return mutants(item.task)[int(item.originalname.rpartition("-")[2]) - 1]


def judge(item: TrialItem, result: TrialResult) -> str | None:
    """Why a trial does not prove its task; None: it does."""
    role = item.originalname.partition("[")[0]
    if role == "nop":
        _look(item)
        return _nop_fault(result)
    if role == "planted-reward":
        return "a reward that the agent planted counts" if result.passed else None
    if role.startswith("mutant-"):
        return _mutant_fault(_mutant(item), result)
    if fault := _oracle_fault(result):
        return fault
    return _further_fault(role, item, result)


def _nop_fault(result: TrialResult) -> str | None:
    if result.passed:
        return "the task passes without doing anything"
    if result.verdict is None:
        return "no verdict on a box in which nothing was done; it should be a reward below"
    return None


def _mutant_fault(mutant: Mutant, result: TrialResult) -> str | None:
    if not result.passed:
        return None
    return f"the tests do not need {mutant.lines} of {mutant.script.name}: they pass without"


def _oracle_fault(result: TrialResult) -> str | None:
    if not result.passed:
        return "the task's own solution does not pass"
    codes = [work.agent_exit_code for work in result.works if work.agent_exit_code]
    if codes:
        return f"the task's own solution passes, but exits with status {codes[0]}"
    if result.faults:
        return "the task's own solution passes, but not without a fault"
    return None


def _further_fault(role: str, item: TrialItem, result: TrialResult) -> str | None:
    found = list(_trial_findings(role, item, result))
    findings = judge_found(found, item.task, house_rules(item.config))
    item.stash[FINDINGS] = findings
    errors = [one for one in findings if one.severity == "error"]
    return "\n".join(one.text for one in errors) or None


def _trial_findings(role: str, item: TrialItem, result: TrialResult) -> Iterator[Found]:
    path = item.task.config_file
    if role == "verifier-time":
        for step, seconds in _verifier_seconds(item.task, result):
            limit = item.task.config.verifier_timeout_sec(step)
            if limit > 0 and seconds > SLOW_SHARE * limit:
                message = f"grading took {seconds:.1f} s of its {limit:g}"
                yield Found("slow-verifier", message, path)
    if role == "no-network-grading":
        for phase in result.refusals:
            if phase.phase == "verifier" and phase.count:
                listed = ", ".join(str(one) for one in phase.refused[:3])
                message = f"{phase.count} connections were refused while grading: {listed}"
                yield Found("refused-while-grading", message, path)


def _verifier_seconds(task: Task, result: TrialResult) -> Iterator[tuple[Any, float]]:
    steps: Sequence[Any] = [step.config for step in task.steps] or [None]
    works: Sequence[Work] = result.steps or [result]
    for step, work in zip(steps, works, strict=False):
        yield step, work.seconds("verifier")


def _look(item: TrialItem) -> None:
    """Note the paths that the image lacks, where the agent looked for them."""
    agent = item.funcargs.get("harbor_agent")
    if not isinstance(agent, LookingAgent) or not agent.missing:
        return
    named = {one.path: one for one in inputs(Subject(item.task))}
    found = [
        Found("path-not-in-image", f"{path}: the built image lacks it", one.file, one.line)
        for path in agent.missing
        if (one := named.get(path))
    ]
    findings = judge_found(found, item.task, house_rules(item.config))
    item.stash[FINDINGS] = findings
    text = "\n".join(finding_line(one.as_dict(_near(item))) for one in findings)
    item.add_report_section("call", "harbor check", text)
