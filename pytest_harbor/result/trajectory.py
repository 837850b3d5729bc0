"""An agent's trajectory: what it was told, said, did and saw, step by step.

The Agent Trajectory Interchange Format, ``ATIF-v1.8`` (``format/agents.md``, section 10),
as models. Keys that it does not know are refused everywhere. Documents of every version
since 1.0 are read by the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

LATEST_VERSION: Final = "ATIF-v1.8"

SchemaVersion = Literal[
    "ATIF-v1.0",
    "ATIF-v1.1",
    "ATIF-v1.2",
    "ATIF-v1.3",
    "ATIF-v1.4",
    "ATIF-v1.5",
    "ATIF-v1.6",
    "ATIF-v1.7",
    "ATIF-v1.8",
]
Source = Literal["system", "user", "agent"]
ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
AudioType = Literal[
    "audio/wav",
    "audio/mpeg",
    "audio/mp4",
    "audio/aac",
    "audio/ogg",
    "audio/flac",
    "audio/webm",
    "audio/aiff",
]

AUDIO_ALIASES = {
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "audio/x-pn-wav": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "audio/x-mp3": "audio/mpeg",
    "audio/mpeg3": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "audio/mp4a-latm": "audio/mp4",
    "audio/x-aac": "audio/aac",
    "audio/aacp": "audio/aac",
    "audio/opus": "audio/ogg",
    "audio/x-ogg": "audio/ogg",
    "audio/x-flac": "audio/flac",
    "audio/x-aiff": "audio/aiff",
    "audio/aif": "audio/aiff",
}
"""Other names of the media types, which are written by their first one."""

AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
"""Fields that only a step of the agent has."""


class MisplacedError(ValueError):
    """A field that breaks a rule which spans several fields of its object."""

    def __init__(self, field: tuple[str | int, ...], message: str) -> None:
        self.field = field
        super().__init__(message)


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        validate_assignment=False,
        # Every trial loads these models, and nop and oracle write no trajectory.
        defer_build=True,
    )


def _iso_8601(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"expected an ISO 8601 time as '2026-01-05T10:00:00Z', got {text[:40]!r}"
        ) from None
    return text


def _canonical_audio(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    name = value.strip().lower()
    return AUDIO_ALIASES.get(name, name)


class ImageSource(_Model):
    """Where an image lies: a path beside the trajectory, or a URL."""

    media_type: ImageType
    path: str


class AudioSource(_Model):
    """Where a recording lies: a path beside the trajectory, or a URL."""

    media_type: Annotated[AudioType, BeforeValidator(_canonical_audio)]
    path: str
    duration_sec: Annotated[float, Field(ge=0)] | None = None


class TextPart(_Model):
    """A piece of text."""

    type: Literal["text"] = "text"
    text: str
    source: None = None


class ImagePart(_Model):
    """An image."""

    type: Literal["image"] = "image"
    source: ImageSource
    text: None = None


class AudioPart(_Model):
    """A recording."""

    type: Literal["audio"] = "audio"
    source: AudioSource
    text: None = None


PART_TYPES = ("text", "image", "audio")
TAGS = ("<text>", "<image>", "<audio>", "<words>", "<parts>", "<level>", "<number>")
"""What tells the members of unions apart; no key of a document."""


def _part_tag(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return f"<{kind}>" if isinstance(kind, str) and kind in PART_TYPES else None


def _content_tag(value: Any) -> str | None:
    if isinstance(value, str):
        return "<words>"
    return "<parts>" if isinstance(value, list) else None


# Tags stand in an error's location; in brackets they are told from the fields' names.
ContentPart = Annotated[
    Annotated[TextPart, Tag("<text>")]
    | Annotated[ImagePart, Tag("<image>")]
    | Annotated[AudioPart, Tag("<audio>")],
    Discriminator(_part_tag),
]
Content = Annotated[
    Annotated[str, Tag("<words>")] | Annotated[list[ContentPart], Tag("<parts>")],
    Discriminator(_content_tag),
]
Timestamp = Annotated[str, AfterValidator(_iso_8601)]
Extra = dict[str, Any]


def _effort_tag(value: Any) -> str:
    return "<level>" if isinstance(value, str) else "<number>"


class ToolCall(_Model):
    """A tool that the agent asked for."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: Extra | None = None


class SubagentRef(_Model):
    """Names the trajectory of another agent: one embedded here, or a file."""

    trajectory_id: str | None = None
    trajectory_path: str | None = None
    session_id: str | None = None
    extra: Extra | None = None

    @model_validator(mode="after")
    def _names_something(self) -> SubagentRef:
        if self.trajectory_id is None and self.trajectory_path is None:
            raise ValueError("expected trajectory_id or trajectory_path, got neither")
        return self


