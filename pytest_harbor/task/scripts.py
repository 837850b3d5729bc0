"""What is wrong with a task's shell scripts before they ever run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_harbor.errors import Problem
from pytest_harbor.task.head import read_head

MAX_BYTES = 256 * 1024
"""How much of a script is looked at."""


def check_script(path: Path, report: Callable[[Problem], None], *, is_run: bool = True) -> None:
    """Report line ends of Windows, an empty script, and a missing first line ``#!``.

    Args:
        path: An existing script for a Unix shell.
        report: Takes each problem.
        is_run: It is run by its path, so that its first line counts.
    """

    def warn(code: str, message: str, line: int | None = None) -> None:
        report(Problem(path, message, line=line, severity="warning", code=code))

    try:
        head = read_head(path, MAX_BYTES)
    except OSError as error:
        report(Problem(path, f"cannot be read: {error.strerror}", code="unreadable-file"))
        return
    if not head.strip():
        warn("empty-file", "empty script")
        return
    carriage_return = head.find(b"\r\n")
    if carriage_return >= 0:
        line = head.count(b"\n", 0, carriage_return) + 1
        warn(
            "script-crlf",
            "Windows line ends (CRLF), which a Unix shell takes for part of a word; write LF"
            " (`sed -i 's/\\r$//'`, and `*.sh text eol=lf` in .gitattributes)",
            line,
        )
    if is_run and not head.startswith(b"#!"):
        warn("script-shebang", "the first line does not begin with #!; write #!/bin/bash", 1)
