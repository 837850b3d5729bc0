"""``task.toml`` from disk: bytes → text → data, each with its own way to be wrong."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli

from pytest_harbor.errors import Problem, TaskFormatError
from pytest_harbor.task.head import read_head

MAX_BYTES = 8 * 1024 * 1024

# What TOML 1.1 added: line ends and a last comma in inline tables, two escapes, times
# without seconds. Seldom right, so that nearly no file is parsed twice.
_LIKE_TOML_1_1 = re.compile(r"\{[ \t]*(?:#.*)?\n|,\s*\}|\\[ex]|\d\d:\d\d(?!:)")


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Text and data of the file.

    Raises:
        TaskFormatError: It cannot be read or is not TOML; one problem, with its place.
    """
    text = _decoded(path, _bytes(path))
    try:
        return text, tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        message = f"not TOML: {error.msg}{_remedy(error)}"
        raise _fault(path, message, line=error.lineno, column=error.colno) from None
    except (ValueError, RecursionError) as error:
        raise _fault(path, f"not readable as TOML: {error}") from None


def check_toml_version(path: Path, text: str, report: Callable[[Problem], None]) -> None:
    """Report a file that newer parsers read and Harbor's, for TOML 1.0, refuses."""
    if not _LIKE_TOML_1_1.search(text):
        return
    try:
        # From Python 3.15 on it reads TOML 1.1 too, as Harbor will on that version.
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at line (\d+).*\)$", str(error))
        reason = str(error)[: place.start()] if place else str(error)
        message = f"not TOML 1.0, so Harbor refuses the task: {reason}"
        line = int(place[1]) if place else None
        report(Problem(path, message, line=line, severity="warning", code="invalid-toml"))


def _bytes(path: Path) -> bytes:
    try:
        data = read_head(path, MAX_BYTES + 1)
    except FileNotFoundError:
        raise _fault(path, "missing; a task's folder holds one") from None
    except OSError as error:
        raise _fault(path, f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise _fault(path, f"larger than {MAX_BYTES} bytes")
    return data


def _decoded(path: Path, data: bytes) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        message = "starts with a byte order mark, which TOML does not allow; save it without"
        raise _fault(path, message, line=1)
    if b"\x00" in data:
        line = data.count(b"\n", 0, data.index(b"\x00")) + 1
        raise _fault(path, "holds a NUL byte; save it as UTF-8 text", line=line)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        raise _fault(path, message, line=line) from None


def _remedy(error: tomli.TOMLDecodeError) -> str:
    if "Unescaped '\\'" in error.msg:
        return r"; write \\ or use a 'literal string'"
    if "Invalid value" in error.msg:
        return "; text stands in quotes, true and false are lower-case"
    return ""


def _fault(
    path: Path, message: str, *, line: int | None = None, column: int | None = None
) -> TaskFormatError:
    return TaskFormatError([Problem(path, message, line=line, column=column, code="invalid-toml")])
