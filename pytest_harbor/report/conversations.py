"""Which trials are exported for training, and the conversations in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_harbor.errors import TrajectoryFormatError, VerifierOutputParseError
from pytest_harbor.report.chat import NoChatError, chat_messages, chat_tools
from pytest_harbor.report.files import UnreadableError, read_object, unlinked
from pytest_harbor.report.trajectory import MAX_TRAJECTORY_BYTES, TRAJECTORY
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.values import items, mapping, number, text
from pytest_harbor.report.work import work_folders
from pytest_harbor.result.reward import judge
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.result.trajectory_reader import read_bounded, read_trajectory

_MAX_CONTINUED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which trials are wanted; what is None or empty keeps all.

    Attributes:
        min_reward: The least reward.
        max_reward: The largest reward.
        reward_key: The key of the reward that the limits are for; else the deciding number.
        passed: Only what reaches the threshold.
        agents: Names of agents.
        models: Names of models, with their provider.
    """

    min_reward: float | None = None
    max_reward: float | None = None
    reward_key: str | None = None
    passed: bool = False
    agents: Sequence[str] = ()
    models: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What a conversation earned.

    Attributes:
        reward: The number held against the threshold; None: there is none.
        rewards: All keys.
        passed: It reaches the threshold.
    """

    reward: float | None
    rewards: Mapping[str, float]
    passed: bool


@dataclass(slots=True)
class Selection:
    """Takes trials by filters, and counts by reason what it leaves out."""

    filters: Filters
    left_out: Counter[str] = field(default_factory=Counter)

    def trials(self, trials: Sequence[Trial]) -> Iterator[Trial]:
        """Trials with a verdict that can be believed, of the agents and models."""
        for trial in trials:
            if self._takes(_reason_of_trial(trial) or self._other_party(trial)):
                yield trial

    def by_grade(self, grade: Grade) -> bool:
        """Whether a reward fits; one that does not is counted."""
        return self._takes(self._misfit(grade))

    def conversations(self, trial: Trial) -> Iterator[dict[str, Any]]:
        """The chats of a trial whose rewards fit, with ``metadata``: one a trajectory."""
        grades, found = _step_grades(trial), False
        for folder, prefix in work_folders(trial):
            step = prefix.removeprefix("steps/").rstrip("/")
            grade = grades.get(step) or grade_of(trial)
            for source in _trajectories(folder):
                found = True
                if self.by_grade(grade) and (chat := self._chat(source)):
                    yield chat | {"metadata": _metadata(trial, step, grade)}
        if not found:
            self.left_out["no trajectory"] += 1

    def _chat(self, source: Trajectory | None) -> dict[str, Any] | None:
        if source is None:
            self.left_out["a trajectory that cannot be read"] += 1
            return None
        try:
            messages, tools = chat_messages(source), chat_tools(source)
        except NoChatError as error:
            self.left_out[str(error)] += 1
            return None
        return {"messages": messages} | ({"tools": tools} if tools else {})

    def _takes(self, reason: str) -> bool:
        if reason:
            self.left_out[reason] += 1
        return not reason

    def _other_party(self, trial: Trial) -> str:
        if self.filters.agents and trial.agent not in self.filters.agents:
            return "another agent"
        if self.filters.models and trial.model not in self.filters.models:
            return "another model"
        return ""

    def _misfit(self, grade: Grade) -> str:
        wanted = self.filters
        reward = grade.rewards.get(wanted.reward_key) if wanted.reward_key else grade.reward
        if wanted.passed and not grade.passed:
            return "not passed"
        if wanted.reward_key and reward is None:
            return "without that reward"
        if wanted.min_reward is not None and (reward is None or reward < wanted.min_reward):
            return "reward too low"
        if wanted.max_reward is not None and (reward is None or reward > wanted.max_reward):
            return "reward too high"
        return ""


def grade_of(trial: Trial) -> Grade:
    """What a whole trial earned."""
    return Grade(reward=trial.score, rewards=trial.rewards, passed=trial.passed)


def _reason_of_trial(trial: Trial) -> str:
    if trial.superseded:
        return "run again"
    if trial.category != "reward" or trial.reward is None:
        return "without a verdict"
    return "signs of tampering" if trial.untrusted or trial.suspicious else ""


def _metadata(trial: Trial, step: str, grade: Grade) -> dict[str, Any]:
    return {
        "job": trial.folder.parent.name if trial.folder else "",
        "task": trial.task,
        "trial": trial.name,
        "step": step or None,
        "agent": trial.agent,
        "model": trial.model or None,
        "attempt": trial.attempt or None,
        "reward": grade.reward,
        "rewards": dict(grade.rewards),
        "passed": grade.passed,
    }


def _step_grades(trial: Trial) -> dict[str, Grade]:
    """What each step earned that was graded by itself."""
    if trial.folder is None or not (trial.folder / "steps").is_dir():
        return {}
    try:
        result = read_object(trial.folder / "result.json")
    except UnreadableError:
        return {}
    key = text(mapping(result.get("config")).get("reward_key")) or None
    steps = map(mapping, items(result.get("step_results")))
    grades = ((text(one.get("step_name")), _step_grade(one, trial, key)) for one in steps)
    return {name: grade for name, grade in grades if name and grade}


def _step_grade(step: Mapping[str, Any], trial: Trial, key: str | None) -> Grade | None:
    told = mapping(mapping(step.get("verifier_result")).get("rewards"))
    rewards = {name: value for name, one in told.items() if (value := number(one)) is not None}
    try:
        verdict = judge(rewards, trial.threshold, key)
    except VerifierOutputParseError:
        return None
    return Grade(reward=float(verdict.reward), rewards=rewards, passed=verdict.passed)


def _trajectories(folder: Path) -> Iterator[Trajectory | None]:
    """The trajectory in a folder and those that go on from it; None: one cannot be read."""
    agent, name, seen = unlinked(folder / "agent"), TRAJECTORY, set[str]()
    if not (agent / name).exists():
        return
    while name not in seen and len(seen) < _MAX_CONTINUED:
        seen.add(name)
        try:
            found = read_trajectory(read_bounded(agent / name, MAX_TRAJECTORY_BYTES))
        except TrajectoryFormatError:
            yield None
            return
        yield found
        name = found.continued_trajectory_ref or name
        # Only a file beside it: a trajectory is an agent's own, and may name any place.
        if name != Path(name).name or name == ".." or "\0" in name:
            yield None
            return
