"""What one trial may spend."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from pytest_harbor.errors import OptionError


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of one trial; None: no limit.

    A limit stops the *next* call: one that began below it is let finish, so that tokens
    and cost may end above their limit by what was then under way.

    Attributes:
        max_calls: Calls that a provider accepted; those that it refused do not count.
        max_tokens: Input and output tokens together.
        max_cost_usd: US dollars; a model without a known price is refused under it.
        models: Patterns of the models that may be asked, as ``claude-*``; None: any.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    models: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_tokens", "max_cost_usd"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"{name}: expected a number above 0, got {value!r}")

    def allows(self, model: str) -> bool:
        """Whether a model may be asked."""
        if self.models is None:
            return True
        return any(fnmatchcase(model, pattern) for pattern in self.models)

    def reached(self, calls: int, tokens: int, cost_usd: float) -> str | None:
        """The limit that is used up, in words; None while there is room."""
        if self.max_calls is not None and calls >= self.max_calls:
            return f"limit of {self.max_calls} model calls"
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return f"limit of {self.max_tokens} tokens"
        if self.max_cost_usd is not None and cost_usd >= self.max_cost_usd:
            return f"limit of {self.max_cost_usd:g} US dollars"
        return None
