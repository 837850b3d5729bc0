"""Agents, backends, verifiers, metrics, selectors by name: entry points, or import paths."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from pathlib import Path
from typing import Any

from pytest_harbor.agent.base import Agent
from pytest_harbor.agent.harbor import PREFIX, adapted, harbor_class, is_harbor_agent
from pytest_harbor.errors import OptionError
from pytest_harbor.task.finding import nearest
from pytest_harbor.verifier.base import Verifier

AGENTS = "pytest_harbor.agents"
"""Entry point group of agents: a name and an :class:`Agent` class."""

ENVIRONMENTS = "pytest_harbor.environments"
"""Entry point group of backends: a name and a callable ``EnvironmentRequest -> Environment``."""

VERIFIERS = "pytest_harbor.verifiers"
"""Entry point group of verifiers: a name and a :class:`Verifier` class."""

METRICS = "pytest_harbor.metrics"
"""Entry point group of metrics: a name and a function ``rewards -> {name: number}``."""

SELECTORS = "pytest_harbor.selectors"
"""Entry point group of selectors: a name and a function ``group -> Choice``, or a class."""

_METHODS = {
    "setup": ("environment", "context"),
    "run": ("instruction", "environment", "context"),
}
_found: dict[tuple[str, str], Any] = {}


def make_agent(
    name: str,
    *,
    model: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    import_root: Path | None = None,
) -> Agent:
    """Build an agent from its name or its import path.

    Args:
        name: Name of an entry point, ``package.module:Class``, or ``harbor:`` and an agent
            of Harbor's.
        model: Model as ``provider/name``.
        kwargs: Further keyword arguments of the constructor.
        import_root: Folder that an import path may count on.

    Raises:
        OptionError: No such agent, or its constructor refuses the arguments.
    """
    kind = _kind(name, import_root)
    if is_harbor_agent(kind):
        return adapted(name, kind, model=model, kwargs=kwargs)
    if not (inspect.isclass(kind) and issubclass(kind, Agent)):
        raise OptionError(
            f"--harbor-agent={name}: {kind!r} is no agent; it must be a subclass of"
            " pytest_harbor.Agent"
        )
    arguments = {**({} if model is None else {"model_name": model}), **(kwargs or {})}
    _check_methods(name, kind)
    _check_arguments(name, kind, arguments)
    agent: Agent = kind(**arguments)
    agent.name = agent.name or name
    return agent


def _kind(name: str, import_root: Path | None) -> Any:
    if name.startswith(PREFIX):
        return harbor_class(name, lambda path: _imported(path, import_root))
    return find_named("--harbor-agent", AGENTS, name, import_root)


def find_named(
    option: str,
    group: str,
    name: str,
    import_root: Path | None,
    also: Sequence[str] = (),
) -> Any:
    """What an option names: an entry point of a group, or an import path.

    Args:
        option: The option, for messages.
        group: The entry points' group.
        name: ``package.module:Name``, or an entry point's name.
        import_root: Folder that an import path may count on.
        also: Further names that the option takes, for messages.

    Raises:
        OptionError: There is none, or it cannot be imported.
    """
    if ":" in name:
        return _imported(name, import_root, option)
    return _loaded(
        group,
        name,
        f"{option}={name}",
        "; any other is named by its import path, package.module:Name",
        also,
    )


def _check_methods(name: str, kind: type[Agent]) -> None:
    """Tell of methods that could not be called while nothing has been built for them."""
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise OptionError(
            f"--harbor-agent={name}: {kind.__name__} has no {', '.join(missing)}(); every agent"
            " needs one"
        )
    for method, arguments in _METHODS.items():
        wanted = f"{method}(self, {', '.join(arguments)})"
        where = f"--harbor-agent={name}: {kind.__name__}.{method}"
        found = getattr(kind, method)
        if not callable(found):
            raise OptionError(f"{where} is {found!r}; expected a method {wanted}")
        if inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
            raise OptionError(f"{where} yields, so that it would never run; expected {wanted}")
        signature = inspect.signature(found)
        try:
            signature.bind(*[None] * (1 + len(arguments)))
        except TypeError:
            takes = _signature_text(signature)
            raise OptionError(f"{where} takes {takes}; expected {wanted}") from None


def _check_arguments(name: str, kind: type[Agent], arguments: Mapping[str, Any]) -> None:
    if refused := refused_arguments(kind, arguments):
        raise OptionError(
            f"--harbor-agent={name}: {refused}; its arguments come from --harbor-agent-kwarg,"
            " model_name from --harbor-model"
        )


def refused_arguments(
    found: Callable[..., Any], arguments: Mapping[str, Any], positional: Sequence[Any] = ()
) -> str:
    """Why something does not take arguments, and what it takes; empty where it takes them.

    Args:
        found: A class, or a function.
        arguments: By name. One that there is not tells more than one that is missing.
        positional: Arguments in front of them.
    """
    signature = inspect.signature(found)
    try:
        signature.bind(*positional, **arguments)
    except TypeError as error:
        why = str(error)
    else:
        return ""
    taken = list(signature.parameters.values())[len(positional) :]
    names = [one.name for one in taken if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if not any(one.kind is one.VAR_KEYWORD for one in taken):
        for unknown in (one for one in arguments if one not in names):
            why = f"got an unexpected keyword argument {unknown!r}{nearest(unknown, names)}"
            break
    name = found.__name__ if inspect.isclass(found) else ""
    return f"{why}; it takes {name}{_signature_text(signature)}"


class _Unquoted:
    """An annotation that its module keeps as text: shown as it was written."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _signature_text(signature: inspect.Signature) -> str:
    def shown(annotation: Any) -> Any:
        return _Unquoted(annotation) if isinstance(annotation, str) else annotation

    parameters = [
        one.replace(annotation=shown(one.annotation)) for one in signature.parameters.values()
    ]
    return str(
        signature.replace(
            parameters=parameters, return_annotation=shown(signature.return_annotation)
        )
    )


