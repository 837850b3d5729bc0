"""Values of options: what is accepted, and how it is said what is not.

Each function takes one value as it was written, on the command line or in the ini
file, and gives it back as a plain value or raises ``argparse.ArgumentTypeError``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_harbor.task.overrides import template_fault
from pytest_harbor.task.template import is_sensitive_name, missing_variables

KEEP_CHOICES = ("failed", "all")


def plain_name(text: str) -> str:
    """Check the name of an agent: it becomes an item's name."""
    if not text.strip() or "::" in text or "[" in text or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"expected a name such as 'oracle' or 'package.module:Class', got {text!r}"
        )
    return text.strip()


def model_name(text: str) -> str:
    """Check the name of a model: it becomes part of an item's name."""
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(f"expected a name such as 'openai/gpt-5', got {text!r}")
    return text.strip()


def non_empty(text: str) -> str:
    """Check that there is something to work with."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"expected some text, got {text!r}")
    return text


def image_template(text: str) -> str:
    """Check the name of an image, which may have the task's in it."""
    fault = None if text.strip() else "expected the name of an image"
    fault = fault or template_fault(text)
    if fault:
        raise argparse.ArgumentTypeError(f"{fault}, got {text!r}")
    return text.strip()


def assignment(text: str) -> str:
    """Check the form ``KEY=VALUE``."""
    key, equals, _value = text.partition("=")
    if not equals or not key.strip().isidentifier():
        raise argparse.ArgumentTypeError(
            f"expected KEY=VALUE with a Python name before the '=', got {text!r}"
        )
    return text


def keyword_arguments(pairs: Iterable[str]) -> dict[str, Any]:
    """Keyword arguments of assignments; a value is JSON, a Python constant, or text."""
    split = (pair.partition("=") for pair in pairs)
    return {key.strip(): _kwarg_value(text) for key, _equals, text in split}


def secret_keywords(arguments: Any, name: str = "") -> Iterator[str]:
    """The texts among keyword arguments, nested ones too, whose names are those of secrets."""
    if isinstance(arguments, Mapping):
        for key, value in arguments.items():
            yield from secret_keywords(value, str(key))
    elif isinstance(arguments, list):
        for value in arguments:
            yield from secret_keywords(value, name)
    elif isinstance(arguments, str) and names_secret(name):
        yield arguments


def names_secret(name: str) -> bool:
    """Whether a keyword holds a secret, and not the variable that one is in."""
    return is_sensitive_name(name) and not name.lower().endswith("_env")


def _kwarg_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def variable(text: str) -> str:
    """Check the form ``KEY=VALUE`` or ``KEY`` of an environment variable."""
    name = text.partition("=")[0]
    if not (name.isascii() and name.isidentifier()):
        # The value may be a secret: only the name is shown.
        raise argparse.ArgumentTypeError(
            "expected KEY=VALUE, or KEY to hand on a variable of this process, "
            f"got {name!r} as the name"
        )
    return text


def variable_at_hand(text: str) -> str:
    """Check like :func:`variable`, and that this process has the variable it names."""
    missing = missing_variables(env_table([variable(text)]), os.environ)
    if missing:
        raise argparse.ArgumentTypeError(missing_text(missing))
    return text


def whole_from_one(value: object) -> int:
    """Check for a whole number from 1."""
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {value!r}")
    return number


def finite(value: object) -> float:
    """Check for a finite number."""
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"expected a finite number, got {value!r}")
    return number


def above_zero(value: object) -> float:
    """Check for a finite number above 0."""
    try:
        number = finite(value)
    except argparse.ArgumentTypeError:
        number = 0.0
    if number <= 0:
        raise argparse.ArgumentTypeError(f"expected a finite number above 0, got {value!r}")
    return number


def keep_choice(text: str) -> str:
    """Check for one of :data:`KEEP_CHOICES`."""
    if text not in KEEP_CHOICES:
        raise argparse.ArgumentTypeError(
            f"expected 'failed' or 'all', got {text!r}; "
            "write the value behind an equals sign: --harbor-keep=failed"
        )
    return text


def tamper_choice(text: str) -> str:
    """Check for ``report`` or ``fail``."""
    if text not in ("report", "fail"):
        raise argparse.ArgumentTypeError(f"expected 'report' or 'fail', got {text!r}")
    return text


def gateway_choice(text: str) -> str:
    """Check for ``auto``, ``on`` or ``off``."""
    if text not in ("auto", "on", "off"):
        raise argparse.ArgumentTypeError(f"expected 'auto', 'on' or 'off', got {text!r}")
    return text


def env_table(specs: Iterable[str]) -> dict[str, str]:
    """Give names and values; a name alone becomes a template for its own variable."""
    split = (spec.partition("=") for spec in specs)
    return {key: value if equals else f"${{{key}}}" for key, equals, value in split}


def missing_text(names: Sequence[str]) -> str:
    """Say which variables are missing and what to do."""
    listed = ", ".join(names)
    return f"not set in this process's environment: {listed}; export it, or write KEY=VALUE"


_INI_TYPES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "args": "values as a shell would part them",
}


def unreadable_ini(place: str, name: str, kind: str, error: Exception) -> str:
    """Say what pytest could not read of an ini value.

    Args:
        place: Where it stands; empty, or ends in a colon or space.
        name: The ini value's name.
        kind: pytest's type of it.
        error: What pytest raised; of a TOML file's value it names file and key itself.
    """
    words = str(error)
    if name in words:
        return words
    value = re.search(r"'.*'$", words)
    found = f"got {value[0]}" if value else words
    return f"{place}{name}: expected {_INI_TYPES.get(kind, 'text')}, {found}"
