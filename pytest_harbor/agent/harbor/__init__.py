"""Harbor's own agents, at work in this package's environments.

``harbor:NAME`` is an agent of Harbor's by its name there, ``harbor:package.module:Class`` any
subclass of its ``BaseAgent``. Harbor is imported for such a name only, and only by the other
modules of this package.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pytest_harbor.agent.base import Agent
from pytest_harbor.errors import OptionError

PREFIX = "harbor:"
TRIED_VERSION = "0.26.0"
_OUR_OWN = ("oracle", "nop")


def is_harbor_agent(kind: object) -> bool:
    """Whether this is a class of agents that was written for Harbor."""
    base = getattr(sys.modules.get("harbor.agents.base"), "BaseAgent", None)
    return base is not None and inspect.isclass(kind) and issubclass(kind, base)


def harbor_class(name: str, imported: Callable[[str], Any]) -> Any:
    """The class behind a name that begins with :data:`PREFIX`.

    Args:
        name: As the user wrote it.
        imported: Gives what an import path stands for.

    Raises:
        OptionError: Harbor is not installed, or there is no such agent.
    """
    require_harbor(name)
    rest = name.removeprefix(PREFIX)
    kind = imported(rest) if ":" in rest else _known(name, rest)
    if not is_harbor_agent(kind):
        raise OptionError(
            f"--harbor-agent={name}: {kind!r} is no agent of Harbor's; it must be a subclass of"
            " harbor.agents.base.BaseAgent"
        )
    return kind


def adapted(
    name: str, kind: Any, *, model: str | None = None, kwargs: Mapping[str, Any] | None = None
) -> Agent:
    """An agent that lets one of Harbor's work.

    Args:
        name: As the user wrote it.
        kind: A subclass of Harbor's ``BaseAgent``.
        model: Model as ``provider/name``.
        kwargs: Further keyword arguments of its constructor.

    Raises:
        OptionError: It cannot be made, or does not take the arguments.
    """
    require_harbor(name)
    from pytest_harbor.agent.harbor.agent import HarborAgent

    return HarborAgent(kind, name=name, model_name=model, kwargs=kwargs or {})


def require_harbor(name: str) -> None:
    """See that Harbor is there.

    Raises:
        OptionError: It is not; says how to install it.
    """
    installed = _installed_version()
    if installed is None:
        python = ".".join(map(str, sys.version_info[:2]))
        is_new = sys.version_info >= (3, 12)
        where = "" if is_new else f" in a Python 3.12 or newer, as this is {python}"
        raise OptionError(
            f"--harbor-agent={name}: the package harbor, whose agent this is, is not installed;"
            f" install it beside pytest-harbor{where}: pip install harbor"
        )
    try:
        import_module("pytest_harbor.agent.harbor.agent")
    except ImportError as error:
        raise OptionError(
            f"--harbor-agent={name}: agents of Harbor {installed}, which is installed, cannot be"
            f" used: {error}. Tried was {TRIED_VERSION}: pip install harbor=={TRIED_VERSION}"
        ) from error


def _installed_version() -> str | None:
    try:
        return version("harbor")
    except PackageNotFoundError:
        return None


def _known(name: str, rest: str) -> Any:
    from harbor.agents.factory import AgentFactory
    from harbor.models.agent.name import AgentName

    known = [one for one in AgentFactory.registered_names() if one not in _OUR_OWN]
    if rest in _OUR_OWN:
        raise OptionError(f"--harbor-agent={name}: this is built in, as --harbor-agent={rest}")
    if rest not in known:
        near = difflib.get_close_matches(rest, known, n=1)
        hint = f"; did you mean {PREFIX}{near[0]}?" if near else "."
        raise OptionError(
            f"--harbor-agent={name}: Harbor has no such agent{hint} Known: {', '.join(known)};"
            f" any other is named by its import path, {PREFIX}package.module:Class"
        )
    try:
        return AgentFactory.get_agent_class(AgentName(rest))
    except Exception as error:
        raise OptionError(
            f"--harbor-agent={name}: Harbor cannot import it: {type(error).__name__}: {error}"
        ) from error
