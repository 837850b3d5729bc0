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
from pytest_harbor.plugin.job import job
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
        self._record: Any = None
        self._kept: dict[object, None] = {}
        self.trials: dict[str, dict[str, Any]] = {}

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
        if report.when == "teardown":
            self._add_to_job(report.nodeid, known)

    def pytest_sessionfinish(self) -> None:
        """Write the job's final state."""
        if self._record is not None:
            self._record.finish()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show what the trials came to."""
        for kept in self._kept:
            terminalreporter.section("kept environment", "-")
            terminalreporter.write_line(str(kept))
        if not self.trials:
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
        yield f"{_count(len(tasks), 'task')}, {_count(len(trials), 'trial')}"
        for agent, group in _by_agent(trials).items():
            yield f"{agent}: {rate(group)}"
            if spent := usage(group):
                yield f"{agent}: {spent}"
        yield from _integrity(self.trials)
        if any("trial" in trial for trial in trials):
            yield f"results: {job(self._config).path}"

    def _add_to_job(self, nodeid: str, trial: dict[str, Any]) -> None:
        if "trial" not in trial or "category" not in trial:
            return
        if self._record is None:
            from pytest_harbor.trial.job import JobRecord

            self._record = JobRecord(job(self._config).path, self._job_config())
        prefix = "reward."
        self._record.add(
            nodeid,
            {
                "agent": trial["agent"],
                "model": trial.get("model"),
                "category": trial["category"],
                "name": Path(trial["trial"]).name,
                "rewards": {
                    name.removeprefix(prefix): value
                    for name, value in trial.items()
                    if name.startswith(prefix)
                },
                "usage": {
                    "n_input_tokens": trial.get("input_tokens"),
                    "n_cache_tokens": trial.get("cache_tokens"),
                    "n_output_tokens": trial.get("output_tokens"),
                    "cost_usd": trial.get("cost_usd"),
                },
                "fault": trial.get("fault"),
            },
        )

    def _job_config(self) -> dict[str, Any]:
        current = job(self._config)
        wanted = settings(self._config)
        return {
            "job_name": current.path.name,
            "jobs_dir": str(current.path.parent),
            "n_attempts": wanted.attempts,
            "timeout_multiplier": wanted.timeout_multiplier,
            "agents": [
                {"name": agent, "model_name": model}
                for agent in wanted.agents
                for model in wanted.models or (None,)
            ],
            "environment": {"type": "docker", "force_build": wanted.rebuild},
            "pytest_harbor": {"run_id": current.run_id, "threshold": wanted.threshold},
        }


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
    # A box that was tampered with until nothing could be graded must not lift the mean.
    mean = sum(as_float(trial.get("reward", 0)) for trial in valid) / len(valid)
    text = f"{passed} of {len(valid)} valid rewards passed; mean reward {mean:.3g}"
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
