"""A selector by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_harbor.errors import OptionError
from pytest_harbor.registry import SELECTORS, find_named, refused_arguments
from pytest_harbor.selection.candidate import Choice, Group, Selector
from pytest_harbor.selection.reward import RewardSelector


class FunctionSelector(Selector):
    """A function of a group that gives a choice."""

    def __init__(self, name: str, function: Callable[..., Choice], kwargs: Mapping[str, Any]):
        self.name, self._function, self._kwargs = name, function, dict(kwargs)

    def select(self, group: Group) -> Choice:
        """Call it."""
        return self._function(group, **self._kwargs)


def find_selector(
    spec: str,
    kwargs: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    option: str = "--harbor-best-of",
) -> Selector:
    """A selector by its name, import path or entry point.

    Args:
        spec: ``reward``, ``reward:KEY``, ``judge``, ``package.module:name`` or the name of an
            entry point.
        kwargs: Its keyword arguments.
        folder: What an import may count on.
        option: How it was asked for, for messages.

    Raises:
        OptionError: There is none, or it refuses the arguments.
    """
    name, colon, key = spec.strip().partition(":")
    if name == "reward":
        return _reward(option, key.strip(), bool(colon), kwargs)
    found = find_named(option, SELECTORS, spec.strip(), folder)
    _check_arguments(f"{option}={spec}", found, kwargs or {})
    if not inspect.isclass(found):
        return FunctionSelector(spec.strip(), found, kwargs or {})
    return _made(f"{option}={spec}", found, spec.strip(), kwargs or {})


def _made(what: str, kind: Any, name: str, kwargs: Mapping[str, Any]) -> Selector:
    try:
        made: Selector = kind(**kwargs)
    except OptionError as error:
        raise OptionError(f"{what}: {error}") from None
    except Exception as error:
        raise OptionError(f"{what}: {kind.__name__}: {type(error).__name__}: {error}") from error
    made.name = made.name or name
    if not isinstance(made.name, str):
        raise OptionError(f"{what}: {kind.__name__}.name: expected text, got {made.name!r}")
    several: Any = made.parallel
    if isinstance(several, bool) or not isinstance(several, int) or several < 1:
        raise OptionError(
            f"{what}: {kind.__name__}.parallel: expected a whole number from 1, got {several!r}"
        )
    return made


def _reward(
    option: str, key: str, is_keyed: bool, kwargs: Mapping[str, Any] | None
) -> RewardSelector:
    if kwargs:
        raise OptionError(f"{option}=reward takes no keyword arguments, got {', '.join(kwargs)}")
    if is_keyed and not key:
        raise OptionError(f"{option}=reward: expected reward:KEY, got no key")
    return RewardSelector(key)


def _check_arguments(what: str, found: Any, kwargs: Mapping[str, Any]) -> None:
    is_selector = inspect.isclass(found) and issubclass(found, Selector)
    if not is_selector and (inspect.isclass(found) or not callable(found)):
        raise OptionError(
            f"{what}: {found!r} is no selector; expected a function of a group of candidates, or"
            " a subclass of pytest_harbor.selection.candidate.Selector"
        )
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise OptionError(f"{what}: {found.__name__} has no {missing[0]}()")
    group = () if is_selector else (None,)
    if refused := refused_arguments(found, kwargs, group):
        raise OptionError(f"{what}: {refused}; its arguments are given as KEY=VALUE")
