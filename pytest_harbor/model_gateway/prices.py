"""What models cost, as far as it is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import tomli
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pytest_harbor.errors import OptionError
from pytest_harbor.model_gateway.tokens import TokenCount
from pytest_harbor.task.position import TomlPositions

_PER_MILLION = 1_000_000
_RELEASE = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)")
_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(BaseModel):
    """US dollars per million tokens of one model.

    Attributes:
        input: Input that no cache was in play for.
        output: Output.
        cached: Input read from a cache; None: as ``input``.
        cache_write: Input written to a cache; None: as ``input``.
        cache_write_1h: Input written to one that lasts an hour; None: as ``cache_write``.
        above: Where a call has more input tokens than this, its price is not known.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None
    cache_write: _Dollars | None = None
    cache_write_1h: _Dollars | None = None
    above: int | None = None

    @property
    def highest(self) -> float:
        """The most that a token costs."""
        writes = (self.cache_write or 0.0, self.cache_write_1h or 0.0)
        return max(self.input, self.output, *writes)

    def cost(self, tokens: TokenCount) -> float | None:
        """The cost of a call; None where it cannot be told."""
        if not tokens.is_complete or tokens.is_priced_apart:
            return None
        if self.above is not None and tokens.input > self.above:
            return None
        fresh = max(tokens.input - tokens.cached - tokens.cache_write, 0)
        write = self.input if self.cache_write is None else self.cache_write
        write_1h = write if self.cache_write_1h is None else self.cache_write_1h
        read = self.input if self.cached is None else self.cached
        total = (
            fresh * self.input
            + tokens.cached * read
            + (tokens.cache_write - tokens.cache_write_1h) * write
            + tokens.cache_write_1h * write_1h
            + tokens.output * self.output
        )
        return total / _PER_MILLION


_TABLE = TypeAdapter(dict[str, Price])


class Prices:
    """Prices by model: the user's, and below them those that came with this package."""

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = dict(own or {})

    @classmethod
    def from_file(cls, path: Path) -> Prices:
        """The user's own table, in the form of ``prices.toml``.

        Raises:
            OptionError: The file cannot be read as one.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OptionError(f"{path}: the prices cannot be read: {reason}") from None
        return cls(_parsed(text, str(path)))

    def price(self, provider: str, model: str, *, is_official: bool) -> Price | None:
        """The price of a model; None where it is not known.

        Args:
            provider: The provider's name.
            model: The model's, with or without the date of its release.
            is_official: Whether the provider's own list price holds; a server of the
                user's own with a model of the same name asks what it likes.
        """
        names = _names("gemini" if provider == "google" else provider, model)
        for name in (*names, *(bare.partition("/")[2] for bare in names)):
            if name in self._own:
                return self._own[name]
        listed = _listed() if is_official else {}
        return next((listed[name] for name in names if name in listed), None)


def _names(provider: str, model: str) -> list[str]:
    """A model as it is called, and without its release."""
    undated = _RELEASE.sub("", model) if _RELEASE.search(model) else model
    return list(dict.fromkeys((f"{provider}/{model}", f"{provider}/{undated}")))


@cache
def _listed() -> Mapping[str, Price]:
    source = files("pytest_harbor.model_gateway").joinpath("prices.toml")
    return _parsed(source.read_text(encoding="utf-8"), "prices.toml")


def _parsed(text: str, where: str) -> dict[str, Price]:
    try:
        tables = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise _no_prices(f"{where}:{error.lineno}", f"not TOML: {error.msg}") from None
    try:
        return _TABLE.validate_python(tables)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        line = TomlPositions(text).line(problem["loc"])
        field = "".join(f"[{part!r}]" for part in problem["loc"])
        place = where if line is None else f"{where}:{line}"
        raise _no_prices(place, f"{field}: {problem['msg']}") from None


def _no_prices(place: str, found: str) -> OptionError:
    return OptionError(
        f"{place}: not a table of prices: {found}. Expected "
        '["provider/model"] with input and output in US dollars per million tokens'
    )
