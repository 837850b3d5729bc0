"""pytest's debugger at a trial: says that the environment is still there, and how to reach it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from pytest_harbor.plugin.trial_of_item import ITEM_TRIAL

if TYPE_CHECKING:
    from pytest_harbor.environment.base import Environment


def hint(node: pytest.Item | pytest.Collector) -> str:
    """What is said above the debugger's prompt; empty where no environment lives."""
    item_trial = node.stash.get(ITEM_TRIAL, None)
    names = ["harbor_environment", *(f"environments[{number}]" for number in range(1, 100))]
    made = item_trial.environments if item_trial else ()
    lines = [_line(name, one) for name, one in zip(names, made, strict=False)]
    if not any(lines):
        return ""
    return "\n".join([*filter(None, lines), "All is removed when you leave the debugger."])


def _line(name: str, environment: Environment) -> str:
    from pytest_harbor.errors import HarborError

    try:
        shell = environment.exec(["sh", "-c", "command -v bash || echo sh"], cwd="/").stdout
    except HarborError:
        return ""
    enter = ["docker", "exec", "-it", "--workdir", environment.workdir, environment.name]
    words = shlex.join([*enter, shell.strip().rpartition("/")[2] or "sh"])
    return f"{name} lives: {name}.exec('ls').stdout here, or in another terminal: {words}"
