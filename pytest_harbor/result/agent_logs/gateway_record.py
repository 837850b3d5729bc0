"""The model gateway's record of calls → the trajectory behind them, whatever the agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.result.agent_logs.lines import amount, count, items, mapping, when, word
from pytest_harbor.result.agent_logs.model_calls import CallKind, ModelCall, read_model_calls
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.result.trajectory_reader import MAX_BYTES, load_json

_KINDS: dict[str, CallKind] = {
    "chat": "openai-chat",
    "responses": "openai-responses",
    "messages": "anthropic",
    "generate": "gemini",
}
_LISTS = ("messages", "input", "contents")
_KEPT_HISTORIES = 32  # twice as far as the record's own pointers reach back


def read_gateway_record(
    record: Iterable[bytes],
    *,
    name: str = "agent",
    version: str = "unknown",
    session_id: str | None = None,
) -> Trajectory:
    """The trajectory behind a record.

    Args:
        record: Its lines, as an open file gives them; read as they are needed.
        name: The agent's.
        version: The agent's.
        session_id: The run it belongs to.

    Raises:
        TrajectoryFormatError: No model answered.
    """
    calls = recorded_calls(record)
    return read_model_calls(calls, name=name, version=version, session_id=session_id)


def recorded_calls(record: Iterable[bytes]) -> Iterator[ModelCall]:
    """The calls of a record, each with its history in full; broken lines are passed over."""
    unfolded = _Unfolded()
    for line in record:
        entry = _entry(line)
        kind = _KINDS.get(word(entry.get("operation")))
        if kind is None or not isinstance(entry.get("request"), dict):
            continue
        usage = mapping(entry.get("usage"))
        yield ModelCall(
            request=unfolded.request(entry.get("n"), entry["request"]),
            response=mapping(entry.get("response")),
            kind=kind,
            model=word(entry.get("answered_by")) or word(entry.get("model")),
            started_at=_moment(entry.get("started_at")),
            n_input_tokens=count(usage.get("n_input_tokens")),
            n_cache_tokens=count(usage.get("n_cache_tokens")),
            n_output_tokens=count(usage.get("n_output_tokens")),
            cost_usd=amount(entry.get("cost_usd")),
        )


class _Unfolded:
    """Puts back what a request was spared because an earlier one held it."""

    def __init__(self) -> None:
        self._histories: dict[Any, list[Any]] = {}
        self._constants: dict[tuple[Any, str], Any] = {}

    def request(self, number: Any, folded: Mapping[str, Any]) -> dict[str, Any]:
        whole = {name: self._value(name, value) for name, value in folded.items()}
        if not isinstance(number, int):
            return whole
        for name, value in whole.items():
            if name in _LISTS and isinstance(value, list):
                self._histories[number] = value
            elif isinstance(value, dict | list | str):
                self._constants[number, name] = value
        while len(self._histories) > _KEPT_HISTORIES:
            del self._histories[next(iter(self._histories))]
        return whole

    def _value(self, name: str, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("same_as"), int):
            return value
        earlier = value["same_as"]
        if name not in _LISTS:
            return self._constants.get((earlier, name))
        first = count(value.get("first")) or 0
        return [*self._histories.get(earlier, [])[:first], *items(value.get("then"))]


def _entry(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_BYTES:
        return {}
    try:
        value = load_json(line)
    except TrajectoryFormatError:
        return {}
    return value if isinstance(value, dict) else {}


def _moment(value: Any) -> datetime | None:
    text = when(value)
    return datetime.fromisoformat(text) if text else None
