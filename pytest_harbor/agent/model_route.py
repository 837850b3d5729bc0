"""The way from an agent inside an environment to its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CALLS_FILE = "model_calls.jsonl"
"""The model gateway's record of a trial's calls, in the folder of its agent's logs."""


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """Where an agent's model is, as seen from inside the environment.

    Attributes:
        provider: The provider's name; empty where the model was not named.
        name: The model by the provider's own name; empty likewise.
        base_urls: Protocol (``anthropic``, ``openai``, ``gemini``) to the base URL as its
            clients expect it: OpenAI's with ``/v1`` at the end, the others without.
        key: What stands for the key: the trial's own token where the model gateway is used.
        is_gateway: Whether calls go through the model gateway.
    """

    provider: str = ""
    name: str = ""
    base_urls: Mapping[str, str] = field(default_factory=dict)
    key: str = field(default="", repr=False)
    is_gateway: bool = False
