"""What one trial came to: its category, reward, faults and times, and their JSON form.

The JSON is Harbor's ``result.json`` (``format/rewards-and-results.md``, section 7),
so that its viewer and people's scripts read it; what is ours alone stands under
``pytest_harbor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pytest_harbor.result.ctrf import CtrfReport
from pytest_harbor.result.reward import Reward, Verdict

Category = Literal["reward", "agent", "task", "environment", "skipped"]
"""Whose doing a trial's end is; only ``"reward"`` counts in rates (the interface page)."""

PHASES = ("environment", "agent_setup", "agent", "verifier")
"""Phases in their order."""

_HARBOR_PHASES = {
    "environment": "environment_setup",
    "agent_setup": "agent_setup",
    "agent": "agent_execution",
    "verifier": "verifier",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that went wrong; a trial may have several, at most one a phase.

    Attributes:
        phase: One of ``PHASES``.
        type: The exception's class name, spelt as Harbor spells it where it has one.
        message: For the user.
        traceback: For the result file; empty for errors that explain themselves.
        occurred_at: When, UTC.
    """

    phase: str
    type: str
    message: str
    traceback: str = ""
    occurred_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @classmethod
    def of(cls, phase: str, error: BaseException, traceback: str = "") -> Fault:
        """The fault that an exception stands for."""
        return cls(phase, type(error).__name__, str(error) or type(error).__name__, traceback)


@dataclass(frozen=True, slots=True)
class Timing:
    """Start and end of a phase, UTC; no end while it runs."""

    started_at: datetime
    finished_at: datetime | None = None

    @property
    def seconds(self) -> float:
        """Length in seconds; 0 while the phase runs."""
        if self.finished_at is None:
            return 0.0
        return (self.finished_at - self.started_at).total_seconds()


@dataclass(slots=True)
class TrialResult:
    """Everything that is known of one trial; filled as the trial goes.

    Attributes:
        trial_name: Folder name of the trial.
        trial_dir: The trial's folder on this machine.
        task_name: The task's name, for people; its identity is ``task_path``.
        task_path: The task's folder.
        agent_name: Name as given on the command line.
        agent_version: What the agent says of itself.
        model: ``provider/name`` or None.
        attempt: From 1.
        category: Whose doing the end is; None while the trial runs.
        reward: As read; None where the verifier gave none that is valid.
        verdict: The reward held against the threshold.
        threshold: Reward at which the trial passes.
        faults: All of them, in order.
        findings: Odd but harmless things, one sentence each.
        timings: Phase to its times.
        agent_exit_code: Status of the agent's command, where it has one.
        verifier_exit_code: Status of the test script.
        verifier_sec: Seconds that the test script itself took.
        ctrf: The verifier's own test report.
        network: The policy of each phase, as applied.
        usage: Tokens and cost by Harbor's names; plain JSON.
        skip_reason: Why the trial was skipped.
    """

    trial_name: str
    trial_dir: Path
    task_name: str
    task_path: Path
    agent_name: str
    agent_version: str = "unknown"
    model: str | None = None
    attempt: int = 1
    category: Category | None = None
    reward: Reward | None = None
    verdict: Verdict | None = None
    threshold: float = 1.0
    faults: list[Fault] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    timings: dict[str, Timing] = field(default_factory=dict)
    agent_exit_code: int | None = None
    verifier_exit_code: int | None = None
    verifier_sec: float | None = None
    ctrf: CtrfReport | None = None
    network: Mapping[str, str] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    skip_reason: str = ""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    finished_at: datetime | None = None

    @property
    def passed(self) -> bool:
        """Whether the trial has a valid reward that reaches the threshold."""
        return self.category == "reward" and self.verdict is not None and self.verdict.passed

    @property
    def rewards(self) -> dict[str, float]:
        """Every labelled reward; empty where there is no valid one."""
        return dict(self.reward.values) if self.reward else {}

    def fault(self, phase: str) -> Fault | None:
        """The first fault of a phase."""
        return next((fault for fault in self.faults if fault.phase == phase), None)

    def seconds(self, phase: str) -> float:
        """Length of a phase in seconds; 0 where it never ran."""
        timing = self.timings.get(phase)
        return timing.seconds if timing else 0.0

    def properties(self) -> list[tuple[str, str | int | float]]:
        """Plain name and value pairs for reports (the interface page, *Options*)."""
        pairs: list[tuple[str, str | int | float | None]] = []
        if self.verdict is not None and self.category == "reward":
            pairs.append(("reward", min(self.verdict.deciding.values())))
        pairs += [(f"reward.{key}", value) for key, value in self.rewards.items()]
        pairs += [
            ("category", self.category),
            ("agent", self.agent_name),
            ("model", self.model),
            ("attempt", self.attempt),
            ("trial", str(self.trial_dir)),
            ("task", self.task_name),
        ]
        seconds = {phase: self.seconds(phase) for phase in ("environment", "agent", "verifier")}
        pairs += [(f"seconds.{phase}", round(value, 3)) for phase, value in seconds.items()]
        pairs += [
            ("input_tokens", self.usage.get("n_input_tokens")),
            ("output_tokens", self.usage.get("n_output_tokens")),
            ("cost_usd", self.usage.get("cost_usd")),
        ]
        return [(name, value) for name, value in pairs if value is not None]

    def to_json(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The content of ``result.json``.

        Args:
            config: The trial's configuration, without secrets.
        """
        return {
            "schema_version": 1,
            "id": config.get("id"),
            "task_name": self.task_name,
            "trial_name": self.trial_name,
            "trial_uri": self.trial_dir.as_uri(),
            "task_id": {"path": str(self.task_path)},
            "source": None,
            "config": dict(config),
            "agent_info": self._agent_info(),
            "agent_result": _usage_json(self.usage),
            "verifier_result": {"rewards": self.rewards} if self.reward else None,
            "verifier_environment_mode": "shared",
            "exception_info": self._exception_info(),
            "started_at": _stamp(self.started_at),
            "finished_at": _stamp(self.finished_at),
            **{name: self._timing_json(phase) for phase, name in _HARBOR_PHASES.items()},
            "step_results": None,
            "reward_valid": self.category == "reward" and bool(self.rewards),
            "pytest_harbor": self._own_json(),
        }

    def _agent_info(self) -> dict[str, Any]:
        model = None
        if self.model:
            provider, _, name = self.model.rpartition("/")
            model = {"name": name, "provider": provider or None}
        return {"name": self.agent_name, "version": self.agent_version, "model_info": model}

    def _exception_info(self) -> dict[str, Any] | None:
        if not self.faults:
            return None
        first = self.faults[0]
        return {
            "exception_type": first.type,
            "exception_message": first.message,
            "exception_traceback": first.traceback,
            "occurred_at": _stamp(first.occurred_at),
            "policy": {
                "should_retry": self.category == "environment",
                "should_grade": first.phase == "agent",
                "has_valid_reward": self.category == "reward",
            },
        }

    def _timing_json(self, phase: str) -> dict[str, str | None] | None:
        timing = self.timings.get(phase)
        if timing is None:
            return None
        return {
            "started_at": _stamp(timing.started_at),
            "finished_at": _stamp(timing.finished_at),
        }

    def _own_json(self) -> dict[str, Any]:
        return {
            "category": self.category,
            "passed": self.passed,
            "attempt": self.attempt,
            "threshold": self.threshold,
            "reward_file": self.reward.source if self.reward else None,
            "agent_exit_code": self.agent_exit_code,
            "verifier_exit_code": self.verifier_exit_code,
            "verifier_sec": self.verifier_sec,
            "network": dict(self.network),
            "findings": list(self.findings),
            "skip_reason": self.skip_reason or None,
            "faults": [
                {"phase": fault.phase, "type": fault.type, "message": fault.message}
                for fault in self.faults
            ],
        }


def _stamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def _usage_json(usage: Mapping[str, Any]) -> dict[str, Any]:
    names = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd", "metadata")
    return {
        **{name: usage.get(name) for name in names},
        "model_usage": None,
        "rollout_details": None,
    }
