"""A trajectory written step by step, as an agent goes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.result.trajectory import (
    Observation,
    ObservationResult,
    Source,
    Step,
    ToolCall,
    Trajectory,
    TrajectoryAgent,
)
from pytest_harbor.result.trajectory_reader import problems_of
from pytest_harbor.result.trajectory_usage import final_metrics

Part = BaseModel | Mapping[str, Any]
"""A model of :mod:`pytest_harbor.result.trajectory`, or its fields."""


class TrajectoryBuilder:
    """Takes steps as they happen; may be used from several threads.

    ::

        context.trajectory.user(instruction)
        context.trajectory.agent(
            "I look first.",
            tool_calls=[
                {"tool_call_id": "1", "function_name": "bash", "arguments": {"command": "ls"}}
            ],
            metrics={"prompt_tokens": 30, "completion_tokens": 6},
        )
        context.trajectory.observe("a.txt", call="1")
    """

    def __init__(
        self,
        name: str = "agent",
        version: str = "unknown",
        *,
        model_name: str | None = None,
        session_id: str | None = None,
        stamps: bool = True,
    ) -> None:
        """A trajectory without steps.

        Args:
            name: The agent's.
            version: The agent's.
            model_name: Model of all steps that name none.
            session_id: The run it belongs to.
            stamps: Give each step the time at which it is added, where it brings none.
        """
        self.name = name
        self.version = version
        self.model_name = model_name
        self.session_id = session_id
        self.tool_definitions: list[dict[str, Any]] | None = None
        self.extra: dict[str, Any] = {}
        self.notes: str | None = None
        self.subagents: list[Trajectory] = []
        self._stamps = stamps
        self._steps: list[Step] = []
        self._calls: dict[str, int] = {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._steps)

    def system(self, message: str | Sequence[Part], **fields: Any) -> Step:
        """Add what the system said; fields as of :class:`Step`."""
        return self.add("system", message, **fields)

    def user(self, message: str | Sequence[Part], **fields: Any) -> Step:
        """Add what the user said; fields as of :class:`Step`."""
        return self.add("user", message, **fields)

    def agent(self, message: str | Sequence[Part] = "", **fields: Any) -> Step:
        """Add what the agent said or did.

        Args:
            message: Its words.
            fields: ``tool_calls``, ``observation`` (text will do), ``metrics``,
                ``reasoning_content``, ``model_name`` … as of :class:`Step`.

        Raises:
            TrajectoryFormatError: They make no step; nothing is added.
        """
        return self.add("agent", message, **fields)

    def add(self, source: Source, message: str | Sequence[Part], **fields: Any) -> Step:
        """Add a step.

        Raises:
            TrajectoryFormatError: The fields make no step; nothing is added.
        """
        if isinstance(fields.get("observation"), str):
            fields["observation"] = {"results": [{"content": fields["observation"]}]}
        if self._stamps:
            fields.setdefault("timestamp", datetime.now(UTC).isoformat())
        plain = {name: _plain(value) for name, value in fields.items() if value is not None}
        with self._lock:
            number = len(self._steps) + 1
            step = _step({**plain, "step_id": number, "source": source, "message": _plain(message)})
            self._steps.append(step)
            for call in step.tool_calls or ():
                self._calls[call.tool_call_id] = number - 1
        return step

    def observe(
        self, content: str | Sequence[Part] | None, *, call: str | None = None, **fields: Any
    ) -> None:
        """Add what was seen to the step that made the tool call, else to the last step.

        Args:
            content: What was seen.
            call: The ``tool_call_id`` that it answers.
            fields: ``extra``, ``subagent_trajectory_ref`` as of :class:`ObservationResult`.

        Raises:
            TrajectoryFormatError: There is no step yet, or no such tool call.
        """
        with self._lock:
            if not self._steps or (call is not None and call not in self._calls):
                what = f"no step has the tool call {call!r}" if self._steps else "there is no step"
                raise TrajectoryFormatError([f"cannot add an observation: {what}"])
            number = len(self._steps) - 1 if call is None else self._calls[call]
            result = {"source_call_id": call, "content": _plain(content), **fields}
            try:
                seen = ObservationResult.model_validate(result)
            except ValidationError as error:
                raise TrajectoryFormatError(problems_of(error)) from None
            step = self._steps[number]
            earlier = step.observation.results if step.observation else []
            # Steps are never changed: one that was handed out, or is being written, stays.
            update = {"observation": Observation(results=[*earlier, seen])}
            self._steps[number] = step.model_copy(update=update)

    def has_call(self, call: str) -> bool:
        """Whether a step has made this tool call."""
        return call in self._calls

    def calls_without_answer(self) -> list[ToolCall]:
        """Tool calls of the last step that nothing was observed for."""
        if not self._steps:
            return []
        step = self._steps[-1]
        results = step.observation.results if step.observation else []
        seen = {result.source_call_id for result in results}
        return [call for call in step.tool_calls or () if call.tool_call_id not in seen]

    def amend_last(self, **fields: Any) -> None:
        """Set fields of the last step, as its metrics that come afterwards."""
        with self._lock:
            step = self._steps[-1]
            plain = {name: _plain(value) for name, value in fields.items()}
            known = step.model_dump(exclude_none=True)
            self._steps[-1] = _step({**known, **plain})

    def last(self) -> Step | None:
        """The last step."""
        return self._steps[-1] if self._steps else None

    def build(self) -> Trajectory | None:
        """The trajectory as it is now, with its sums; None: there is no step."""
        with self._lock:
            steps = list(self._steps)
        if not steps:
            return None
        trajectory = Trajectory(
            session_id=self.session_id,
            agent=TrajectoryAgent(
                name=self.name,
                version=self.version,
                model_name=self.model_name,
                tool_definitions=self.tool_definitions,
            ),
            steps=steps,
            notes=self.notes,
            extra=self.extra or None,
            subagent_trajectories=list(self.subagents) or None,
        )
        return trajectory.model_copy(update={"final_metrics": final_metrics(trajectory)})


def _step(fields: Mapping[str, Any]) -> Step:
    try:
        return Step.model_validate(fields)
    except ValidationError as error:
        raise TrajectoryFormatError(problems_of(error)) from None


def _plain(value: Any) -> Any:
    """Fields as the models take them; text that no file can hold is made such."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
