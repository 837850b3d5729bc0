"""Packages that are installed without saying which version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.shell import Command, read_script
from pytest_harbor.check.subject import Subject

CHECKS = (
    Check(
        "unpinned-package",
        "another version comes some day, and rewards change without a change of the task",
        "write the version: name==1.2 (pip, uv), name@1.2 (npm)",
        "warning",
    ),
    Check(
        "unpinned-source",
        "the branch moves on, and the task with it",
        "check out a commit or a tag",
        "warning",
    ),
)

_PIP_VALUES = frozenset(
    {
        "-r",
        "--requirement",
        "-c",
        "--constraint",
        "-e",
        "--editable",
        "-i",
        "--index-url",
        "--extra-index-url",
        "-t",
        "--target",
        "-f",
        "--find-links",
        "--python",
        "-p",
        "--prefix",
        "--root",
        "--trusted-host",
        "--timeout",
        "--retries",
        "--cache-dir",
        "--proxy",
        "--platform",
        "--python-version",
        "--no-binary",
        "--only-binary",
        "--progress-bar",
    }
)
"""Options of pip that take a value."""
_PIP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[\w, .-]*\])?(?:\s*[<>!~].*)?")
_NPM_VERBS = frozenset({"add", "global", "i", "install"})
_NPM_VALUES = frozenset({"--prefix", "--registry"})
_NPM_NAME = re.compile(r"(?:@[\w.-]+/)?[a-z0-9][\w.-]*")
_COMMIT = re.compile(r"\b(checkout|reset|fetch|switch)\b")


def find(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """Unpinned packages of images, tests and solutions."""
    for path, command in shell_commands(subject):
        for package in unpinned(command):
            yield Found("unpinned-package", package, path, command.line)
    for dockerfile in subject.dockerfiles:
        for one in dockerfile.of("RUN"):
            yield from _cloned(one.value, dockerfile.path, one.line)


def shell_commands(subject: Subject) -> Iterator[tuple[Path, Command]]:
    """Every command of the Dockerfiles, the test scripts and the solutions, with its line."""
    for dockerfile in subject.dockerfiles:
        for one in dockerfile.of("RUN"):
            text = one.value if not one.value.lstrip().startswith("[") else " ".join(one.words)
            for command in read_script(text).commands():
                yield dockerfile.path, command._replace(line=command.line + one.line - 1)
            for command in read_script(one.heredoc).commands() if one.heredoc else ():
                yield dockerfile.path, command._replace(line=command.line + one.line)
    for path in (*subject.test_scripts, *subject.solution_scripts):
        for command in subject.script(path).commands():
            yield path, command


def unpinned(command: Command) -> Iterator[str]:
    """The packages of one command that have no version."""
    words = command.plain
    if pip := _pip_arguments(words):
        yield from _plain_arguments(pip, _PIP_VALUES, _PIP_NAME)
    elif command.name in ("uvx", "uv"):
        yield from filter(_PIP_NAME.fullmatch, _uv_packages(words))
    elif command.name in ("npm", "pnpm", "yarn") and _is_global(words):
        rest = [word for word in words[1:] if word not in _NPM_VERBS]
        yield from _plain_arguments(rest, _NPM_VALUES, _NPM_NAME)


def _is_global(words: tuple[str, ...]) -> bool:
    """Whether it installs by name for all; else it writes into a lock file, or reads one."""
    is_for_all = not {"-g", "--global", "global"}.isdisjoint(words)
    return is_for_all and not _NPM_VERBS.isdisjoint(words[1:4])


def _pip_arguments(words: tuple[str, ...]) -> list[str]:
    names = [word.rpartition("/")[2] for word in words]
    if len(names) > 2 and names[0].startswith("python") and names[1:3] == ["-m", "pip"]:
        names = names[2:]
    elif names[:2] == ["uv", "pip"]:
        names = names[1:]
    if len(names) < 2 or not re.fullmatch(r"pip[\d.]*", names[0]) or "install" not in names:
        return []
    start = len(words) - len(names) + names.index("install") + 1
    return list(words[start:])


def _plain_arguments(
    arguments: Iterable[str], with_value: frozenset[str], name: re.Pattern[str]
) -> Iterator[str]:
    skip = False
    for word in arguments:
        if skip or word.startswith("-"):
            skip = word in with_value and not skip
        elif name.fullmatch(word) and word not in (".", "pip", "setuptools", "wheel"):
            yield word


def _uv_packages(words: tuple[str, ...]) -> Iterator[str]:
    """What ``uvx`` and ``uv run`` take by ``--with``, and ``uv tool install`` by name."""
    for flag, value in pairwise(words):
        if flag in ("--with", "-w", "--from"):
            yield from value.split(",")
    for word in words:
        if word.startswith(("--with=", "--from=")):
            yield from word.partition("=")[2].split(",")
    if words[1:3] == ("tool", "install"):
        yield from (word for word in words[3:4] if not word.startswith("-"))


def _cloned(text: str, path: Path, line: int) -> Iterator[Found]:
    is_settled = bool(_COMMIT.search(text))
    for command in read_script(text).commands():
        words = command.plain
        at = command.line + line - 1
        is_named = any(word.startswith(("-b", "--branch", "--revision")) for word in words)
        if words[:2] == ("git", "clone") and not (is_settled or is_named):
            yield Found("unpinned-source", " ".join(words)[:100], path, at)
        for word in words:
            if word.startswith("git+") and "@" not in word.rpartition("/")[2]:
                yield Found("unpinned-source", word[:100], path, at)
