"""Requests to a model and its answers → the trajectory behind them.

Every request repeats the history, so of each only what is new becomes steps. Requests that
begin otherwise are another conversation: the one with most calls is the trajectory, the
others are embedded in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.result.agent_logs.lines import (
    amount,
    count,
    items,
    mapping,
    metrics,
    text_of,
    total,
    word,
)
from pytest_harbor.result.agent_logs.messages import (
    GeminiMessages,
    Message,
    add_agent,
    add_message,
    anthropic_message,
    chat_message,
    response_item,
)
from pytest_harbor.result.trajectory import Trajectory
from pytest_harbor.result.trajectory_builder import TrajectoryBuilder
from pytest_harbor.result.trajectory_usage import final_metrics

CallKind = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One call of a model, as it was seen on its way.

    Attributes:
        request: The body that was sent; a history in full.
        response: The body of the answer, in one piece though it came as a stream; empty where
            there was none.
        kind: The form of both.
        model: The model that was asked; empty: what the bodies say.
        started_at: When it was sent.
        n_input_tokens: Tokens read, cached ones included; None: what the response says.
        n_cache_tokens: The cached part of them.
        n_output_tokens: Tokens written.
        cost_usd: Its price, where it is known.
    """

    request: Mapping[str, Any]
    response: Mapping[str, Any]
    kind: CallKind
    model: str = ""
    started_at: datetime | None = None
    n_input_tokens: int | None = None
    n_cache_tokens: int | None = None
    n_output_tokens: int | None = None
    cost_usd: float | None = None

    def is_since(self, moment: datetime) -> bool:
        """Whether the call was made at ``moment`` or later; one without a time counts."""
        return self.started_at is None or self.started_at >= moment


def read_model_calls(
    calls: Iterable[ModelCall],
    *,
    name: str = "agent",
    version: str = "unknown",
    session_id: str | None = None,
) -> Trajectory:
    """The trajectory behind calls, which come in the order in which they were made.

    Raises:
        TrajectoryFormatError: There is none.
    """
    conversations: dict[str, _Conversation] = {}
    answers: dict[str, str] = {}
    for call in calls:
        history = _history(call)
        earlier = answers.get(word(call.request.get("previous_response_id")), "")
        key = earlier or _opening(history)
        if key not in conversations:
            builder = TrajectoryBuilder(name, version, session_id=session_id, stamps=False)
            conversations[key] = _Conversation(builder)
        conversations[key].add(call, history, continues=bool(earlier))
        if identity := word(call.response.get("id")):
            answers[identity] = key
    return _whole(list(conversations.values()))


@dataclass(slots=True)
class _Conversation:
    """Calls with one and the same beginning."""

    builder: TrajectoryBuilder
    calls: int = 0
    seen: int = 0
    answered: set[str] = field(default_factory=set)

    def add(self, call: ModelCall, history: Sequence[Message], *, continues: bool) -> None:
        time = call.started_at.isoformat() if call.started_at else None
        for message in history if continues else self._new(history):
            self._tell(message, time)
        self.seen = len(history)
        answer = _answer(call, history)
        if answer.is_empty:
            return
        self.calls += 1
        model = call.model or _model(call)
        self.builder.model_name = self.builder.model_name or model or None
        usage = _usage(call)
        add_agent(self.builder, answer, timestamp=time, model_name=model or None, metrics=usage)

    def _new(self, history: Sequence[Message]) -> Sequence[Message]:
        """What the last request did not hold, and was no answer to it."""
        if not len(self.builder):
            return history
        replies = [number for number, one in enumerate(history) if one.role == "agent"]
        after_reply = replies[-1] + 1 if replies else 0
        return history[max(after_reply, self.seen if len(history) >= self.seen else 0) :]

    def _tell(self, message: Message, time: str | None) -> None:
        message.results = [one for one in message.results if one.call not in self.answered]
        self.answered |= {one.call for one in message.results if one.call}
        # What an agent brings along as its model's words was said by nobody here.
        copied = {"is_copied_context": True, "llm_call_count": 0}
        if message.role == "agent":
            message.reasoning = ""
        if not message.is_empty:
            extra = copied if message.role == "agent" else {"timestamp": time}
            add_message(self.builder, message, **extra)


def _whole(conversations: list[_Conversation]) -> Trajectory:
    conversations.sort(key=lambda one: -one.calls)
    built = [one.builder.build() for one in conversations]
    trajectories = [one for one in built if one is not None]
    if not trajectories:
        raise TrajectoryFormatError(["holds no call that a model answered"])
    main, *others = trajectories
    embedded = [
        one.model_copy(update={"trajectory_id": f"conversation-{number}"})
        for number, one in enumerate(others, start=2)
    ]
    whole = main.model_copy(update={"subagent_trajectories": embedded or None})
    return whole.model_copy(update={"final_metrics": final_metrics(whole)})


