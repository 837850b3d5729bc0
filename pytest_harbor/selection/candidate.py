"""What selectors get and give: attempts at one task to choose among, and the choice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pytest_harbor.errors import HarborError
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.work import artifact_paths
from pytest_harbor.selection.said import instruction, last_message, told

TAMPERED = "no verdict that can be trusted, after tampering"
SIGNS = "signs of tampering"
"""Why an attempt is no candidate, unless a selector says otherwise."""
INTERRUPTED = "not asked to the end: the run was interrupted"


class NothingChosenError(HarborError):
    """A selector chose no attempt; says why.

    Attributes:
        details: What it has to tell of it all the same.
        is_outage: What it relies on did not answer, and may not for other tasks.
    """

    def __init__(
        self, message: str, details: Mapping[str, Any] | None = None, *, is_outage: bool = False
    ) -> None:
        super().__init__(message)
        self.details = dict(details or {})
        self.is_outage = is_outage


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One attempt; what it left is read when it is asked for.

    Attributes:
        attempt: Its number, from 1.
        trial: Name of its folder.
        folder: The folder.
        category: Whose doing its end is, as in ``result.json``.
        reward: The number held against the threshold; None where there is none, and for
            selectors that do not see rewards.
        rewards: All of them.
        passed: Whether it passed; None as with ``reward``.
        untrusted: Its reward is not believed, after tampering.
        has_signs: Signs of tampering were found, whether its reward is believed or not.
        fault: The first fault's class name.
        input_tokens: Read by the agent; None where it is not known.
        output_tokens: Written by it.
        cost_usd: What they cost.
        seconds: That the agent worked.
        source: The trial as reports have it.
    """

    attempt: int
    trial: str
    folder: Path
    category: str = "reward"
    reward: float | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    passed: bool | None = None
    untrusted: bool = False
    has_signs: bool = False
    fault: str = ""
    input_tokens: float | None = None
    output_tokens: float | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    source: Trial = field(repr=False)

    @cached_property
    def artifacts(self) -> tuple[str, ...]:
        """Paths of the files that came home, from the folder: ``artifacts/app/out.txt``."""
        return tuple(artifact_paths(self.source))

    @cached_property
    def final_message(self) -> str:
        """What the agent said last; empty where its trajectory does not tell."""
        return last_message(self.source)

    @property
    def price(self) -> tuple[float, float, int]:
        """Among equals the least is chosen: cost, then tokens, unknown ones last; the number."""
        tokens = _sum_of_known(self.input_tokens, self.output_tokens)
        return _sum_of_known(self.cost_usd), tokens, self.attempt


def _sum_of_known(*counts: float | None) -> float:
    # What is below 0 was told by an agent of itself, and is none.
    known = [one for one in counts if one is not None and one >= 0]
    return sum(known) if known else float("inf")


@dataclass(frozen=True, kw_only=True)
class Group:
    """The attempts of one agent and model at one task.

    Attributes:
        job: Name of the job.
        task: The task's name, for people.
        task_key: Names it within the job.
        agent: The agent's name.
        model: ``provider/name``, or empty.
        candidates: By their numbers; at least one where a selector is asked.
    """

    job: str
    task: str
    task_key: str
    agent: str
    model: str
    candidates: Sequence[Candidate]

    @property
    def name(self) -> str:
        """Agent and model, as in an item's name."""
        return f"{self.agent}[{self.model}]" if self.model else self.agent

    @cached_property
    def instruction(self) -> str:
        """What the agent was told: the task's own, else what all trajectories tell alike.

        Empty where neither tells. A trajectory is an agent's own word: one of them alone must
        not say what all others were told.
        """
        of_task = next(filter(None, (instruction(one.source) for one in self.candidates)), "")
        if of_task:
            return of_task
        found = {text for one in self.candidates if (text := told(one.source))}
        return found.pop() if len(found) == 1 else ""


class Choice(NamedTuple):
    """The attempt that was chosen.

    Attributes:
        candidate: One of the group's.
        reason: Why, in a sentence.
        details: Anything that JSON can hold; it is kept in the job's folder.
    """

    candidate: Candidate
    reason: str = ""
    details: Mapping[str, Any] = MappingProxyType({})


class Selector(ABC):
    """Chooses among attempts.

    Attributes:
        name: What it is called, in files and on the terminal.
        sees_rewards: False: candidates come without rewards, as where there is no verifier.
        parallel: How many tasks it may be asked of at the same time.
        waits: It waits for others, as for a model: it is asked in threads, so that an interrupt
            is heard, and not at all once the run was interrupted.
    """

    name = ""
    sees_rewards = True
    parallel = 1
    waits = False

    def why_not(self, candidate: Candidate) -> str:
        """Why an attempt is no candidate; empty where it is one.

        What has signs of tampering is none: a verdict may stand beside them, but who chooses has
        others to take.
        """
        if candidate.untrusted or (candidate.category == "reward" and candidate.reward is None):
            return TAMPERED
        return SIGNS if candidate.has_signs else ""

    def fingerprint(self, group: Group) -> str:
        """Names all that a choice hangs on: with the same one an earlier choice is taken again.

        Empty: it is asked each time.
        """
        return ""

    def stop(self) -> None:
        """The run was interrupted: end what is being waited for."""

    @abstractmethod
    def select(self, group: Group) -> Choice:
        """Choose one of the group's candidates.

        Raises:
            NothingChosenError: None can be chosen.
        """
