"""GitHub reads commands from a step's output: none but ours are obeyed while pytest prints.

A task's output, a file's name, an agent's words: whatever is shown of them may hold a line
``::add-mask::…`` or ``##[error]…``. GitHub's runner obeys none after ``::stop-commands::TOKEN``
until the token is written. It is drawn anew before failures are shown: all that is in them was
written before that token was.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from typing import TextIO

import pytest

from pytest_harbor.plugin.ci_options import annotation_choice, annotations_for

_NAME = "harbor-workflow-log"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Around all of a run; an error that ends it is shown with commands still stopped."""
    choice = annotation_choice(config)
    if annotations_for(choice) != "github" or hasattr(config, "workerinput"):
        return (yield)
    log = WorkflowLog(sys.stdout)
    config.pluginmanager.register(log, _NAME)
    result = yield
    log.close()
    return result


def annotate(config: pytest.Config, commands: Iterable[str]) -> None:
    """Have commands written at the end of the run."""
    log: WorkflowLog | None = config.pluginmanager.getplugin(_NAME)
    if log is not None:
        log.commands += commands


class WorkflowLog:
    """Keeps commands stopped from its making until it is closed.

    Attributes:
        commands: What is to be written then, a line each.
    """

    def __init__(self, file: TextIO) -> None:
        self.commands: list[str] = []
        self._file = file
        self._token = ""
        self._stop()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self) -> Generator[None]:
        """Draw another token before failures are shown."""
        self._write("", *self._resume())
        self._stop()
        return (yield)

    def close(self) -> None:
        """Write the commands; GitHub obeys from here on."""
        self._write("", *self._resume(), *self.commands)

    def _stop(self) -> None:
        import secrets  # on demand: a plain run pays for no import that it does not use

        self._token = secrets.token_hex(16)
        self._write(f"::stop-commands::{self._token}")

    def _resume(self) -> list[str]:
        return [f"::{self._token}::"]

    def _write(self, *lines: str) -> None:
        encoding = self._file.encoding or "utf-8"
        text = "".join(f"{line}\n" for line in lines)
        self._file.write(text.encode(encoding, "replace").decode(encoding))
        self._file.flush()