def _opening(history: Sequence[Message]) -> str:
    """A conversation is known by what a user said first."""
    first = next((one.text for one in history if one.role == "user" and one.text), "")
    return hashlib.blake2b(first.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _history(call: ModelCall) -> list[Message]:
    request = call.request
    if call.kind == "gemini":
        system = request.get("systemInstruction") or request.get("system_instruction")
        parts = text_of(mapping(system).get("parts"))
        reader = GeminiMessages()
        messages = [reader.message(mapping(one)) for one in items(request.get("contents"))]
        return _with_system(parts, messages)
    if call.kind == "anthropic":
        given = map(mapping, items(request.get("messages")))
        messages = [anthropic_message(one.get("role"), one.get("content")) for one in given]
        return _with_system(text_of(request.get("system")), messages)
    if call.kind == "openai-chat":
        return [chat_message(mapping(one)) for one in items(request.get("messages"))]
    given_input = request.get("input")
    if isinstance(given_input, str):
        given_input = [{"role": "user", "content": given_input}]
    messages = [response_item(mapping(one)) for one in items(given_input)]
    return _with_system(word(request.get("instructions")), messages)


def _with_system(text: str, messages: list[Message]) -> list[Message]:
    return [Message("system", text), *messages] if text else messages


def _answer(call: ModelCall, history: Sequence[Message]) -> Message:
    response = call.response
    if call.kind == "anthropic":
        return anthropic_message("assistant", response.get("content"))
    if call.kind == "openai-chat":
        choices = [mapping(one) for one in items(response.get("choices"))]
        message = chat_message(mapping(choices[0].get("message"))) if choices else Message()
        message.role = "agent"
        return message
    if call.kind == "gemini":
        return _gemini_answer(response, history)
    return _joined([response_item(mapping(one)) for one in items(response.get("output"))])


def _gemini_answer(response: Mapping[str, Any], history: Sequence[Message]) -> Message:
    candidates = [mapping(one) for one in items(response.get("candidates"))]
    content = mapping(candidates[0].get("content")) if candidates else {}
    reader = GeminiMessages(calls=sum(len(one.calls) for one in history))
    return reader.message({**content, "role": "model"})


def _joined(parts: list[Message]) -> Message:
    return Message(
        "agent",
        "\n".join(one.text for one in parts if one.text),
        "\n".join(one.reasoning for one in parts if one.reasoning),
        [call for one in parts for call in one.calls],
    )


def _model(call: ModelCall) -> str:
    names = (call.response.get("model"), call.response.get("modelVersion"))
    return next(filter(None, map(word, names)), word(call.request.get("model")))


def _usage(call: ModelCall) -> dict[str, Any] | None:
    prompt, output, cached = _counts(call)
    return metrics(
        prompt if call.n_input_tokens is None else call.n_input_tokens,
        output if call.n_output_tokens is None else call.n_output_tokens,
        cached if call.n_cache_tokens is None else call.n_cache_tokens,
        amount(call.cost_usd),
    )


def _counts(call: ModelCall) -> tuple[int | None, int | None, int | None]:
    """Tokens read, written, and cached, as the provider says."""
    usage = mapping(call.response.get("usage"))
    if call.kind == "openai-chat":
        details = mapping(usage.get("prompt_tokens_details"))
        names = ("prompt_tokens", "completion_tokens")
        return count(usage.get(names[0])), count(usage.get(names[1])), _cached(details)
    if call.kind == "openai-responses":
        details = mapping(usage.get("input_tokens_details"))
        return count(usage.get("input_tokens")), count(usage.get("output_tokens")), _cached(details)
    if call.kind == "anthropic":
        cached = count(usage.get("cache_read_input_tokens"))
        written = count(usage.get("cache_creation_input_tokens"))
        prompt = total(count(usage.get("input_tokens")), cached, written)
        return prompt, count(usage.get("output_tokens")), cached
    counts = mapping(call.response.get("usageMetadata"))
    read = total(
        count(counts.get("promptTokenCount")), count(counts.get("toolUsePromptTokenCount"))
    )
    thoughts = count(counts.get("thoughtsTokenCount"))
    output = total(count(counts.get("candidatesTokenCount")), thoughts)
    return read, output, count(counts.get("cachedContentTokenCount"))


def _cached(details: Mapping[str, Any]) -> int | None:
    return count(details.get("cached_tokens"))
