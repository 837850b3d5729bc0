"""``%environment`` of a definition file as ``ENV`` lines.

Apptainer runs the section as a script before each command; an image has fixed variables.
So assignments are taken over, and anything else a shell could do is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from pytest_harbor.environment.docker.apptainer_file import Section
from pytest_harbor.errors import UnsupportedError

_PIECE = re.compile(
    r"'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\`]|\\.)*)"'
    r"|\\(?P<escaped>.)"
    r"|(?P<bare>(?:\$\{[^}'\"\\`\s]*\}|[^\s;'\"\\`#&|<>(){}~])+)",
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BRACED = re.compile(r"\{[A-Za-z_]\w*(?::[-+][^${}]*)?\}", re.ASCII)
_OF_THE_CALLER = frozenset({"HOME", "USER", "PWD", "SHELL", "TERM", "HOSTNAME"})


class _TooMuchError(ValueError):
    """The line does what an image cannot."""


def environment_lines(section: Section, at: Callable[[int], str]) -> Iterator[str]:
    """``ENV`` lines for a section.

    Raises:
        UnsupportedError: A line is no plain assignment; names it.
    """
    for line, text in _logical_lines(section):
        try:
            for name, value in _assignments(text):
                yield f'ENV {name}="{value}"'
        except _TooMuchError as error:
            raise UnsupportedError(
                f"{at(line)}: {text.strip()!r} in %environment: {error}; an image has fixed "
                "variables, so write assignments such as export NAME=value"
            ) from None


def docker_quoted(text: str) -> str:
    """A word of a Dockerfile that means ``text`` and nothing more."""
    return f'"{_literal(text)}"'


def _logical_lines(section: Section) -> Iterator[tuple[int, str]]:
    begun, first = "", 0
    for number, text in section.lines:
        first = first if begun else number
        if text.endswith("\\"):
            begun += text[:-1]
            continue
        yield first, begun + text
        begun = ""
    if begun:
        yield first, begun


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of a line, the values as they stand between double quotes of an ENV."""
    position = 0
    while (position := _skip(text, position)) < len(text):
        name = _NAME.match(text, position)
        if name is None:
            raise _TooMuchError(f"no assignment at {text[position : position + 20]!r}")
        position = name.end()
        if text[position : position + 1] == "=":
            value, position = _word(text, position + 1)
            yield name[0], value
        elif name[0] != "export" and not _is_exported(text, name.start()):
            raise _TooMuchError(f"{name[0]!r} is a command")


def _is_exported(text: str, position: int) -> bool:
    """Whether a name stands among those of an ``export``."""
    return text[:position].rpartition(";")[2].split()[:1] == ["export"]


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t;":
        position += 1
    is_comment = text[position : position + 1] == "#"
    return len(text) if is_comment else position


def _word(text: str, position: int) -> tuple[str, int]:
    value = ""
    while position < len(text) and text[position] not in " \t;":
        piece = _PIECE.match(text, position)
        if piece is None:
            raise _TooMuchError(f"more than a value at {text[position : position + 20]!r}")
        value += _converted(piece)
        position = piece.end()
    return value, position


def _converted(piece: re.Match[str]) -> str:
    if piece["single"] is not None:
        return _literal(piece["single"])
    if piece["escaped"] is not None:
        return _literal(piece["escaped"])
    if piece["bare"] is not None:
        return _with_variables(piece["bare"])
    parts = re.split(r'\\([$`"\\])', piece["double"])
    return "".join(
        _literal(part) if index % 2 else _with_variables(part) for index, part in enumerate(parts)
    )


def _with_variables(text: str) -> str:
    first, *rest = text.split("$")
    return _literal(first) + "".join(map(_variable, rest))


def _variable(text: str) -> str:
    """What follows a dollar sign."""
    found = _BRACED.match(text) or _NAME.match(text)
    if found is None:
        if text[:1] in ("", " ", "/", ":", "."):
            return _literal(f"${text}")
        raise _TooMuchError(f"${text[:20]} is more than a variable")
    name = _NAME.search(found[0])
    if name is not None and name[0] in _OF_THE_CALLER:
        raise _TooMuchError(f"${name[0]} is known only when a command runs")
    return f"${found[0]}{_literal(text[found.end() :])}"


def _literal(text: str) -> str:
    return re.sub(r'[\\"$]', r"\\\g<0>", text.replace("\n", " "))
