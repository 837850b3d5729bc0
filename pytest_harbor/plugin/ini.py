"""Where a value of the ini file stands, and which folder its paths count from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def ini_place(config: pytest.Config) -> str:
    """The ini file, to begin a message with; empty where there is none."""
    return f"{config.inipath}: " if config.inipath else ""


def absolute_path(config: pytest.Config, name: str, text: str) -> Path:
    """An option's path: from the current folder, or the ini file's where it comes from there.

    Args:
        config: Of the run.
        name: Attribute of the option, as ``harbor_output``.
        text: The path as it was given.
    """
    from_ini = config.getoption(name, None) is None and config.inipath
    base = from_ini.parent if from_ini else config.invocation_params.dir
    return Path(os.path.abspath(base / Path(text).expanduser()))
