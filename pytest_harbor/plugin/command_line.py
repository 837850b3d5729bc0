"""Commands that people are shown: they work as they stand, in the folder of the run."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


def harbor_words() -> list[str]:
    """``python -m pytest_harbor`` with the Python of this run."""
    return [_program("python") or sys.executable, "-m", "pytest_harbor"]


def pytest_words(config: pytest.Config) -> list[str]:
    """How pytest was started: by its own program, or as a module, which adds to Python's path."""
    argv = getattr(config, "workerinput", {}).get("mainargv") or sys.argv
    started = Path(argv[0]).name if argv else ""
    if started in ("pytest", "py.test") and (program := _program("pytest")):
        return [program]
    return [_program("python") or sys.executable, "-m", "pytest"]


def path_from_here(config: pytest.Config, path: Path) -> str:
    """A path for a command line in the folder where the run was started."""
    try:
        return os.path.relpath(path, config.invocation_params.dir)
    except ValueError:  # another drive
        return str(path)


def _program(name: str) -> str | None:
    """The bare name, if a shell would find this run's own program under it."""
    found = shutil.which(name)
    own = os.path.dirname(sys.executable)
    return name if found and os.path.dirname(os.path.abspath(found)) == own else None
