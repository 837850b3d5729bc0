"""Which lines of a step's output GitHub's runner obeys.

As its ActionCommandManager and ActionCommand read them: a line that begins, after blanks, with
``::name …::``, or that has ``##[name …]`` anywhere; lines end at LF, CR or both; after
``stop-commands`` none but the token's.
"""

import re
from typing import NamedTuple

KNOWN = {
    *("add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group"),
    *("notice", "remove-matcher", "save-state", "set-env", "set-output", "warning"),
    "stop-commands",
}


class Command(NamedTuple):
    """A command that was obeyed."""

    name: str
    properties: dict[str, str]
    data: str


def obeyed(output: str) -> list[Command]:
    """The commands in an output that take effect, without those that stop and resume."""
    found = []
    token = None
    for line in re.split(r"\r\n|\r|\n", output):
        known = KNOWN | ({token} if token else set())
        command = _second_form(line, known) or _first_form(line, known)
        if command is None:
            continue
        if token is not None:
            token = None if command.name.lower() == token else token
        elif command.name.lower() == "stop-commands":
            token = command.data.lower()
            assert token not in KNOWN
            assert token not in ("", "pause-logging")
        else:
            found.append(command)
    return found


def _second_form(line: str, known: set[str]) -> Command | None:
    line = line.lstrip()
    end = line.find("::", 2)
    if not line.startswith("::") or end < 0:
        return None
    return _command(line[2:end], line[end + 2 :], known, ",", {"%3A": ":", "%2C": ","}, {})


def _first_form(line: str, known: set[str]) -> Command | None:
    start = line.find("##[")
    end = line.find("]", start)
    if start < 0 or end < 0:
        return None
    escapes = {"%3B": ";", "%5D": "]"}
    return _command(line[start + 3 : end], line[end + 1 :], known, ";", escapes, escapes)


def _command(
    info: str,
    data: str,
    known: set[str],
    comma: str,
    of_properties: dict[str, str],
    of_data: dict[str, str],
) -> Command | None:
    name, _, listed = info.partition(" ")
    if name.lower() not in known:
        return None
    pairs = [one.partition("=") for one in listed.strip().split(comma) if one]
    properties = {key: _unescaped(value, of_properties) for key, _, value in pairs if value}
    return Command(name, properties, _unescaped(data, of_data))


def _unescaped(text: str, escapes: dict[str, str]) -> str:
    for escape, char in {"%0D": "\r", "%0A": "\n", **escapes, "%25": "%"}.items():
        text = text.replace(escape, char)
    return text
