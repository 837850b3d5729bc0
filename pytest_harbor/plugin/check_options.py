"""``--harbor-check`` and the house's rules in the ini file.

The rules are values of the ini file alone: they belong to a project, not to a run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest

from pytest_harbor.plugin.ini import ini_place

if TYPE_CHECKING:
    from pytest_harbor.check.rules import HouseRules

MODES = ("static", "on", "full")

FLAGS = {
    "--harbor-check": "on",
    "--harbor-check=on": "on",
    "--harbor-check=full": "full",
    "--harbor-check=static": "static",
}
"""Whole flags, not one with a value: in ``--harbor-check tasks/`` the folder is no mode."""

HELP = (
    "Prove that tasks are sound: static checks, the oracle must pass, nop must not; full: a "
    "planted reward must not count, cut solutions must fail, grading must be quick; static: no "
    "trials (ini: harbor_check = on|full|static)"
)


class Rule(NamedTuple):
    """A value of the ini file.

    Attributes:
        name: Its name, without ``harbor_check_``.
        kind: pytest's type.
        help: What it asks of tasks.
    """

    name: str
    kind: Literal["string", "bool", "args", "int", "float"]
    help: str


RULES = (
    Rule("ignore", "args", "Codes of checks that are switched off"),
    Rule("enforce", "args", "Codes of checks that no task may switch off by harbor_ignore"),
    Rule("severity", "args", "CODE=error or CODE=warning, in place of the usual"),
    Rule("canary", "string", "Text that each text file of a task must hold"),
    Rule("metadata", "args", "Keys that [metadata] must have; key=a|b allows only these values"),
    Rule("base_images", "args", "Globs of the images that may be built from"),
    Rule("network", "args", "Allowed values of network_mode"),
    Rule("gpu_types", "args", "Allowed entries of gpu_types"),
    Rule("instruction_end", "string", "How instructions end; {timeout}: the agent's limit"),
    Rule("name_words", "int", "Most words, parted by hyphens, of a task folder's name"),
    Rule("separate", "bool", "Verifiers must have an environment of their own"),
    Rule("digests", "bool", "Images must be pinned by digest"),
    Rule("agent_timeout", "string", "Range of the agent's limit in seconds (default: 10-86400)"),
    Rule("verifier_timeout", "string", "Range of the verifier's limit (default: 5-43200)"),
    Rule("file_mb", "float", "Size in MB above which a file is too large (default: 50)"),
    Rule("task_mb", "float", "The same of a task's folder (default: 100)"),
    Rule("similarity", "float", "Share of common text at which instructions are too alike (0.8)"),
)


def add_options(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Declare the flags, their ini twin and the rules."""
    for flag, mode in FLAGS.items():
        text = HELP if flag == "--harbor-check" else argparse.SUPPRESS
        group.addoption(
            flag, dest="harbor_check", action="store_const", const=mode, default=None, help=text
        )
    parser.addini("harbor_check", HELP, type="string", default=None)
    for rule in RULES:
        parser.addini(f"harbor_check_{rule.name}", rule.help, type=rule.kind, default=None)


def check_mode(config: pytest.Config) -> Literal["static", "on", "full"] | None:
    """What was asked for; None: no check.

    Raises:
        pytest.UsageError: The ini file has another value.
    """
    mode = config.getoption("harbor_check", None) or config.getini("harbor_check") or None
    if mode is not None and mode not in MODES:
        raise pytest.UsageError(f"harbor_check: expected on, full or static, got {mode!r}")
    given = [
        f"--{name.replace('_', '-')}" for name in _OTHER_AGENTS if config.getoption(name, None)
    ]
    if mode and given:
        raise pytest.UsageError(f"--harbor-check chooses its agents itself: leave out {given[0]}")
    return mode


_OTHER_AGENTS = ("harbor_agent", "harbor_agent_command", "harbor_model")
_HOUSE = pytest.StashKey["HouseRules"]()


def house_rules(config: pytest.Config) -> HouseRules:
    """The rules of the ini file, checked.

    Raises:
        pytest.UsageError: A value is not accepted.
    """
    if _HOUSE not in config.stash:
        config.stash[_HOUSE] = _house_rules(config)
    return config.stash[_HOUSE]


def _house_rules(config: pytest.Config) -> HouseRules:
    # On demand: only a check needs the table of checks.
    from pytest_harbor.check.registry import CHECKS
    from pytest_harbor.check.rules import (
        HouseRules,
        parse_codes,
        parse_metadata,
        parse_range,
        parse_severities,
    )

    parsers: dict[str, Callable[[Any], Any]] = {
        "ignore": lambda codes: parse_codes(codes, CHECKS),
        "enforce": lambda codes: parse_codes(codes, CHECKS),
        "severity": lambda pairs: parse_severities(pairs, CHECKS),
        "metadata": parse_metadata,
        "agent_timeout": parse_range,
        "verifier_timeout": parse_range,
        **dict.fromkeys(("base_images", "network", "gpu_types"), tuple),
    }
    given: dict[str, Any] = {}
    for rule in RULES:
        name = f"harbor_check_{rule.name}"
        try:
            value = config.getini(name)
            if value is not None:
                given[rule.name] = parsers.get(rule.name, lambda one: one)(value)
        except (TypeError, ValueError) as error:
            raise pytest.UsageError(f"{ini_place(config)}{name}: {error}") from None
    return HouseRules(**given)
