"""A Dockerfile's instructions with their lines; heredocs, which few readers know, included."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)(?:\s+(.*))?$", re.DOTALL)
_ESCAPE = re.compile(r"#\s*escape\s*=\s*([`\\])\s*$", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*[a-zA-Z]+\s*=")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S+))?(?:\s+|$)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?[-+][^}]*)?\}|(\w+))")
_WITH_HEREDOC = frozenset({"RUN", "COPY", "ADD"})


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        keyword: In capital letters.
        value: What follows it, flags taken off, lines joined by line ends.
        line: Line of the keyword, from 1.
        flags: ``--name=value`` before the value.
        heredoc: Text of its heredocs.
    """

    keyword: str
    value: str
    line: int
    flags: dict[str, str]
    heredoc: str = ""

    @property
    def words(self) -> list[str]:
        """The value's words: those of a JSON list, or of a shell."""
        text = self.value.strip()
        if text.startswith("["):
            return re.findall(r'"((?:[^"\\]|\\.)*)"', text)
        try:
            return shlex.split(text, comments=False)
        except ValueError:
            return text.split()


@dataclass(frozen=True, slots=True)
class Stage:
    """A ``FROM``, with its variables filled in as far as the file tells them.

    Attributes:
        image: The image or the earlier stage; may hold ``$`` where nothing gives a value.
        name: Its own name, in small letters; empty if none.
        line: Line from 1.
        platform: Its ``--platform``; empty if none.
    """

    image: str
    name: str
    line: int
    platform: str = ""


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """A Dockerfile.

    Attributes:
        path: The file.
        text: All of it.
        instructions: In their order.
    """

    path: Path
    text: str
    instructions: tuple[Instruction, ...]

    def of(self, *keywords: str) -> Iterator[Instruction]:
        """The instructions with one of these keywords."""
        return (one for one in self.instructions if one.keyword in keywords)

    @property
    def stages(self) -> list[Stage]:
        """Every ``FROM``."""
        arguments: dict[str, str] = {}
        found: list[Stage] = []
        for one in self.instructions:
            if one.keyword == "ARG" and not found:
                name, _, value = one.value.partition("=")
                arguments[name.strip()] = value.strip().strip("\"'")
            elif one.keyword == "FROM":
                found.append(_stage(one, arguments))
        return found

    @property
    def workdir(self) -> str | None:
        """The last ``WORKDIR``; None where there is none."""
        found = [one.value.strip().strip("\"'") for one in self.of("WORKDIR")]
        return found[-1] if found else None


def _stage(one: Instruction, arguments: dict[str, str]) -> Stage:
    words = one.value.split()
    image = _VARIABLE.sub(lambda m: arguments.get(m[1] or m[2]) or m[0], words[0] if words else "")
    is_named = len(words) == 3 and words[1].lower() == "as"
    name = words[2].lower() if is_named else ""
    return Stage(image, name, one.line, one.flags.get("platform", ""))


def read_dockerfile(path: Path, text: str) -> Dockerfile:
    """Read a Dockerfile; what is none gives few instructions and never an error."""
    return Dockerfile(path, text, tuple(_instructions(text)))


def _instructions(text: str) -> Iterator[Instruction]:
    lines = text.splitlines()
    escape = _escape_character(lines)
    index = 0
    while index < len(lines):
        if not lines[index].strip() or lines[index].lstrip().startswith("#"):
            index += 1
            continue
        start = index
        joined, index = _joined(lines, index, escape)
        match = _INSTRUCTION.match(joined)
        if match is None:
            continue
        keyword = match[1].upper()
        heredoc = ""
        if keyword in _WITH_HEREDOC:
            heredoc, index = _heredocs(_HEREDOC.findall(joined), lines, index)
        flags, value = _flags(match[2] or "")
        yield Instruction(keyword, value, start + 1, flags, heredoc)


def _escape_character(lines: list[str]) -> str:
    for line in lines:
        if match := _ESCAPE.match(line):
            return match[1]
        if not _DIRECTIVE.match(line):
            break
    return "\\"


def _joined(lines: list[str], index: int, escape: str) -> tuple[str, int]:
    """The lines of one instruction; comments and empty lines between them keep their place."""
    parts: list[str] = []
    while index < len(lines):
        line = lines[index].rstrip()
        index += 1
        if parts and (not line or line.lstrip().startswith("#")):
            parts.append("")
            continue
        if not line.endswith(escape):
            parts.append(line)
            break
        parts.append(line[:-1])
    return "\n".join(parts), index


def _heredocs(marks: list[tuple[str, str]], lines: list[str], index: int) -> tuple[str, int]:
    bodies: list[str] = []
    for _, mark in marks:
        ends = (at for at in range(index, len(lines)) if lines[at].strip() == mark)
        end = next(ends, None)
        if end is None:
            break
        bodies += lines[index:end]
        index = end + 1
    return "\n".join(bodies), index


def _flags(value: str) -> tuple[dict[str, str], str]:
    flags: dict[str, str] = {}
    value = value.lstrip(" \t")
    while match := _FLAG.match(value):
        flags[match[1]] = match[2] or ""
        value = value[match.end() :].lstrip(" \t")
    return flags, value
