"""The boxes of a trial are held to the policy of the phase that runs; what it refused is kept.

A tight policy starts just before its phase and stays until the next phase begins: hooks and
artifacts that come between do not open the network for what the agent left running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pytest_harbor.environment.base import Environment, EnvironmentRequest
from pytest_harbor.errors import EnvironmentFault, UnsupportedError
from pytest_harbor.result.network import PhaseRefusals, RefusedConnection
from pytest_harbor.result.work import stamp
from pytest_harbor.task.network import NetworkPolicy, distinct
from pytest_harbor.trial.network_plan import NetworkPlan, in_words
from pytest_harbor.trial.plan import TrialPlan
from pytest_harbor.trial.record import TrialRecord, write_json
from pytest_harbor.trial.secrets import Redactor

MAX_REFUSED = 200
"""Destinations that are listed of one phase; a box may ask for any number of names."""
_NAME_CHARS = 260


@dataclass(frozen=True, slots=True)
class Period:
    """A time in which one policy holds in the agent's box, known before the trial begins."""

    phase: str
    step: str
    policy: NetworkPolicy


@dataclass(slots=True)
class _Past:
    """A period that began, with what was refused in it."""

    period: Period
    box: str
    environment: Environment
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    finished_at: datetime | None = None
    refusals: PhaseRefusals | None = None

    def as_json(self) -> dict[str, Any]:
        policy, refusals = self.period.policy, self.refusals
        return {
            "phase": self.period.phase,
            "step": self.period.step or None,
            "box": self.box,
            "policy": in_words(policy),
            "denied": list(policy.denied),
            "endpoints": [str(endpoint) for endpoint in policy.endpoints],
            "started_at": stamp(self.started_at),
            "finished_at": stamp(self.finished_at),
            "refused": [one.to_json() for one in refusals.refused] if refusals else [],
            "refused_more": refusals.more if refusals else 0,
        }


def periods(plan: NetworkPlan, steps: Sequence[str]) -> Iterator[Period]:
    """What holds when in the agent's box; ``steps`` has one empty name for a single-step task."""
    yield Period("environment", "", plan.environment)
    yield Period("agent_setup", "", plan.environment)
    for step, work in zip(steps, plan.works, strict=True):
        if step:
            yield Period("environment", step, plan.environment)
        yield Period("agent", step, work.agent)
        if not work.separate:
            yield Period("verifier", step, work.verifier)


def require_control(environment: Environment, request: EnvironmentRequest) -> None:
    """See that a backend says of itself that it can hold a box to the policies it is asked for.

    Raises:
        UnsupportedError: It cannot; nothing was built.
    """
    wanted = distinct(request.network)
    asked = ", then ".join(in_words(policy) for policy in wanted)
    backend = type(environment).__name__
    remedy = "run the task with another environment, or declare network_control"
    if environment.network_control == "none" and not all(policy.is_open for policy in wanted):
        raise UnsupportedError(
            f"{backend} restricts no network, and the {request.role}'s box asks for one that"
            f" is: {asked}; {remedy}"
        )
    if environment.network_control != "changing" and len(wanted) > 1:
        raise UnsupportedError(
            f"{backend} cannot change its network, and the {request.role}'s box asks for one"
            f" that does: {asked}; {remedy}"
        )


