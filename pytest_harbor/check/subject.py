"""A task as the checks look at it: its files read once, bounded, and never run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_harbor.check.dockerfile import Dockerfile, read_dockerfile
from pytest_harbor.check.shell import ShellScript, read_script
from pytest_harbor.task import layout
from pytest_harbor.task.finding import Location
from pytest_harbor.task.model import Task
from pytest_harbor.task.position import TomlPositions
from pytest_harbor.task.toml_file import read_toml

MAX_TEXT_BYTES = 512 * 1024
"""Files above it are not looked into: they are data."""

MAX_FILES = 20_000
"""How many files of one task are listed."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A regular file of the task.

    Attributes:
        path: Absolute.
        relative: From the task's folder, with forward slashes.
        size: In bytes.
    """

    path: Path
    relative: str
    size: int

    @property
    def top(self) -> str:
        """The first part of its path, as ``tests``."""
        return self.relative.partition("/")[0]

    @property
    def name(self) -> str:
        """Its name without folders."""
        return self.relative.rpartition("/")[2]


class Subject:
    """A task under check.

    Attributes:
        task: The task as read.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._texts: dict[Path, str | None] = {}
        self._scripts: dict[Path, ShellScript] = {}

    @cached_property
    def data(self) -> dict[str, Any]:
        """``task.toml`` as its author wrote it."""
        return read_toml(self.task.config_file)[1]

    @cached_property
    def _positions(self) -> TomlPositions:
        return TomlPositions(read_toml(self.task.config_file)[0])

    def line_of(self, *location: str | int) -> int | None:
        """Line of a field in ``task.toml``, or of the nearest table above it."""
        place: Location = location
        return self._positions.line(place)

    @cached_property
    def files(self) -> tuple[FileEntry, ...]:
        """Every regular file below the task, links not followed, in a fixed order."""
        found = []
        for folder, folders, names in os.walk(self.task.path):
            folders[:] = sorted(name for name in folders if name != ".git")
            for name in sorted(names):
                path = os.path.join(folder, name)
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                relative = os.path.relpath(path, self.task.path).replace(os.sep, "/")
                found.append(FileEntry(Path(path), relative, os.path.getsize(path)))
                if len(found) >= MAX_FILES:
                    return tuple(found)
        return tuple(found)

    def below(self, *tops: str) -> Iterator[FileEntry]:
        """The files below folders of the task; a step's own count for the task's."""
        for entry in self.files:
            parts = entry.relative.split("/")
            is_step = parts[0] == layout.STEPS_FOLDER and len(parts) > 3
            if (parts[2] if is_step else parts[0]) in tops and len(parts) > 1:
                yield entry

    @property
    def environment_files(self) -> Iterator[FileEntry]:
        """What the agent's image may be built from."""
        return self.below(layout.ENVIRONMENT_FOLDER)

    @property
    def test_files(self) -> Iterator[FileEntry]:
        """What the verifier brings."""
        return self.below(layout.TESTS_FOLDER)

    @property
    def solution_files(self) -> Iterator[FileEntry]:
        """What the oracle brings."""
        return self.below(layout.SOLUTION_FOLDER)

    def text(self, path: Path) -> str | None:
        """The file's text; None for what is too large or no text."""
        if path not in self._texts:
            self._texts[path] = _read_text(path)
        return self._texts[path]

    def texts(self, entries: Iterator[FileEntry]) -> Iterator[tuple[FileEntry, str]]:
        """The files that are texts, with their texts."""
        for entry in entries:
            text = self.text(entry.path)
            if text is not None:
                yield entry, text

    def script(self, path: Path) -> ShellScript:
        """A shell script as syntax; an empty one where it cannot be read."""
        if path not in self._scripts:
            self._scripts[path] = read_script(self.text(path) or "")
        return self._scripts[path]

    @cached_property
    def test_scripts(self) -> tuple[Path, ...]:
        """Every test script that is run, each once."""
        scripts = [self.task.test_script, *(step.test_script for step in self.task.steps)]
        return tuple(path for path in dict.fromkeys(scripts) if path and path.suffix == ".sh")

    @cached_property
    def solution_scripts(self) -> tuple[Path, ...]:
        """Every script that the oracle runs, each once."""
        scripts = [self.task.solution_script, *(one.solution_script for one in self.task.steps)]
        return tuple(path for path in dict.fromkeys(scripts) if path and path.suffix == ".sh")

    @cached_property
    def instructions(self) -> tuple[tuple[Path, str], ...]:
        """The instruction's file and its raw text, of each step where there are steps."""
        folders = [step.folder for step in self.task.steps] or [self.task.path]
        paths = [folder / layout.INSTRUCTION_FILE for folder in folders]
        return tuple((path, self.text(path) or "") for path in paths)

    @cached_property
    def dockerfiles(self) -> tuple[Dockerfile, ...]:
        """The Dockerfiles that are built: the environment's first, then the verifiers'."""
        folders = [self.task.environment_dir, self.task.tests_dir]
        folders += [step.tests_dir for step in self.task.steps]
        paths = [folder / layout.DOCKERFILE for folder in folders]
        return tuple(
            read_dockerfile(path, self.text(path) or "") for path in paths if path.is_file()
        )

    @property
    def environment_dockerfile(self) -> Dockerfile | None:
        """``environment/Dockerfile``; None where there is none."""
        mine = self.task.environment_dir / layout.DOCKERFILE
        return next((one for one in self.dockerfiles if one.path == mine), None)

    @cached_property
    def compose_files(self) -> tuple[Path, ...]:
        """Every compose file that is used."""
        folders = [self.task.environment_dir, self.task.tests_dir]
        found = [layout.find_compose_file(folder) for folder in folders]
        return tuple(path for path in found if path is not None)


def _read_text(path: Path) -> str | None:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except OSError:
        return None
    if len(data) > MAX_TEXT_BYTES or b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
