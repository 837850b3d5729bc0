"""One trial as a report counts it, whoever ran it and however much of it there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pytest_harbor.report.values import count, finite, number, text
from pytest_harbor.result.error_policy import harbor_counts
from pytest_harbor.task.layout import CONFIG_FILE

PHASES = ("environment", "agent_setup", "agent", "verifier")
"""The phases of a trial in their order."""

USAGE = ("input_tokens", "cache_tokens", "output_tokens", "cost_usd")
"""Counts of an agent's usage, by the names of an item's properties."""

_TASK_IDS = (("git_url", "path"), ("org", "name"))
"""Parts of Harbor's ids that stay when a task has a new commit or digest."""

State = Literal["finished", "unfinished", "unreadable"]


class Span(NamedTuple):
    """A phase that ran: its step, and when, in seconds from the trial's start."""

    phase: str
    step: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a report knows of a trial.

    Attributes:
        name: Of its folder; the item's id where it has none.
        task: The task's name, for people.
        task_path: The task's folder; empty where it is not known. Versions of a dataset share it.
        item: Id of the item that it is a trial of; empty where it was none.
        task_id: What names the task in its dataset, whatever the version; empty where it has none.
        agent: The agent's name.
        model: ``provider/name``, or empty.
        attempt: From 1; 0 where attempts are not numbered.
        state: ``unfinished``: it runs, or was cut off; ``unreadable``: its files are broken.
        category: Whose doing its end is; empty where it has no result.
        passed: It has a valid reward that reaches the threshold, and may be trusted.
        reward: The number held against the threshold; None where there is none.
        untrusted: Its reward is not believed, after tampering: it raises no mean.
        rewards: All labelled numbers.
        harbor_rewards: Those that Harbor would count; None where it counts none.
        dataset: Name of the dataset that the task is of, where it is of one.
        dataset_label: What ids call that dataset, version and all; empty where nobody told.
        threshold: Reward at which it passes.
        fault: The first fault's class name; empty where nothing went wrong.
        fault_message: What it says.
        started: Seconds since 1970.
        spans: Phases, by their start.
        usage: Tokens and cost, as far as they are known.
        suspicious: Number of signs of tampering.
        codes: Their kinds.
        refused: Connections that the network refused.
        superseded: The same attempt was run again, and that run counts.
        selected: It was chosen among the attempts at its task; None where nobody chose.
        problems: What is wrong with its files, a sentence each.
        folder: Of the trial; None where it has none.
    """

    name: str
    task: str
    task_path: str = ""
    item: str = ""
    task_id: str = ""
    agent: str = "unknown agent"
    model: str = ""
    attempt: int = 0
    state: State = "finished"
    category: str = ""
    passed: bool = False
    reward: float | None = None
    untrusted: bool = False
    rewards: Mapping[str, float] = field(default_factory=dict)
    harbor_rewards: Mapping[str, float] | None = None
    dataset: str = ""
    dataset_label: str = ""
    threshold: float = 1.0
    fault: str = ""
    fault_message: str = ""
    started: float | None = None
    spans: tuple[Span, ...] = ()
    usage: Mapping[str, float] = field(default_factory=dict)
    suspicious: int = 0
    codes: tuple[str, ...] = ()
    refused: int = 0
    superseded: bool = False
    selected: bool | None = None
    problems: tuple[str, ...] = ()
    folder: Path | None = None

    @property
    def task_key(self) -> str:
        """Names the task within one job."""
        return task_of_item(self.item) or self.task_path or self.task

    @property
    def attempt_key(self) -> tuple[str, str, str, int]:
        """Names the attempt within one job: its runs have the same."""
        return (*self.group, self.item or self.task_key, self.attempt)

    @property
    def counts(self) -> bool:
        """It has a place in rates."""
        return self.category == "reward" and not self.superseded

    @property
    def score(self) -> float:
        """Its part of a mean reward; a box that was tampered with raises none."""
        if self.reward is None:
            return 0.0
        return min(self.reward, 0.0) if self.untrusted else self.reward

    @property
    def has_signs(self) -> bool:
        """Something was found that honest work has no reason for, of the agent's doing.

        What an image brings is its author's.
        """
        return self.untrusted or any(code != "tests-in-image" for code in self.codes)

    @property
    def group(self) -> tuple[str, str]:
        """Agent and model."""
        return self.agent, self.model

    @property
    def group_name(self) -> str:
        """Agent and model, as in an item's name."""
        return f"{self.agent}[{self.model}]" if self.model else self.agent

    @property
    def dataset_key(self) -> str:
        """Names the dataset within one job; empty of a task that was named by its path."""
        return self.dataset and (self.dataset_label or self.dataset)

    def seconds(self, phase: str) -> float | None:
        """Length of a phase over all steps; None where it did not run."""
        lengths = [span.seconds for span in self.spans if span.phase == phase]
        return sum(lengths) if lengths else None

    @property
    def total_seconds(self) -> float | None:
        """Length of all phases."""
        return sum(span.seconds for span in self.spans) if self.spans else None


