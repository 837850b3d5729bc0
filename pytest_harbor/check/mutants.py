"""Solutions with a part cut out: tests that still pass do not need that part."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Node

from pytest_harbor.check.shell import command_of, last_line_of, line_of, read_script, walk
from pytest_harbor.task.model import Task

MAX_CUTS = 3
"""Cuts of one script; of a multi-step task the last part of each step's own is cut."""

_IDLE = frozenset(
    {
        ".",
        ":",
        "[",
        "apk",
        "apt",
        "apt-get",
        "cat",
        "cd",
        "command",
        "dpkg",
        "echo",
        "env",
        "exit",
        "export",
        "hash",
        "head",
        "id",
        "ls",
        "mkdir",
        "npm",
        "pip",
        "pip3",
        "printf",
        "pwd",
        "read",
        "set",
        "sleep",
        "source",
        "test",
        "tail",
        "trap",
        "true",
        "type",
        "uname",
        "uv",
        "which",
    }
)
"""Programs that prepare or show: tests need not notice that one is missing."""
_MIN_HEREDOC_LINES = 4


@dataclass(frozen=True, slots=True)
class Mutant:
    """A solution's script with lines missing.

    Attributes:
        script: The script.
        first: First line that is cut, from 1.
        last: Last line that is cut.
        text: What is run in its place.
    """

    script: Path
    first: int
    last: int
    text: str

    @property
    def lines(self) -> str:
        """The cut as it is told."""
        return (
            f"line {self.first}" if self.first == self.last else f"lines {self.first}-{self.last}"
        )


def mutants(task: Task) -> tuple[Mutant, ...]:
    """The mutants of a task's solution, the same in every run."""
    scripts = [step.solution_script for step in task.steps] or [task.solution_script]
    found: list[Mutant] = []
    for script in dict.fromkeys(scripts):
        if script is not None and script.suffix == ".sh":
            cuts = list(_of_script(script))
            found += cuts[-1:] if task.is_multi_step else cuts
    return tuple(found)


def _of_script(script: Path) -> Iterator[Mutant]:
    try:
        text = script.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return
    seen = {_digest(text)}
    for first, last in cuts(text):
        lines = text.splitlines(keepends=True)
        mutated = "".join([*lines[: first - 1], ":\n", *lines[last:]])
        if _digest(mutated) not in seen:
            seen.add(_digest(mutated))
            yield Mutant(script, first, last, mutated)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def cuts(text: str) -> list[tuple[int, int]]:
    """First and last lines of the parts to cut: runs of statements that do something."""
    doing = [node for node in read_script(text).statements() if not _is_idle(node)]
    if len(doing) > 1:
        return [(line_of(part[0]), last_line_of(part[-1])) for part in _parts(doing)]
    return [_later_half(node) for node in _heredocs(doing)][:1]


def _parts(nodes: list[Node]) -> Iterator[list[Node]]:
    count = min(MAX_CUTS, len(nodes))
    for index in range(count):
        yield nodes[index * len(nodes) // count : (index + 1) * len(nodes) // count]


def _is_idle(node: Node) -> bool:
    if node.type in ("variable_assignment", "function_definition", "declaration_command"):
        return True
    writes = any(one.type in ("file_redirect", "heredoc_redirect") for one in walk(node))
    commands = [command_of(one) for one in walk(node) if one.type == "command"]
    return not writes and all(one.name in _IDLE for one in commands)


def _heredocs(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        for one in walk(node):
            if (
                one.type == "heredoc_body"
                and last_line_of(one) - line_of(one) >= _MIN_HEREDOC_LINES
            ):
                yield one


def _later_half(body: Node) -> tuple[int, int]:
    first, last = line_of(body), last_line_of(body)
    return (first + last) // 2 + 1, last
