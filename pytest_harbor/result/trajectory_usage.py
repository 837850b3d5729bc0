"""What a trajectory says of its tokens and its cost, by Harbor's names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from pytest_harbor.result.trajectory import FinalMetrics, Metrics, Step, Trajectory

_MOST = 2**53  # what every reader of JSON can hold; more is no count of anything

_TOKENS = {
    "n_input_tokens": "prompt_tokens",
    "n_cache_tokens": "cached_tokens",
    "n_output_tokens": "completion_tokens",
}


def usage_of(trajectory: Trajectory) -> dict[str, Any]:
    """Counts that are known: ``n_input_tokens`` …, ``cost_usd``, ``n_steps``, ``model_usage``.

    ``final_metrics`` come first; what they leave out is summed over the steps, those of
    embedded trajectories too.
    """
    final = trajectory.final_metrics
    counted = list(_counted(trajectory))
    summed = _sums(metrics for _, metrics in counted)
    usage: dict[str, Any] = {
        name: _first(_count(getattr(final, f"total_{field}", None)), summed[name])
        for name, field in _TOKENS.items()
    }
    cost = _amount(final.total_cost_usd) if final else None
    usage["cost_usd"] = _first(cost, summed["cost_usd"])
    steps = _count(final.total_steps) if final else None
    usage["n_steps"] = _first(steps, sum(len(one.steps) for one in trajectory.whole()))
    usage["model_usage"] = _by_model(trajectory, counted, usage)
    return {name: value for name, value in usage.items() if value is not None}


def final_metrics(trajectory: Trajectory) -> FinalMetrics:
    """The sums over a trajectory's steps, as ATIF writes them."""
    sums = _sums(metrics for _, metrics in _counted(trajectory))
    return FinalMetrics(
        total_prompt_tokens=sums["n_input_tokens"],
        total_completion_tokens=sums["n_output_tokens"],
        total_cached_tokens=sums["n_cache_tokens"],
        total_cost_usd=sums["cost_usd"],
        total_steps=len(trajectory.steps),
    )


def _counted(trajectory: Trajectory) -> Iterator[tuple[str | None, Metrics]]:
    """The metrics of all steps that are this trajectory's own, with the model of each."""
    for part in trajectory.whole():
        for step in part.steps:
            if step.metrics is not None and not step.is_copied_context:
                yield _model(part, step), step.metrics


def _model(trajectory: Trajectory, step: Step) -> str | None:
    return step.model_name or trajectory.agent.model_name


def _sums(metrics: Iterable[Metrics]) -> dict[str, Any]:
    known = list(metrics)
    sums: dict[str, Any] = {
        name: _total(_count(getattr(one, field)) for one in known)
        for name, field in _TOKENS.items()
    }
    # A sum that leaves out a step's price would look like the price of all.
    priced = [_amount(one.cost_usd) for one in known if _has_tokens(one) or one.cost_usd]
    sums["cost_usd"] = None if None in priced else _total(priced)
    return sums


def _by_model(
    trajectory: Trajectory, counted: list[tuple[str | None, Metrics]], usage: dict[str, Any]
) -> dict[str, dict[str, Any]] | None:
    models: dict[str, list[Metrics]] = {}
    for model, metrics in counted:
        if model:
            models.setdefault(model, []).append(metrics)
    if models:
        return {model: _whole_counts(_sums(metrics)) for model, metrics in models.items()}
    only = trajectory.agent.model_name
    if only is None or usage["n_input_tokens"] is None:
        return None
    return {only: _whole_counts(usage)}


def _whole_counts(counts: dict[str, Any]) -> dict[str, Any]:
    return {**{name: counts[name] or 0 for name in _TOKENS}, "cost_usd": counts["cost_usd"]}


def _has_tokens(metrics: Metrics) -> bool:
    return bool(metrics.prompt_tokens or metrics.completion_tokens)


def _count(value: int | None) -> int | None:
    return value if value is not None and 0 <= value <= _MOST else None


def _amount(value: float | None) -> float | None:
    return value if value is not None and 0 <= value <= _MOST and math.isfinite(value) else None


def _total(values: Iterable[float | None]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