def task_of_item(item: str) -> str:
    """The task's part of an item's id; empty of an item that is no trial's by itself."""
    path, name = item.partition("::")[0].rpartition("/")[::2]
    return path if name == CONFIG_FILE else ""


def task_id_of(dataset: str, task_id: Mapping[str, Any]) -> str:
    """What names a task in its dataset in all versions; empty of a task of no dataset."""
    keys = next((keys for keys in _TASK_IDS if all(text(task_id.get(key)) for key in keys)), ())
    parts = [text(task_id.get(key), 1000) for key in keys]
    return "\0".join([dataset, *parts]) if dataset and parts else ""


def trial_of_properties(nodeid: str, found: Mapping[str, Any]) -> Trial:
    """A trial by the properties of its item, as reporters get them.

    Args:
        nodeid: The item's id.
        found: Its properties, and ``passed`` where the call phase told.
    """
    rewards = _labelled(found, "reward.")
    fault = text(found.get("fault"))
    names = text(found.get("faults"), 2000).split(", ") if found.get("faults") else [fault]
    theirs = _labelled(found, "harbor.reward.") or rewards
    path = nodeid.partition("::")[0].removesuffix("task.toml").rstrip("/")
    return Trial(
        name=Path(found["trial"]).name if found.get("trial") else nodeid,
        task=text(found.get("task")) or path.rpartition("/")[2] or nodeid,
        task_path=path,
        item=nodeid,
        agent=text(found.get("agent")) or "unknown agent",
        model=text(found.get("model")),
        attempt=count(found.get("attempt")),
        state="finished" if found.get("category") else "unfinished",
        category=text(found.get("category")),
        passed=bool(found.get("passed")),
        reward=number(found.get("reward")),
        untrusted=bool(found.get("untrusted")),
        rewards=rewards,
        harbor_rewards=theirs if theirs and harbor_counts(filter(None, names)) else None,
        dataset=text(found.get("dataset")),
        dataset_label=text(found.get("dataset.label")),
        fault=fault,
        spans=_spans_of_properties(found),
        usage={key: value for key in USAGE if (value := finite(found.get(key))) is not None},
        suspicious=count(found.get("integrity")),
        codes=tuple(filter(None, text(found.get("integrity.codes")).split(", "))),
    )


def _labelled(found: Mapping[str, Any], prefix: str) -> dict[str, float]:
    pairs = {k.removeprefix(prefix): number(v) for k, v in found.items() if k.startswith(prefix)}
    return {key: value for key, value in pairs.items() if value is not None}


def _spans_of_properties(found: Mapping[str, Any]) -> tuple[Span, ...]:
    """The phases one behind the other; properties do not tell more."""
    spans: list[Span] = []
    start = 0.0
    for phase in PHASES:
        seconds = finite(found.get(f"seconds.{phase}"))
        if seconds:
            spans.append(Span(phase, "", start, seconds))
            start += seconds
    return tuple(spans)
