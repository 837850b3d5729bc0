"""The summary at the end of a run, and the job's own files: both read the reports.

Lives in the process that owns the job: the controller under pytest-xdist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.plugin.engine import is_trial_id
from pytest_harbor.plugin.job import counted, job, job_in_use, job_record
from pytest_harbor.plugin.options import settings

_COUNTED = "reward"
_SHOWN_FINDINGS = 20
_APART = {
    "task": "no valid reward (the task's fault)",
    "agent": "the agent could not work",
    "environment": "environment faults",
    "skipped": "skipped",
}
_USAGE = {
    "input_tokens": "{:,} tokens read",
    "cache_tokens": "{:,} of them cached",
    "output_tokens": "{:,} tokens written",
    "cost_usd": "{:,.4f} USD",
}


class TrialReporter:
    """Gathers every trial's properties; writes the job's files and the summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._kept: dict[object, None] = {}
        self._expected = 0
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self.trials: dict[str, dict[str, Any]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the trials to come."""
        self._expected = sum(is_trial_id(item.nodeid) for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """The same where workers collect; all find the same."""
        self._expected = sum(map(is_trial_id, ids))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A trial begins."""
        if is_trial_id(nodeid):
            self._begun.add(nodeid)
            self._ended.discard(nodeid)

    @property
    def _cut_off(self) -> int:
        """How many trials have begun and not ended."""
        return len(self._begun - self._ended)

    @property
    def _not_begun(self) -> int:
        return max(self._expected - len(self._begun), 0)

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

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show what the trials came to."""
        for kept in self._kept:
            terminalreporter.section("kept environment", "-")
            terminalreporter.write_line(str(kept))
        if not (self.trials or self._begun):
            return
        terminalreporter.section("harbor", "=")
        for line in self._lines():
            terminalreporter.write_line(line)
        answers = self._config.hook.pytest_harbor_summary(
            config=self._config, results=list(self.trials.values())
        )
        for title, lines in (section for answer in answers if answer for section in answer):
            terminalreporter.section(title, "-")
            for line in lines:
                terminalreporter.write_line(line)

    def _lines(self) -> Iterator[str]:
        trials = list(self.trials.values())
        tasks = {nodeid.partition("::")[0] for nodeid in self.trials}
        resumed = sum("resumed" in trial for trial in trials)
        told = f"; {resumed} from an earlier run (resumed)" if resumed else ""
        yield (
            f"{_count(len(tasks), 'task')}, {_count(len(trials), 'trial')}{self._left_open()}{told}"
        )
        for agent, group in _by_agent(trials).items():
            # Under a check nop passes where it earns nothing: no rate of rewards says so.
            if settings(self._config).check is None:
                yield f"{agent}: {rate(group)}"
            if spent := usage(group):
                yield f"{agent}: {spent}"
        yield from _integrity(self.trials)
        if any("trial" in trial for trial in trials) or (self._begun and job_in_use(self._config)):
            yield f"results: {job(self._config).path}"

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


def _integrity(trials: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The trials with signs of tampering, and their kinds."""
    found = {name: trial for name, trial in trials.items() if trial.get("integrity")}
    for nodeid, trial in list(found.items())[:_SHOWN_FINDINGS]:
        number = _count(trial["integrity"], "sign") + " of tampering"
        yield f"integrity: {nodeid}: {number} ({trial.get('integrity.codes', '')})"
    if more := max(len(found) - _SHOWN_FINDINGS, 0):
        yield f"integrity: {_count(more, 'trial')} more with signs of tampering"


def _by_agent(trials: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for trial in trials:
        name = str(trial.get("agent", "unknown agent"))
        if trial.get("model"):
            name += f" with {trial['model']}"
        groups.setdefault(name, []).append(trial)
    return groups


def rate(trials: list[dict[str, Any]]) -> str:
    """The pass rate with its denominator, and everything that is not in it."""
    valid = [trial for trial in trials if trial.get("category") == _COUNTED]
    parts = [_pass_rate(valid) if valid else "no valid reward"]
    left_out = Counter(
        _APART.get(trial.get("category", ""), "without a result")
        for trial in trials
        if trial.get("category") != _COUNTED
    )
    apart = [f"{number} {why}" for why, number in left_out.items()]
    if apart:
        parts.append("not counted: " + ", ".join(apart))
    return "; ".join(parts)


def _pass_rate(valid: list[dict[str, Any]]) -> str:
    from pytest_harbor.result.reward import as_float

    passed = sum(1 for trial in valid if trial.get("passed"))
    # A box that was tampered with must not lift the mean, graded or not.
    rewards = [as_float(trial.get("reward", 0)) for trial in valid]
    untrusted = [bool(trial.get("untrusted")) for trial in valid]
    pairs = zip(rewards, untrusted, strict=True)
    mean = sum(min(reward, 0.0) if odd else reward for reward, odd in pairs) / len(valid)
    text = f"{passed} of {len(valid)} valid rewards passed; mean reward {mean:.3g}"
    if failed := sum(untrusted):
        text += f" ({failed} failed for tampering: 0 in the mean)"
    if evaded := sum("reward" not in trial for trial in valid):
        text += f" ({evaded} without a verdict after tampering: not passed, 0 in the mean)"
    return text


def usage(trials: list[dict[str, Any]]) -> str:
    """Tokens and cost of all trials, where they are known; says of how many they are."""
    parts = []
    for name, text in _USAGE.items():
        known = [trial[name] for trial in trials if trial.get(name) is not None]
        if known:
            apart = (
                ""
                if len(known) == len(trials)
                else f" (known of {len(known)} of {len(trials)} trials)"
            )
            parts.append(text.format(sum(known)) + apart)
    return "; ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
