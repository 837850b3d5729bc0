"""How one of Harbor's agents is led to its model."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from harbor.agents.agent_auth_resolution import PROVIDERS

from pytest_harbor.agent.model_route import ModelRoute
from pytest_harbor.errors import OptionError
from pytest_harbor.model_gateway.providers import KNOWN

_WIRES = {
    "openai_chat_completions": "openai",
    "openai_responses": "openai",
    "anthropic_messages": "anthropic",
    "google_generate_content": "gemini",
}
_ENDS = {"openai": "/v1", "anthropic": "/v1", "gemini": "/v1beta"}
_SOME_BASE = "http://localhost/v1"


@dataclass(frozen=True, slots=True)
class Connection:
    """One agent's connection to its model, by the options that Harbor's agents share.

    Attributes:
        wire: The protocol that it speaks to the model.
        end: What it wants at the end of a base URL.
        variable: Where it finds the key: a name of this agent's own, in this process.
    """

    wire: str
    end: str
    variable: str = field(
        default_factory=lambda: f"PYTEST_HARBOR_MODEL_KEY_{secrets.token_hex(4).upper()}"
    )

    def arguments(self, route: ModelRoute) -> dict[str, str]:
        """For the agent's constructor."""
        root = route.base_urls[self.wire].removesuffix(_ENDS[self.wire])
        return {"base_url": root + self.end, "model_api_key_name": self.variable}

    @contextmanager
    def key_at_hand(self, route: ModelRoute) -> Iterator[None]:
        """Keep the key where the agent looks for it, for as long as it works."""
        os.environ[self.variable] = route.key
        try:
            yield
        finally:
            os.environ.pop(self.variable, None)


def connection_of(
    name: str, kind: Any, model: str | None, kwargs: Mapping[str, Any]
) -> Connection | None:
    """What is known of an agent's way to its model.

    Returns:
        None where the agent finds its model by itself, in variables of this machine: it takes
        no base URL, or the model gateway knows no such provider.

    Raises:
        OptionError: The agent refuses the model.
    """
    spec = kind.MODEL_CONNECTION
    if model is None or spec is None or not kind.capabilities.base_url:
        return None
    try:
        found = kind.resolve_model_connection_config(
            model, _variable, base_url=_SOME_BASE, kwargs=dict(kwargs)
        )
    except ValueError as error:
        raise OptionError(f"--harbor-agent={name}: {error}") from None
    provider = found.provider or ""
    access = PROVIDERS.get(provider)
    spoken = found.model_api_format or (access.default_api_format if access else None)
    wire = _WIRES.get(str(getattr(spoken, "value", spoken)))
    is_known = model.partition("/")[0] in KNOWN or provider in KNOWN
    if wire is None or not is_known or not found.can_configure_base_url:
        return None
    return Connection(wire, _end(wire, spec.default_base_url(provider, found.model_api_format)))


def _end(wire: str, usual: str | None) -> str:
    """What stands behind the root in the base URL that the agent uses of itself."""
    path = "" if usual is None else urlsplit(usual).path
    if wire == "openai":
        return "" if usual is not None and not path else _ENDS[wire]
    return _ENDS[wire] if path.endswith(_ENDS[wire]) else ""


def _variable(*names: str) -> tuple[str, str] | None:
    return next(((name, os.environ[name]) for name in names if name in os.environ), None)
