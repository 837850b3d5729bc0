"""The parts of an Apptainer definition file: stages, each a header and sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pytest_harbor.errors import ImageBuildError

_SECTION = re.compile(r"%([A-Za-z]\w*)[ \t]*(.*)")
_HEADER = re.compile(r"\s*([A-Za-z]+)\s*:\s*(.*)")
_ARGUMENT = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@dataclass(slots=True)
class Section:
    """A section and its text.

    Attributes:
        name: Without the ``%``, in small letters.
        arguments: What follows the name on its line.
        line: Its line in the file, from 1.
        lines: The lines below it, with their numbers.
    """

    name: str
    arguments: str
    line: int
    lines: list[tuple[int, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The lines as they stand, without blank ones at either end."""
        return "\n".join(line for _, line in self.lines).strip("\n") + "\n"


@dataclass(slots=True)
class Stage:
    """One image of the build; the last is the result.

    Attributes:
        line: Where it begins.
        header: Keys in small letters and their values.
        sections: In the order of the file.
    """

    line: int
    header: dict[str, str] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What other stages call it; empty where it has no name."""
        return self.header.get("stage", "").lower()

    def all(self, name: str) -> list[Section]:
        """Its sections of one name."""
        return [section for section in self.sections if section.name == name]


@dataclass(frozen=True, slots=True)
class DefinitionFile:
    """A definition file, taken apart.

    Attributes:
        path: The file.
        stages: At least one.
    """

    path: Path
    stages: tuple[Stage, ...]

    @classmethod
    def read(cls, path: Path) -> DefinitionFile:
        """Read a file.

        Raises:
            ImageBuildError: It cannot be read, or has no header.
        """
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ImageBuildError(f"{path}: cannot be read: {error}") from error
        return cls(path, tuple(_stages(path, _filled_in(path, lines))))

    def at(self, line: int) -> str:
        """A place in the file, for a message."""
        return f"{self.path}:{line}"


def _stages(path: Path, lines: list[str]) -> Iterator[Stage]:
    stage: Stage | None = None
    for number, text in enumerate(lines, 1):
        begins = _section_of(text, number)
        if begins is None and _is_bootstrap(text):
            if stage is not None:
                yield stage
            stage = Stage(number)
        if stage is None:
            if text.strip() and not text.lstrip().startswith("#"):
                raise ImageBuildError(
                    f"{path}:{number}: expected a line such as 'Bootstrap: docker' first, got "
                    f"{text.strip()[:80]!r}"
                )
        elif begins is not None:
            stage.sections.append(begins)
        elif stage.sections:
            stage.sections[-1].lines.append((number, text))
        elif header := _HEADER.match(text):
            stage.header[header[1].lower()] = header[2].split(" #")[0].strip()
    if stage is None:
        raise ImageBuildError(f"{path}: empty; expected a definition such as 'Bootstrap: docker'")
    yield stage


def _is_bootstrap(text: str) -> bool:
    # At the line's start only: in a script, the word is some file's content.
    header = _HEADER.match(text)
    return header is not None and header[1].lower() == "bootstrap" and not text[:1].isspace()


def _section_of(text: str, number: int) -> Section | None:
    found = _SECTION.match(text)
    return Section(found[1].lower(), found[2].strip(), number) if found else None


def _filled_in(path: Path, lines: list[str]) -> list[str]:
    """The lines with ``{{ name }}`` replaced, in a file that has a section ``%arguments``."""
    values: dict[str, str] = {}
    name = ""
    for number, text in enumerate(lines, 1):
        section = _section_of(text, number)
        if section is not None or _is_bootstrap(text):
            name = section.name if section else ""
        elif name == "arguments" and "=" in text and not text.lstrip().startswith("#"):
            key, _, value = text.partition("=")
            values[key.strip()] = value.strip()
    if not values:
        return lines

    def value_of(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise ImageBuildError(f"{path}: {found[0]} has no default under %arguments")
        return values[found[1]]

    return [_ARGUMENT.sub(value_of, text) for text in lines]
