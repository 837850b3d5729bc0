"""What one piece of agent's work came to: a whole trial's, or one step's of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pytest_harbor.errors import AgentUnableError
from pytest_harbor.result.ctrf import CtrfReport
from pytest_harbor.result.integrity import IntegrityReport
from pytest_harbor.result.reward import Reward, Verdict

HARBOR_PHASES = {
    "environment": "environment_setup",
    "agent_setup": "agent_setup",
    "agent": "agent_execution",
    "verifier": "verifier",
}
"""The phases of a trial in their order, and Harbor's names of them; a step has the last two."""

USAGE_COUNTS = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")
"""Counts of an agent's usage, by Harbor's names."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that went wrong; a trial may have several, at most one a phase.

    Attributes:
        phase: A key of ``HARBOR_PHASES``.
        type: The exception's class name, spelt as Harbor spells it where it has one.
        message: For the user.
        traceback: For the result file; empty for errors that explain themselves.
        occurred_at: When, UTC.
        is_claimed: Only the agent's own output says so.
    """

    phase: str
    type: str
    message: str
    traceback: str = ""
    occurred_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    is_claimed: bool = False

    @classmethod
    def of(cls, phase: str, error: BaseException, traceback: str = "") -> Fault:
        """The fault that an exception stands for."""
        name = type(error).__name__
        is_claimed = isinstance(error, AgentUnableError) and error.is_claimed
        return cls(phase, name, str(error) or name, traceback, is_claimed=is_claimed)


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


@dataclass(slots=True, kw_only=True)
class Work:
    """An agent's work on one instruction and the verifier's word on it; filled as it goes.

    Attributes:
        reward: As read; None where the verifier gave none that is valid.
        faults: All of them, in order.
        findings: Odd but harmless things, one sentence each.
        timings: Phase to its times.
        agent_exit_code: Status of the agent's command, where it has one.
        verifier_exit_code: Status of the test script.
        verifier_sec: Seconds that the test script itself took.
        ctrf: The verifier's own test report.
        usage: Tokens and cost by Harbor's names, and ``n_steps`` of the trajectory; plain JSON.
        agent_unable: The agent could not work, for a reason that is not its skill.
        integrity: How far the reward can be trusted; None where nothing was graded.
    """

    reward: Reward | None = None
    faults: list[Fault] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    timings: dict[str, Timing] = field(default_factory=dict)
    agent_exit_code: int | None = None
    verifier_exit_code: int | None = None
    verifier_sec: float | None = None
    ctrf: CtrfReport | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    agent_unable: bool = False
    integrity: IntegrityReport | None = None

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

    def timing_json(self, phase: str) -> dict[str, str | None] | None:
        """A phase's times as Harbor writes them."""
        timing = self.timings.get(phase)
        if timing is None:
            return None
        return {"started_at": stamp(timing.started_at), "finished_at": stamp(timing.finished_at)}

    def exception_json(self, *, valid: bool, retry: bool = False) -> dict[str, Any] | None:
        """The first fault as Harbor writes it.

        Args:
            valid: A reward beside it counts.
            retry: Another try may go better.
        """
        if not self.faults:
            return None
        first = self.faults[0]
        return {
            "exception_type": first.type,
            "exception_message": first.message,
            "exception_traceback": first.traceback,
            "occurred_at": stamp(first.occurred_at),
            "policy": {
                "should_retry": retry,
                "should_grade": first.phase == "agent",
                "has_valid_reward": valid,
            },
        }

    def verifier_json(self) -> dict[str, Any] | None:
        """The rewards as Harbor writes them."""
        return {"rewards": self.rewards} if self.reward else None

    def own_json(self) -> dict[str, Any]:
        """What Harbor has no field for."""
        return {
            "reward_file": self.reward.source if self.reward else None,
            "agent_exit_code": self.agent_exit_code,
            "verifier_exit_code": self.verifier_exit_code,
            "verifier_sec": self.verifier_sec,
            "findings": list(self.findings),
            "integrity": self.integrity.to_json() if self.integrity else None,
            "faults": [
                {"phase": fault.phase, "type": fault.type, "message": fault.message}
                for fault in self.faults
            ],
        }


@dataclass(slots=True, kw_only=True)
class StepResult(Work):
    """One step of a multi-step trial.

    Attributes:
        name: The step's name, which is its folder's below ``steps/``.
        verdict: Its reward held against the trial's threshold, for information.
        unmet: Why its gate kept the next step from running; empty where it did not.
        separate: It was graded in a box of the verifier's own.
    """

    name: str
    verdict: Verdict | None = None
    unmet: tuple[str, ...] = ()
    separate: bool = False

    @property
    def passed(self) -> bool:
        """Its own reward reaches the trial's threshold."""
        return self.verdict is not None and self.verdict.passed

    @property
    def completed(self) -> bool:
        """It has a valid reward, and its gate is open."""
        return self.reward is not None and not self.unmet

    def to_json(self) -> dict[str, Any]:
        """An entry of ``step_results``."""
        return {
            "step_name": self.name,
            "agent_result": usage_json(self.usage),
            "verifier_result": self.verifier_json(),
            "exception_info": self.exception_json(valid=self.reward is not None),
            "agent_execution": self.timing_json("agent"),
            "verifier": self.timing_json("verifier"),
            "pytest_harbor": {**self.own_json(), "unmet": list(self.unmet)},
        }


def stamp(moment: datetime | None) -> str | None:
    """A time as Harbor writes it: ISO 8601, UTC as ``Z``."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def usage_json(usage: Mapping[str, Any]) -> dict[str, Any]:
    """An agent's usage as Harbor writes it."""
    return {
        name: usage.get(name)
        for name in (*USAGE_COUNTS, "metadata", "model_usage", "rollout_details")
    }