def make_verifier(
    name: str, *, kwargs: Mapping[str, Any] | None = None, import_root: Path | None = None
) -> Verifier:
    """Build a verifier from its name or its import path.

    Raises:
        OptionError: No such verifier, or its constructor refuses the arguments.
    """
    kind = find_named("--harbor-verifier", VERIFIERS, name, import_root)
    if not (inspect.isclass(kind) and issubclass(kind, Verifier)):
        raise OptionError(
            f"--harbor-verifier={name}: {kind!r} is no verifier; it must be a subclass of"
            " pytest_harbor.verifier.base.Verifier"
        )
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise OptionError(f"--harbor-verifier={name}: {kind.__name__} has no {missing[0]}()")
    if refused := refused_arguments(kind, kwargs or {}):
        raise OptionError(
            f"--harbor-verifier={name}: {refused}; its arguments come from"
            " --harbor-verifier-kwarg"
        )
    try:
        made: Verifier = kind(**(kwargs or {}))
    except OptionError as error:
        raise OptionError(f"--harbor-verifier={name}: {error}") from None
    except Exception as error:
        raise OptionError(
            f"--harbor-verifier={name}: {kind.__name__} cannot be made: {_in_words(error)}"
        ) from error
    return made


def find_backend(name: str) -> Callable[..., Any]:
    """The factory of an environment backend.

    Raises:
        OptionError: No such backend.
    """
    backend: Callable[..., Any] = _loaded(ENVIRONMENTS, name, f"environment backend {name!r}")
    return backend


def _loaded(
    group: str, name: str, what: str, advice: str = "", also: Sequence[str] = ()
) -> Any:
    """What the entry point of a group loads; ``what`` begins the message where there is none."""
    # Every trial asks, and a look through all that is installed takes some milliseconds.
    if (group, name) in _found:
        return _found[group, name]
    for point in entry_points(group=group, name=name):
        try:
            return _found.setdefault((group, name), point.load())
        except Exception as error:
            raise OptionError(f"{what}: {point.value}: {_in_words(error)}") from error
    known = sorted({point.name for point in entry_points(group=group)} | {*also})
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise OptionError(f"{what}: there is none{hint} Known: {', '.join(known)}{advice}")


def _imported(path: str, root: Path | None, option: str = "--harbor-agent") -> Any:
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise OptionError(f"{option}={path}: expected package.module:Name")
    try:
        with _importable(root):
            module = import_module(module_name)
    except Exception as error:
        raise OptionError(
            f"{option}={path}: cannot import {module_name}: {_in_words(error)}"
        ) from error
    try:
        return attrgetter(attribute)(module)
    except AttributeError:
        raise OptionError(f"{option}={path}: module {module_name} has no {attribute!r}") from None


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


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