class NetworkSwitch:
    """Switches the policy of one trial's boxes, and keeps ``network.json``."""

    def __init__(
        self,
        plan: TrialPlan,
        record: TrialRecord,
        refusals: list[PhaseRefusals],
    ) -> None:
        """Nothing is started yet.

        Args:
            plan: The trial.
            record: The trial's folder.
            refusals: Takes what was refused, phase by phase.
        """
        self._plan = plan.network
        self._record = record
        self._refusals = refusals
        self._periods = tuple(periods(plan.network, [work.name for work in plan.works]))
        self._asked = distinct(plan.network.of_agents_box())
        self._in_force = plan.network.environment
        self._expected: NetworkPolicy | None = None
        self._past: list[_Past] = []
        self._now: _Past | None = None

    def enter(self, environment: Environment, phase: str, step: str = "") -> None:
        """A phase begins: from now on its policy holds in the agent's box.

        Raises:
            EnvironmentFault: It could not be set; nothing more is let through than before.
        """
        place = self._place(phase, step)
        period = self._periods[place]
        self.leave()
        # Also where it seems to hold already: whoever else has the box may have set another.
        if len(self._asked) > 1:
            self._set(environment, period)
        self._now = self._begun(period, "agent", environment)
        self._expect(environment, place)

    def leave(self) -> None:
        """The phase is over, or the box will be gone: the last time to ask what was refused."""
        if self._now is not None:
            now, self._now = self._now, None
            self._end(now)

    def in_verifiers_box(
        self,
        policy: NetworkPolicy,
        step: str,
        observed: Callable[[Environment], AbstractContextManager[None]],
    ) -> Callable[[Environment], AbstractContextManager[None]]:
        """What is around the grading in a box that has ``policy`` from its start.

        Args:
            policy: The box's.
            step: The step's name; empty in a single-step task.
            observed: What else is around it.
        """

        @contextmanager
        def graded(box: Environment) -> Iterator[None]:
            past = self._begun(Period("verifier", step, policy), "verifier", box)
            try:
                with observed(box):
                    yield
            finally:
                self._end(past)

        return graded

    def _place(self, phase: str, step: str) -> int:
        named = [(period.phase, period.step) for period in self._periods]
        return named.index((phase, step))

    def _set(self, environment: Environment, period: Period) -> None:
        try:
            environment.set_network_policy(self._as_asked(period.policy))
        except UnsupportedError as error:
            # It said that it could, and the agent may have worked already: no skip any more.
            raise EnvironmentFault(
                f"the network could not be set to {in_words(period.policy)} for the"
                f" {period.phase} phase: {error}"
            ) from error
        if period.policy.same_as(self._in_force):
            return
        self._in_force, self._expected = period.policy, None
        where = f"{period.phase} of step {period.step}" if period.step else period.phase
        self._record.note(f"network for {where}: {in_words(period.policy)}")

    def _as_asked(self, policy: NetworkPolicy) -> NetworkPolicy:
        """The policy as the box was told of it: it takes no others, though they be alike."""
        return next(known for known in self._asked if known.same_as(policy))

    def _expect(self, environment: Environment, place: int) -> None:
        """Tell the box of its next policy, as early as it is known."""
        later = (period.policy for period in self._periods[place + 1 :])
        policy = next((one for one in later if not one.same_as(self._in_force)), None)
        if policy is not None and policy != self._expected:
            self._expected = policy
            environment.expect_network_policy(self._as_asked(policy))

    def _begun(self, period: Period, box: str, environment: Environment) -> _Past:
        self._past.append(_Past(period, box, environment))
        return self._past[-1]

    def _end(self, past: _Past) -> None:
        if not past.period.policy.is_open:
            self._note_refusals(past)
        past.finished_at = datetime.now(UTC)
        self._write()

    def _note_refusals(self, past: _Past) -> None:
        try:
            found = past.environment.refused_connections()
        except EnvironmentFault as error:
            # The verdict does not hang on it; a box that is gone is noticed elsewhere.
            self._record.note(f"refused connections of {past.period.phase} are unknown: {error}")
            return
        if found:
            listed, more = bounded(found, self._record.redactor)
            past.refusals = PhaseRefusals(past.period.phase, past.period.step, listed, more)
            self._refusals.append(past.refusals)

    def _write(self) -> None:
        if self._plan.is_open and not self._refusals:
            return
        content = {
            "schema_version": 1,
            "network": self._plan.as_json(),
            "endpoints": [str(endpoint) for endpoint in self._plan.endpoints],
            "refused_connections": sum(one.count for one in self._refusals),
            "phases": [past.as_json() for past in self._past],
        }
        write_json(self._record.path / "network.json", content, self._record.redactor)


def bounded(
    refused: Iterable[RefusedConnection], redactor: Redactor
) -> tuple[tuple[RefusedConnection, ...], int]:
    """The most refused destinations, without secrets; and the number of tries at the others."""
    ordered = sorted(refused, key=lambda one: -one.count)
    listed = tuple(
        replace(one, destination=_shown(one.destination, redactor)) for one in ordered[:MAX_REFUSED]
    )
    return listed, sum(one.count for one in ordered[MAX_REFUSED:])


def _shown(name: str, redactor: Redactor) -> str:
    """A name that the box asked for, which may be anything, on one line."""
    clean = redactor.text(name)[:_NAME_CHARS]
    return "".join(char if char.isprintable() else "?" for char in clean)
