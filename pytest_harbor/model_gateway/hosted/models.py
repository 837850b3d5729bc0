"""Models that search the web by themselves."""

from __future__ import annotations

import re

from pytest_harbor.model_gateway.hosted.base import UnrestrictableError

# A preset is a set of options that lies at the provider, tools among them.
_SEARCHING = re.compile(
    r"search|deep-research|deepresearch|sonar|online|@preset|(?:^|/)compound|^aqa$",
    re.IGNORECASE,
)


def refuse_search_model(model: object) -> None:
    """Refuse a model that reaches the web whatever tools it is given.

    Raises:
        UnrestrictableError: It is one.
    """
    if isinstance(model, str) and _SEARCHING.search(model):
        raise UnrestrictableError(
            f"the model {model[:100]!r} searches the web by itself, which the network policy "
            "of this trial does not let it"
        )
