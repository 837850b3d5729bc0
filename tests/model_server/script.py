"""What a scripted model says, turn by turn."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Fault = Literal[
    "reset",  # the connection breaks before the answer
    "cut",  # the connection breaks in the middle of the answer
    "early_end",  # the answer ends cleanly, but before the model has
    "error_event",  # an error in place of the rest of a stream
    "malformed",  # one event that is no JSON
    "html",  # status 200 and a page
    "hang",  # the answer stops and the connection stays
]


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: Mapping[str, Any]
    namespace: str = ""  # of the responses protocol


@dataclass(frozen=True)
class Turn:
    """One answer.

    Attributes:
        text: What the model says.
        tools: What it wants done.
        status: Other than 200: an error of the provider's.
        headers: Further headers, as ``Retry-After``.
        error: Text of the error.
        code: Its code, in OpenAI's protocol.
        fault: What goes wrong on the way.
        input_tokens, cached_tokens, output_tokens: Counts; the input holds the cached.
        pause_sec: Between two events of a stream, and before an answer in one piece.
    """

    text: str = "done"
    tools: Sequence[ToolCall] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: str = "scripted error"
    code: str | None = None
    fault: Fault | None = None
    input_tokens: int = 100
    cached_tokens: int = 40
    output_tokens: int = 20
    pause_sec: float = 0.0

    @classmethod
    def tool(cls, name: str, text: str = "", **arguments: Any) -> "Turn":
        """The model asks for one tool."""
        return cls(text=text, tools=(ToolCall(name, arguments),))

    @classmethod
    def rate_limit(cls, retry_after: str = "1") -> "Turn":
        """The provider asks to slow down."""
        return cls(status=429, headers={"Retry-After": retry_after}, error="slow down")


Step = Turn | Callable[[dict[str, Any]], Turn]


class Script:
    """The turns in their order; a function makes its turn of the request."""

    def __init__(self, turns: Sequence[Step], *, default: Step | None = None) -> None:
        """Take the turns; after the last one ``default`` is said, or the model is done."""
        self._turns = list(turns)
        self.default: Step = default or Turn()
        self._lock = threading.Lock()

    def next(self, body: dict[str, Any]) -> Turn:
        with self._lock:
            step = self._turns.pop(0) if self._turns else self.default
        return step if isinstance(step, Turn) else step(body)

    def refill(self, turns: Sequence[Step]) -> None:
        """Say these in place of what is left."""
        with self._lock:
            self._turns = list(turns)

    @property
    def left(self) -> int:
        return len(self._turns)
