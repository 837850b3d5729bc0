"""The model gateway: agents in a box reach a model through it, and no key enters the box.

It speaks to OpenAI-, Anthropic- and Gemini-compatible providers on the agent's behalf.
The box sees a base URL and a token that is good for one trial. Every call is recorded,
limits hold, and tools that providers run themselves are taken out wherever a trial's
network policy is not public.

The HTTP library is an optional dependency, so this package imports nothing of it;
:func:`load` does, and says what to install.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from pytest_harbor.errors import OptionError


def load() -> ModuleType:
    """The module with ``ModelGateway``.

    Raises:
        OptionError: The HTTP library is not installed.
    """
    try:
        import aiohttp  # noqa: F401
    except ImportError as error:
        raise OptionError(
            f"the model gateway needs aiohttp, which cannot be imported ({error}). "
            "Install it: pip install 'pytest-harbor[agents]'"
        ) from None
    return import_module("pytest_harbor.model_gateway.gateway")
