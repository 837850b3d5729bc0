"""Models that search the web by themselves."""

from __future__ import annotations

import re

from pytest_harbor.model_gateway.hosted.base import UnrestrictableError

# A preset is a set of options that lies at the provider, tools among them; a router asks
# whichever model it likes.
_SEARCHING = re.compile(
    r"search|deep-research|deepresearch|sonar|online|@preset|multi-agent"
    r"|(?:^|/)(?:compound|aqa$|openrouter/|auto$|fusion)",
    re.IGNORECASE,
)


def refuse_search_model(model: object) -> None:
    """Refuse a model that reaches the web whatever tools it is given.

    Raises:
        UnrestrictableError: It is one, or it is no name at all.
    """
    if model is not None and not isinstance(model, str):
        raise UnrestrictableError("the model is not a string")
    if model is not None and _SEARCHING.search(model):
        raise UnrestrictableError(
            f"the model {model[:100]!r} searches the web by itself, which the network policy "
            "of this trial does not let it"
        )