class ObservationResult(_Model):
    """One thing that the agent saw, mostly the answer of a tool."""

    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: list[SubagentRef] | None = None
    extra: Extra | None = None


class Observation(_Model):
    """What the agent saw after a step."""

    results: list[ObservationResult]


class Metrics(_Model):
    """What one step cost; ``prompt_tokens`` include the cached ones."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: Extra | None = None


class FinalMetrics(_Model):
    """What the whole trajectory cost."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: Annotated[int, Field(ge=0)] | None = None
    extra: Extra | None = None


class Step(_Model):
    """One step: a message, and for an agent's what it did and saw with it.

    Attributes:
        is_copied_context: It was copied from another trajectory, where it is counted.
        llm_call_count: How often a model was asked for this step; 0: not at all.
    """

    step_id: Annotated[int, Field(ge=1)]
    timestamp: Timestamp | None = None
    source: Source
    model_name: str | None = None
    reasoning_effort: (
        Annotated[
            Annotated[str, Tag("<level>")] | Annotated[float, Tag("<number>")],
            Discriminator(_effort_tag),
        ]
        | None
    ) = None
    message: Content
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: Annotated[int, Field(ge=0)] | None = None
    extra: Extra | None = None

    @model_validator(mode="after")
    def _agent_only(self) -> Step:
        for name in AGENT_ONLY if self.source != "agent" else ():
            if getattr(self, name) is not None:
                raise MisplacedError(
                    (name,), f"accepted only where source is 'agent', here it is {self.source!r}"
                )
        return self

    @model_validator(mode="after")
    def _without_model(self) -> Step:
        forbidden = ("metrics", "reasoning_content")
        for name in forbidden if self.source == "agent" and self.llm_call_count == 0 else ():
            if getattr(self, name) is not None:
                raise MisplacedError(
                    (name,), "not accepted in an agent's step whose llm_call_count is 0"
                )
        return self

    @model_validator(mode="after")
    def _answers_own_calls(self) -> Step:
        known = {call.tool_call_id for call in self.tool_calls or ()}
        for number, result in enumerate(self.observation.results if self.observation else ()):
            wanted = result.source_call_id
            if wanted is not None and wanted not in known:
                named = ", ".join(repr(one[:40]) for one in sorted(known)[:5]) or "none"
                raise MisplacedError(
                    ("observation", "results", number, "source_call_id"),
                    f"expected the tool_call_id of a tool call of the same step ({named}), "
                    f"got {wanted[:40]!r}",
                )
        return self


class TrajectoryAgent(_Model):
    """Who worked."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: Extra | None = None


class Trajectory(_Model):
    """A whole trajectory.

    Attributes:
        session_id: The run it belongs to; several trajectories may share it.
        trajectory_id: Names this document; embedded ones must have one.
        continued_trajectory_ref: File in which the work goes on.
    """

    schema_version: SchemaVersion = LATEST_VERSION
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: TrajectoryAgent
    steps: Annotated[list[Step], Field(min_length=1)]
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Extra | None = None
    subagent_trajectories: list[Trajectory] | None = None

    @model_validator(mode="after")
    def _numbered(self) -> Trajectory:
        for number, step in enumerate(self.steps):
            if step.step_id != number + 1:
                raise MisplacedError(
                    ("steps", number, "step_id"),
                    f"expected {number + 1}, as steps count from 1, got {str(step.step_id)[:20]}",
                )
        return self

    @model_validator(mode="after")
    def _subagents_named(self) -> Trajectory:
        seen: Counter[str] = Counter()
        for number, one in enumerate(self.subagent_trajectories or ()):
            place = ("subagent_trajectories", number, "trajectory_id")
            if one.trajectory_id is None:
                raise MisplacedError(place, "is required in an embedded trajectory")
            seen[one.trajectory_id] += 1
            if seen[one.trajectory_id] > 1:
                raise MisplacedError(
                    place,
                    f"expected one that no other has, got {one.trajectory_id[:40]!r} again",
                )
        return self

    def to_json(self) -> dict[str, Any]:
        """The document as plain JSON values; what is not set is left out."""
        return self.model_dump(mode="json", exclude_none=True)

    def whole(self) -> Iterator[Trajectory]:
        """This trajectory and all those embedded in it."""
        yield self
        for one in self.subagent_trajectories or ():
            yield from one.whole()


VERSIONS: tuple[str, ...] = get_args(SchemaVersion)
