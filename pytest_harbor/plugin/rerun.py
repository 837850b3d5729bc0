"""The command that runs one item again: as it stands, in the folder where the run was started."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.plugin.command_line import path_from_here, pytest_words
from pytest_harbor.plugin.option_values import names_secret
from pytest_harbor.task.layout import CONFIG_FILE
from pytest_harbor.task.template import ONLY_A_NAME

_CONFIG_FILES = (
    "pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini",
    "setup.cfg",
)  # fmt: skip

_ENV = "harbor_agent_env"
_KEYWORDS = ("harbor_agent_kwarg", "harbor_verifier_kwarg")
_SECRET_FLAGS = (
    "--harbor-agent-env", "--harbor-agent-kwarg", "--harbor-verifier-kwarg",
    "--harbor-best-of-kwarg",
)  # fmt: skip
_RESUME = "--harbor-resume"
_SHORT = re.compile(r"-([vqsxlhV]*)o(harbor_\w+)?")  # -o, behind others that take no value
_INNER_NAME = re.compile(r"""["'](\w[\w.-]*)["']\s*:""")

# Which items a run has, what is shown and written of them all: not what this one does. A job
# that is gone on with would report it once more.
_OF_THE_WHOLE_RUN = frozenset({
    "harbor_tasks", "harbor_exclude_tasks", "harbor_changed_since", "harbor_resume",
    "harbor_html", "harbor_csv", "harbor_jsonl", "harbor_json", "harbor_baseline",
    "harbor_annotations", "harbor_locked", "harbor_summary", "harbor_progress", "harbor_metric",
    "harbor_best_of", "harbor_best_of_kwarg",
})  # fmt: skip


def again(item: pytest.Item) -> str:
    """The command, without secrets: variables of the shell stand for them."""
    config = item.config
    words = [*pytest_words(config), _id_from_here(item), *_place(item)]
    return " ".join([shlex.join(words), *_options(config.option)])


def go_on(config: pytest.Config, job: Path) -> str:
    """The command that goes on with the run's job, without secrets as :func:`again`."""
    resume = f"{_RESUME}={path_from_here(config, job)}"
    words = shlex.join([*pytest_words(config), resume])
    return " ".join([words, *_as_given([str(arg) for arg in config.invocation_params.args])])


def _as_given(words: list[str]) -> Iterator[str]:
    """The command line for a shell; without the job that it went on with, if any."""
    left = [*words]
    while left:
        flag, equals, value = left.pop(0).partition("=")
        if short := _SHORT.fullmatch(flag):
            if short[1]:
                yield f"-{short[1]}"
            flag = "-o"
            if short[2]:
                equals, value = "=", f"{short[2]}={value}"
        if flag not in (_RESUME, "-o", "--override-ini", *_SECRET_FLAGS):
            yield shlex.quote(f"{flag}{equals}{value}")
            continue
        if not equals and left and not (flag == _RESUME and left[0].startswith("-")):
            value = left.pop(0)
        if flag in _SECRET_FLAGS:
            yield from _option(flag, value)
        elif flag != _RESUME:
            yield from _ini_value(*value.partition("=")[::2])


def _ini_value(name: str, value: str) -> Iterator[str]:
    """``--override-ini`` without secrets."""
    option = name.strip()
    if option == _ENV:
        value = " ".join(map(_env_assignment, shlex.split(value)))
    if option.endswith("_kwarg") and any(map(_is_secret, shlex.split(value))):
        yield from _option("--" + option.replace("_", "-"), shlex.split(value))
    else:
        yield shlex.quote(f"--override-ini={name}={value}")


def unset_variables(item: pytest.Item) -> list[str]:
    """Variables that the command takes values from and this process's environment lacks."""
    given = item.config.option
    overridden = _overridden(given)
    names = [_env_name(one) for one in _words(given, overridden, _ENV)]
    for option in _KEYWORDS:
        words = _words(given, overridden, option)
        names += [_variable(option, one) for one in words if _is_secret(one)]
    return [name for name in dict.fromkeys(names) if name not in os.environ]


def _id_from_here(item: pytest.Item) -> str:
    """The item's id for a command line; one of a dataset is no path."""
    path, separator, name = str(item.nodeid).partition("::")
    place = item.config.rootpath / path
    found = path_from_here(item.config, place) if place.exists() else path
    return f"{found}{separator}{name}"


def _place(item: pytest.Item) -> Iterator[str]:
    """What makes pytest find the same configuration, root folder and plugins for one item."""
    config, given = item.config, item.config.option
    if given.inifilename:
        yield f"--config-file={given.inifilename}"
    elif _is_misled(item):
        root = path_from_here(config, config.rootpath)
        found = path_from_here(config, config.inipath) if config.inipath else os.devnull
        yield f"--config-file={found}"
        yield from [] if config.inipath else [f"--confcutdir={root}"]
        yield from [] if config.inipath or given.rootdir else [f"--rootdir={root}"]
    if given.rootdir:
        yield f"--rootdir={given.rootdir}"
    yield from _cut(config.invocation_params.args)
    for plugin in given.plugins or ():
        if isinstance(plugin, str) and not plugin.startswith("no:"):
            yield f"-p{plugin}"


def _cut(args: Sequence[Any]) -> Iterator[str]:
    """The option as it was given: pytest puts a default of its own in its place."""
    words = [str(arg) for arg in args]
    for number, word in enumerate(words):
        if word.startswith("--confcutdir="):
            yield word
        elif word == "--confcutdir" and words[number + 1 :]:
            yield f"{word}={words[number + 1]}"


def _is_misled(item: pytest.Item) -> bool:
    """Whether a file in the task, or between it and the run's own, would configure pytest."""
    if item.path.name != CONFIG_FILE:
        return False
    end = item.config.inipath.parent if item.config.inipath else item.config.rootpath
    for folder in item.path.parents:
        if folder == end:
            return False
        if any((folder / name).is_file() for name in _CONFIG_FILES):
            return True
    return False


def _options(given: argparse.Namespace) -> Iterator[str]:
    """The options that shape a trial, as they were given; pytest keeps those not given as None."""
    for name, value in _overridden(given).items():
        yield from _ini_value(name, value)
    for name, value in vars(given).items():
        if name.startswith("harbor_") and value is not None and name not in _OF_THE_WHOLE_RUN:
            yield from _option("--" + name.replace("_", "-"), value)


def _overridden(given: argparse.Namespace) -> dict[str, str]:
    """What ``--override-ini`` says of a trial: the last of a name, as pytest takes it."""
    pairs = [one.partition("=")[::2] for one in given.override_ini or ()]
    return {
        name: value
        for name, value in pairs
        if re.fullmatch(r"harbor_\w+", name)
        and name not in _OF_THE_WHOLE_RUN
        # An option replaces these; others may add to them, as those of the network do.
        and not (name in (_ENV, *_KEYWORDS) and getattr(given, name) is not None)
    }


def _words(given: argparse.Namespace, overridden: Mapping[str, str], name: str) -> list[str]:
    """The values of an option that may be given many times: its own, or of ``--override-ini``."""
    return getattr(given, name) or shlex.split(overridden.get(name, ""))


def _option(flag: str, value: Any) -> Iterator[str]:
    if value is True:
        yield flag
        return
    for one in value if isinstance(value, list) else [value]:
        text = str(one)
        if flag == "--harbor-agent-env":
            text = _env_assignment(text)
        if flag.endswith("-kwarg") and _is_secret(text):
            variable = _variable(flag.removeprefix("--").replace("-", "_"), text)
            yield f'{flag}={text.partition("=")[0]}="${variable}"'
        else:
            yield shlex.quote(f"{flag}={text}")


def _env_assignment(text: str) -> str:
    """The variable's name is enough: its value is taken from the environment."""
    name, _, value = text.partition("=")
    return text if ONLY_A_NAME.fullmatch(value) else name


def _env_name(text: str) -> str:
    """The variable of this machine that an option takes its value from."""
    name, _, value = text.partition("=")
    found = ONLY_A_NAME.fullmatch(value)
    return found[1] if found else name


def _is_secret(assignment: str) -> bool:
    """Whether a keyword, or one inside of its value, holds a secret, and not where one is."""
    name, _, value = assignment.partition("=")
    return any(map(names_secret, (name, *_INNER_NAME.findall(value))))


def _variable(option: str, assignment: str) -> str:
    """What a shell's variable with a keyword's value is called."""
    name = re.sub(r"\W", "_", assignment.partition("=")[0].strip()).upper()
    return f"VERIFIER_{name}" if option == "harbor_verifier_kwarg" else name
