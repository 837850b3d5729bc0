"""Values of ``env`` tables that name variables of this machine: ``${VAR}``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from pytest_harbor.errors import MissingVariableError

# The whole value is the template, or it is plain text; a default may hold braces but no
# line end. Not a shell: no nesting, no ``:?`` and no ``-`` without the colon.
_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}")
ONLY_A_NAME = re.compile(r"\$\{(\w+)\}")
"""A template that is a variable's name and nothing else."""
MIN_KEY_CHARS = 8
"""Keys and passwords that anybody takes for one are longer than most words of settings."""

_SENSITIVE = re.compile(r"KEY|SECRET|TOKEN(?!S)|PASSWORD|CREDENTIAL|AUTH", re.IGNORECASE)


def resolve_env(table: Mapping[str, str], host: Mapping[str, str], *, where: str) -> dict[str, str]:
    """Fill the templates of one ``env`` table.

    A variable that is set but empty gives an empty value, also where the template has a
    default: unlike a shell, like Harbor.

    Args:
        table: Names and values as written.
        host: Variables of this machine.
        where: What the table is called in a message, as ``[verifier.env]``.

    Raises:
        MissingVariableError: Variables without a default are not set; it names them all.
    """
    missing = missing_variables(table, host)
    if missing:
        raise MissingVariableError(missing, where)
    return {name: _filled(value, host) for name, value in table.items()}


def missing_variables(table: Mapping[str, str], host: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that ``table`` needs, for which neither ``host`` nor a default has a value."""
    needed = (match for match in _templates(table.values()) if match[2] is None)
    return tuple(dict.fromkeys(match[1] for match in needed if match[1] not in host))


def referenced_variables(table: Mapping[str, str]) -> tuple[str, ...]:
    """Variables of this machine that ``table`` reads, in order, each once."""
    return tuple(dict.fromkeys(match[1] for match in _templates(table.values())))


def secret_values(table: Mapping[str, str], host: Mapping[str, str]) -> tuple[str, ...]:
    """Values of one ``env`` table that nobody should see.

    The name tells, its own or that of the variable it is taken from. A value that stands in
    the file is a secret only where it may be a key: ``AUTH_MODE = "none"`` is not.
    """
    return tuple(_secret_values(table, host))


def _secret_values(table: Mapping[str, str], host: Mapping[str, str]) -> Iterator[str]:
    for name, text in table.items():
        source = _TEMPLATE.fullmatch(text)
        names = (name, source[1]) if source else (name,)
        if not any(map(is_sensitive_name, names)):
            continue
        if source and source[1] in host:
            yield host[source[1]]
        elif len(value := (source[2] or "") if source else text) >= MIN_KEY_CHARS:
            yield value


def is_sensitive_name(name: str) -> bool:
    """Whether a variable or header of this name holds a secret, by Harbor's rule."""
    return _SENSITIVE.search(name) is not None


def _templates(values: Iterable[str]) -> Iterable[re.Match[str]]:
    return filter(None, map(_TEMPLATE.fullmatch, values))


def _filled(value: str, host: Mapping[str, str]) -> str:
    match = _TEMPLATE.fullmatch(value)
    if match is None:
        return value
    name, default = match.groups()
    # Missing names were refused before, so a default is there where the host has none.
    return host.get(name, default or "")
