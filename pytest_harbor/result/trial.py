"""What one trial came to: its category, reward, faults and times, and their JSON form.

The JSON is Harbor's ``result.json`` (``format/rewards-and-results.md``, section 7),
so that its viewer and people's scripts read it; what is ours alone stands under
``pytest_harbor``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pytest_harbor.result.error_policy import harbor_counts
from pytest_harbor.result.image_time import ImageTime
from pytest_harbor.result.integrity import IntegrityFinding
from pytest_harbor.result.network import PhaseRefusals
from pytest_harbor.result.reward import Number, Verdict
from pytest_harbor.result.work import (
    HARBOR_PHASES,
    USAGE_COUNTS,
    Fault,
    StepResult,
    Timing,
    Work,
    stamp,
    usage_json,
)
from pytest_harbor.task.origin import TaskOrigin

__all__ = ["Category", "Fault", "StepResult", "Timing", "TrialResult", "Work"]

Category = Literal["reward", "agent", "task", "environment", "skipped"]
"""Whose doing a trial's end is; only ``"reward"`` counts in rates (the interface page)."""

_LONG_SETUP_SEC = 1.0  # most agents have none to speak of


@dataclass(slots=True, kw_only=True)
class TrialResult(Work):
    """Everything that is known of one trial; filled as the trial goes.

    In a multi-step trial the agent's and the verifier's part lie in ``steps``; ``reward``
    is their combination.

    Attributes:
        trial_name: Folder name of the trial.
        trial_dir: The trial's folder on this machine.
        task_name: The task's name, for people; its identity is ``task_path``.
        task_path: The task's folder.
        origin: The dataset that the task is of; None for one that was named by its path.
        agent_name: Name as given on the command line.
        agent_version: What the agent says of itself.
        model: ``provider/name`` or None.
        attempt: From 1.
        category: Whose doing the end is; None while the trial runs.
        verdict: The reward held against the threshold.
        threshold: Reward at which the trial passes.
        separate: The trial was graded in a box of the verifier's own.
        network: The policy of each phase, as applied.
        refusals: What the network refused, phase by phase.
        step_names: Every step that the task declares; empty for a single-step task.
        steps: The steps that were begun.
        harbor_rewards: The number that Harbor would give, where it differs from ``reward``.
        skip_reason: Why the trial was skipped.
        fails_on_tamper: Suspicious findings that were not undone keep the trial from passing.
        tries: Earlier tries that came to nothing, for a cause that is not the agent's; plain JSON.
        regraded: The earlier verdict, where the agent's work was graded again; plain JSON.
        image_times: Work on images that the trial did; most find theirs ready.
    """

    trial_name: str
    trial_dir: Path
    task_name: str
    task_path: Path
    origin: TaskOrigin | None = None
    agent_name: str
    agent_version: str = "unknown"
    model: str | None = None
    attempt: int = 1
    category: Category | None = None
    verdict: Verdict | None = None
    threshold: float = 1.0
    separate: bool = False
    network: Mapping[str, Any] = field(default_factory=dict)
    refusals: list[PhaseRefusals] = field(default_factory=list)
    step_names: tuple[str, ...] = ()
    steps: list[StepResult] = field(default_factory=list)
    harbor_rewards: dict[str, Number] | None = None
    skip_reason: str = ""
    fails_on_tamper: bool = False
    tries: list[dict[str, Any]] = field(default_factory=list)
    regraded: dict[str, Any] | None = None
    image_times: Sequence[ImageTime] = ()
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    finished_at: datetime | None = None

    @property
    def passed(self) -> bool:
        """Whether the trial has a valid reward that reaches the threshold, and may be trusted."""
        reaches = self.verdict is not None and self.verdict.passed
        return self.category == "reward" and reaches and not self.is_tampered

    @property
    def suspicious(self) -> list[IntegrityFinding]:
        """Findings of all steps that may have touched a reward."""
        reports = [work.integrity for work in self.works if work.integrity]
        return [finding for report in reports for finding in report.suspicious]

    @property
    def tampering(self) -> list[IntegrityFinding]:
        """Suspicious findings that are of the agent's doing: an image is its author's."""
        return [finding for finding in self.suspicious if finding.code != "tests-in-image"]

    @property
    def is_tampered(self) -> bool:
        """Whether findings that were not undone keep the trial from passing."""
        return self.fails_on_tamper and any(not one.remedied for one in self.tampering)

    @property
    def untrusted(self) -> bool:
        """Whether it has a reward that is not believed: it raises no mean."""
        return self.is_tampered and self.category == "reward" and self.verdict is not None

    @property
    def evaded(self) -> bool:
        """Whether a box that was tampered with gave no verdict: it counts, as not passed."""
        return self.category == "reward" and self.verdict is None

    @property
    def works(self) -> tuple[Work, ...]:
        """The trial itself, then its steps."""
        return (self, *self.steps)

    def total_seconds(self, phase: str) -> float:
        """Length of a phase in seconds, over all steps."""
        return sum(work.seconds(phase) for work in self.works)

    def total_usage(self, name: str) -> float | None:
        """A count of the agent's usage over all steps; None where nobody counted."""
        counts = [work.usage[name] for work in self.works if work.usage.get(name) is not None]
        return sum(counts) if counts else None

    def properties(self) -> list[tuple[str, str | int | float]]:
        """Plain name and value pairs for reports (the interface page, *Options*)."""
        pairs: list[tuple[str, str | int | float | None]] = []
        if self.verdict is not None and self.category == "reward":
            pairs.append(("reward", self.verdict.reward))
        pairs += [(f"reward.{key}", value) for key, value in self.rewards.items()]
        harbor = self.harbor_rewards or {}
        pairs += [(f"harbor.reward.{key}", value) for key, value in harbor.items()]
        pairs += [
            ("category", self.category),
            ("agent", self.agent_name),
            ("model", self.model),
            ("attempt", self.attempt),
            ("trial", str(self.trial_dir)),
            ("task", self.task_name),
            ("dataset", self.origin.dataset if self.origin else None),
            ("dataset.label", self.origin.label if self.origin else None),
        ]
        if faults := self._fault_names:
            pairs.append(("fault", faults[0]))
        if len(faults) > 1:
            pairs.append(("faults", ", ".join(faults)))
        if self.untrusted:
            pairs.append(("untrusted", 1))
        if self.regraded:
            pairs += [
                ("before.trial", f"{self.regraded['job']}/{self.regraded['trial_name']}"),
                ("before.category", self.regraded["category"]),
                ("before.reward", self.regraded["reward"]),
                ("before.passed", int(bool(self.regraded["passed"]))),
            ]
            if not self.regraded.get("owners_recorded", True):
                pairs.append(("before.owners", "not recorded"))
        if self.suspicious:
            pairs += [("integrity", len(self.suspicious)), ("integrity.codes", self._codes())]
        for phase in ("environment", "agent", "verifier"):
            pairs.append((f"seconds.{phase}", round(self.total_seconds(phase), 3)))
        if self.total_seconds("agent_setup") >= _LONG_SETUP_SEC:
            pairs.append(("seconds.agent_setup", round(self.total_seconds("agent_setup"), 3)))
        if self.image_times:
            pairs.append(("seconds.images", round(sum(one.seconds for one in self.image_times), 3)))
        pairs += [
            ("input_tokens", self.total_usage("n_input_tokens")),
            ("cache_tokens", self.total_usage("n_cache_tokens")),
            ("output_tokens", self.total_usage("n_output_tokens")),
            ("cost_usd", self.total_usage("cost_usd")),
            ("steps", self.total_usage("n_steps")),
        ]
        pairs += [pair for step in self.steps for pair in _step_properties(step)]
        return [(name, value) for name, value in pairs if value is not None]

    @property
    def _fault_names(self) -> list[str]:
        """The first error of the trial and of each step, each name once: what Harbor hears of."""
        return list(dict.fromkeys(work.faults[0].type for work in self.works if work.faults))

    def _codes(self) -> str:
        return ", ".join(dict.fromkeys(finding.code for finding in self.suspicious))

    def to_json(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The content of ``result.json``.

        Args:
            config: The trial's configuration, without secrets.
        """
        valid = self.category == "reward" and bool(self.rewards)
        multi_step = bool(self.step_names)
        mode = "separate" if self.separate else "shared"
        return {
            "schema_version": 1,
            "id": config.get("id"),
            "task_name": self.task_name,
            "trial_name": self.trial_name,
            "trial_uri": self.trial_dir.as_uri(),
            "task_id": dict(self.origin.task_id if self.origin else {"path": str(self.task_path)}),
            "source": self.origin.dataset if self.origin else None,
            # Harbor reads no result without it; its own server writes the digest here, too.
            "task_checksum": str(config.get("task_digest", "")).removeprefix("sha256:"),
            "config": dict(config),
            "agent_info": self._agent_info(),
            "agent_result": None if multi_step else usage_json(self.usage),
            "verifier_result": self.verifier_json(),
            "verifier_environment_mode": None if multi_step else mode,
            "exception_info": self.exception_json(
                valid=valid, retry=self.category == "environment"
            ),
            "started_at": stamp(self.started_at),
            "finished_at": stamp(self.finished_at),
            **{name: self.timing_json(phase) for phase, name in HARBOR_PHASES.items()},
            "step_results": [step.to_json() for step in self.steps] if multi_step else None,
            # Harbor's word, from all that went wrong; ours is the category.
            "reward_valid": valid and harbor_counts(self._fault_names),
            "pytest_harbor": self._whole_own_json(),
        }

    def _agent_info(self) -> dict[str, Any]:
        provider, name = model_parts(self.model)
        model = {"name": name, "provider": provider} if name else None
        return {"name": self.agent_name, "version": self.agent_version, "model_info": model}

    def _whole_own_json(self) -> dict[str, Any]:
        return {
            "category": self.category,
            "passed": self.passed,
            "untrusted": self.untrusted,
            "attempt": self.attempt,
            "threshold": self.threshold,
            "network": dict(self.network),
            "refused_connections": sum(phase.count for phase in self.refusals),
            "harbor_rewards": self.harbor_rewards,
            "skip_reason": self.skip_reason or None,
            "tries": list(self.tries),
            "regraded": self.regraded,
            "usage": {name: self.total_usage(name) for name in (*USAGE_COUNTS, "n_steps")},
            **self.own_json(),
            **({"images": [one.as_json() for one in self.image_times]} if self.image_times else {}),
        }


def model_parts(model: str | None) -> tuple[str | None, str]:
    """Provider and name of a model; the name may have slashes of its own."""
    provider, slash, name = (model or "").partition("/")
    return (provider, name) if slash else (None, provider)


def _step_properties(step: StepResult) -> list[tuple[str, str | int | float | None]]:
    prefix = f"step.{step.name}"
    pairs: list[tuple[str, str | int | float | None]] = [
        (f"{prefix}.reward.{key}", value) for key, value in step.rewards.items()
    ]
    for phase in ("agent", "verifier"):
        pairs.append((f"{prefix}.seconds.{phase}", round(step.seconds(phase), 3)))
    return pairs
