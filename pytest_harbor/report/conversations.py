"""Which trials are exported for training, and the conversations in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_harbor.errors import VerifierOutputParseError
from pytest_harbor.report.chat import NoChatError, chat_messages, chat_tools
from pytest_harbor.report.files import UnreadableError, read_object
from pytest_harbor.report.trajectory_files import Broken, trajectories
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.values import items, mapping, number, text
from pytest_harbor.report.work import work_folders
from pytest_harbor.result.reward import judge
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.result.trajectory_reader import read_trajectory

UNREADABLE = "a trajectory that cannot be read"
_MAX_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which trials are wanted; what is None or empty keeps all.

    Attributes:
        min_reward: The least reward.
        max_reward: The largest reward.
        reward_key: The key of the reward that the limits are for; else the deciding number.
        passed: Only what reaches the threshold.
        selected: Only trials that were chosen among the attempts at their task.
        agents: Names of agents.
        models: Names of models, with their provider.
    """

    min_reward: float | None = None
    max_reward: float | None = None
    reward_key: str | None = None
    passed: bool = False
    selected: bool = False
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
    """Takes trials by filters, and counts by reason what it leaves out.

    Attributes:
        filters: What is wanted.
        left_out: Reasons, and how often.
        broken: Trajectories that cannot be used, by their paths, each with what is wrong; the
            first of them.
        unnamed: How many more there are.
    """

    filters: Filters
    left_out: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    unnamed: int = 0

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
            for name, source in trajectories(
                folder, read_trajectory, lambda one: one.continued_trajectory_ref
            ):
                found = True
                where = f"{prefix}agent/{name}"
                if self.by_grade(grade) and (chat := self._chat(trial, source, where)):
                    yield chat | {"metadata": _metadata(trial, step, grade)}
        if not found:
            self.left_out["no trajectory"] += 1

    def leave_out(self, trial: Trial, where: str, reason: str, problem: str = "") -> None:
        """Count what cannot be used, and name it.

        Args:
            trial: The trial.
            where: The file in its folder.
            reason: In general.
            problem: What is wrong with this one; empty: the reason itself.
        """
        self.left_out[reason] += 1
        if len(self.broken) < _MAX_NAMED:
            self.broken.append(f"{trial.folder or trial.name}/{where}: {problem or reason}")
        else:
            self.unnamed += 1

    def _chat(
        self, trial: Trial, source: Trajectory | Broken, where: str
    ) -> dict[str, Any] | None:
        if isinstance(source, Broken):
            self.leave_out(trial, where, UNREADABLE, source.problem)
            return None
        try:
            messages, tools = chat_messages(source), chat_tools(source)
        except NoChatError as error:
            self.leave_out(trial, where, str(error))
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
        return "not selected" if self.filters.selected and not trial.selected else ""

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
    return "signs of tampering" if trial.has_signs else ""


def _metadata(trial: Trial, step: str, grade: Grade) -> dict[str, Any]:
    return {
        "job": trial.folder.parent.name if trial.folder else "",
        "task": trial.task,
        "dataset": trial.dataset_key or None,
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
