"""What a trial's calls came to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pytest_harbor.model_gateway.call import Call


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Calls, tokens and cost of one model.

    Attributes:
        calls: Calls that the provider accepted.
        input_tokens: All input, that from caches included.
        cached_tokens: The part of it that was read from a cache.
        output_tokens: Output.
        cost_usd: None where the price of any call is not known, or there was none.
        is_complete: Whether every call's tokens were told; else there were more.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    is_complete: bool = True

    def plus(self, call: Call) -> ModelUsage:
        """With one more call."""
        tokens = call.tokens
        known = self.calls == 0 or self.cost_usd is not None
        cost = None
        if known and call.cost_usd is not None:
            cost = (self.cost_usd or 0.0) + call.cost_usd
        return ModelUsage(
            calls=self.calls + 1,
            input_tokens=self.input_tokens + (tokens.input if tokens else 0),
            cached_tokens=self.cached_tokens + (tokens.cached if tokens else 0),
            output_tokens=self.output_tokens + (tokens.output if tokens else 0),
            cost_usd=cost,
            is_complete=self.is_complete and tokens is not None and tokens.is_complete,
        )


@dataclass(frozen=True, slots=True)
class SessionUsage(ModelUsage):
    """The same over all models.

    Attributes:
        refused_calls: Calls that the provider refused, or that never reached it.
        by_model: By the model's name as the agent gave it.
    """

    refused_calls: int = 0
    by_model: dict[str, ModelUsage] = field(default_factory=dict)

    def harbor_usage(self) -> dict[str, object]:
        """Tokens and cost by Harbor's names; empty without a call."""
        if not self.calls:
            return {}
        return {
            **_harbor(self),
            "model_usage": {name: _harbor(usage) for name, usage in self.by_model.items()},
        }

    def with_call(self, call: Call) -> SessionUsage:
        """With one more call of a model."""
        if not call.was_accepted:
            return replace(self, refused_calls=self.refused_calls + 1)
        summed = ModelUsage.plus(self, call)
        by_model = {
            **self.by_model,
            call.model: self.by_model.get(call.model, ModelUsage()).plus(call),
        }
        values = {name: getattr(summed, name) for name in ModelUsage.__dataclass_fields__}
        return SessionUsage(**values, refused_calls=self.refused_calls, by_model=by_model)


def _harbor(usage: ModelUsage) -> dict[str, object]:
    return {
        "n_input_tokens": usage.input_tokens,
        "n_cache_tokens": usage.cached_tokens,
        "n_output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
    }
