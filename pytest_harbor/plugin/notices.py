"""Warnings of this plugin: shown once each, by one process of a run."""

from __future__ import annotations

import re
import warnings
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

_UNPRINTABLE = r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"


class HarborWarning(pytest.PytestWarning):
    """Something about Harbor tasks that does not keep them from running."""

    __module__ = "pytest_harbor.plugin"


def is_printable(text: str) -> bool:
    """Whether :func:`printable` leaves ``text`` alone."""
    # Most text passes the first look, which costs next to nothing.
    return text.isprintable() or re.search(_UNPRINTABLE, text) is None


def printable(text: str) -> str:
    r"""Write what a terminal or an XML file cannot take as ``\x07`` or ``\ufffe``.

    A folder's name may hold any byte; in an id or a property it would make the JUnit
    file of the whole run unreadable.
    """
    return text if text.isprintable() else re.sub(_UNPRINTABLE, _escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_GIVEN = pytest.StashKey[dict[tuple[Path, str], bool]]()


def warn(config: pytest.Config, message: str, path: Path, line: int | None = None) -> bool:
    """Warn about a file or folder.

    Every process of a run asks, for all must agree on what an error is; only one of
    them has its warnings shown.

    Returns:
        Whether the user's filters make this warning an error; nothing is raised, for an
        error in one task must leave the others alone.
    """
    given = config.stash.setdefault(_GIVEN, {})
    if (path, message) not in given:
        given[path, message] = _raises(config, message, path, line or 1)
    return given[path, message]


def show(config: pytest.Config, message: str, path: Path) -> None:
    """Warn like :func:`warn`, whatever the user's filters say."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        _raises(config, message, path, 1)


def _raises(config: pytest.Config, message: str, path: Path, line: int) -> bool:
    warning = HarborWarning(printable(message))
    try:
        with _shown_once(config):
            warnings.warn_explicit(warning, None, filename=printable(str(path)), lineno=line)
    except HarborWarning:
        return True
    return False


def _shown_once(config: pytest.Config) -> AbstractContextManager[object]:
    worker = getattr(config, "workerinput", {"workerid": "gw0"})["workerid"]
    return nullcontext() if worker == "gw0" else warnings.catch_warnings(record=True)
