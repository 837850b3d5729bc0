"""Which trials a task gets: agents, models and attempts, and how their items are named.

Names are plain item names, not pytest parameters: an item outside a ``.py`` file that
has parameters breaks the discovery of editors.
"""

from __future__ import annotations

from typing import NamedTuple

from pytest_harbor.plugin.options import Settings

WITHOUT_MODEL = frozenset({"oracle", "nop"})
"""Reference agents: they ask no model, so models do not multiply them."""


class Variant(NamedTuple):
    """One way to run a task.

    Attributes:
        agent: Name of the agent, as given.
        model: Name of the model; None: the agent's own.
        attempt: Number of the attempt, from 1.
        name: The item's name: ``oracle``, ``oracle[2]``, ``codex[openai/gpt-5]`` or
            ``codex[openai/gpt-5-2]``.
    """

    agent: str
    model: str | None
    attempt: int
    name: str


def variants(settings: Settings) -> tuple[Variant, ...]:
    """Give every variant of a task: by agent, then model, then attempt."""
    return tuple(
        Variant(agent, model, attempt, _name(agent, model, attempt, settings.attempts))
        for agent in settings.agents
        for model in _models(agent, settings)
        for attempt in range(1, settings.attempts + 1)
    )


def _models(agent: str, settings: Settings) -> tuple[str | None, ...]:
    return (None,) if agent in WITHOUT_MODEL else settings.models or (None,)


def _name(agent: str, model: str | None, attempt: int, attempts: int) -> str:
    inside = [model] if model is not None else []
    if attempts > 1:
        inside.append(str(attempt))
    return f"{agent}[{'-'.join(inside)}]" if inside else agent
