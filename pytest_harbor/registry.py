"""Agents and environment backends by name: entry points, or an import path."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pytest_harbor.agent.base import Agent
from pytest_harbor.errors import OptionError

AGENTS = "pytest_harbor.agents"
"""Entry point group of agents: a name and an :class:`Agent` class."""

ENVIRONMENTS = "pytest_harbor.environments"
"""Entry point group of backends: a name and a callable ``EnvironmentRequest -> Environment``."""


def agent_names() -> list[str]:
    """Every agent that is known by name, sorted."""
    return sorted({point.name for point in entry_points(group=AGENTS)})


def make_agent(
    name: str,
    *,
    model: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    import_root: Path | None = None,
) -> Agent:
    """Build an agent from its name or its import path.

    Args:
        name: Name of an entry point, or ``package.module:Class``.
        model: Model as ``provider/name``.
        kwargs: Further keyword arguments of the constructor.
        import_root: Folder that an import path may count on.

    Raises:
        OptionError: No such agent, or its constructor refuses the arguments.
    """
    kind = _imported(name, import_root) if ":" in name else _named(name)
    if not (inspect.isclass(kind) and issubclass(kind, Agent)):
        raise OptionError(
            f"--harbor-agent={name}: {kind!r} is no agent; it must be a subclass of"
            " pytest_harbor.Agent"
        )
    try:
        inspect.signature(kind).bind(model_name=model, **(kwargs or {}))
    except TypeError as error:
        raise OptionError(
            f"--harbor-agent={name}: {error}; the agent takes"
            f" {kind.__name__}{inspect.signature(kind)}; change --harbor-agent-kwarg"
        ) from None
    agent: Agent = kind(model_name=model, **(kwargs or {}))
    agent.name = agent.name or name
    return agent


def find_backend(name: str) -> Callable[..., Any]:
    """The factory of an environment backend.

    Raises:
        OptionError: No such backend.
    """
    for point in entry_points(group=ENVIRONMENTS, name=name):
        backend: Callable[..., Any] = point.load()
        return backend
    known = sorted({point.name for point in entry_points(group=ENVIRONMENTS)})
    raise OptionError(f"no environment backend {name!r}; known: {', '.join(known)}")


def _named(name: str) -> Any:
    for point in entry_points(group=AGENTS, name=name):
        return point.load()
    known = agent_names()
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise OptionError(
        f"--harbor-agent={name}: no such agent{hint} Known: {', '.join(known)}; any other is"
        " named by its import path, package.module:Class"
    )


def _imported(path: str, root: Path | None) -> Any:
    module_name, _, attribute = path.partition(":")
    try:
        with _importable(root):
            return getattr(import_module(module_name), attribute)
    except ImportError as error:
        raise OptionError(f"--harbor-agent={path}: cannot import {module_name}: {error}") from error
    except AttributeError:
        raise OptionError(
            f"--harbor-agent={path}: module {module_name} has no {attribute!r}"
        ) from None


@contextmanager
def _importable(root: Path | None) -> Iterator[None]:
    """Let modules in ``root`` be imported, as ``python -m pytest`` would."""
    entry = None if root is None else str(root)
    if entry is None or entry in sys.path:
        yield
        return
    sys.path.append(entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
