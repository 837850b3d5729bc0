"""No Python file inside a task is ever imported on this machine.

A task's Python is meant for its container: it may be hostile, and its imports live
elsewhere. pytest would import it in these ways, each of which is closed here:

- ``conftest.py`` of every path on the command line, and of each ``test*`` folder
  below one, before collection (:func:`conftest_anchors`);
- files and folders named on the command line (:func:`rewrite_args`);
- a link that leads into a task (:func:`task_behind_link`), and what agents left behind
  in a job's folder (:func:`is_job_folder`);
- an ini file inside a task, which pytest reads when it is the nearest to the paths of
  the command line (:func:`refuse_ini_file`). pytest obeys ``-p`` in its ``addopts``
  before any installed plugin exists, so that one can only be reported; ``-c`` on the
  command line keeps pytest from looking for ini files at all.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_harbor.task.layout import (
    CONFIG_FILE,
    find_task_folder,
    is_broken_task_folder,
    is_task_folder,
)

_INI_FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml")


def task_of(path: Path) -> Path | None:
    """Find the task that ``path`` is, lies in, or leads into by a link."""
    return find_task_folder(path) or find_task_folder(os.path.realpath(path))


def refuse_ini_file(config: pytest.Config) -> None:
    """Stop the run when pytest takes its configuration from inside a task.

    Raises:
        pytest.UsageError: It does, and the file was not named with ``-c``.
    """
    inipath = config.inipath
    if inipath is None or config.known_args_namespace.inifilename:
        return
    task = find_task_folder(inipath.parent)
    if task is None or not _configures_pytest(inipath):
        return
    raise pytest.UsageError(
        f"{inipath}: pytest would take its configuration from inside the task {task.name!r}. "
        "A task's files must not rule on this machine: a configuration can load plugins and "
        f"change where Python looks for modules.{_loaded_already(config)}\n"
        f"Run it with another configuration: pytest {_other_configuration(task)} ...\n"
        f"or, if this file is your project's own: pytest -c {inipath} ..."
    )


def _loaded_already(config: pytest.Config) -> str:
    if not any(option.startswith("-p") for option in config.getini("addopts")):
        return ""
    return " Its addopts have -p: pytest imported that plugin before any other could object."


def _configures_pytest(inipath: Path) -> bool:
    """Whether the file holds settings: pytest also reports a pyproject.toml without any."""
    if inipath.name != "pyproject.toml":
        return True
    import tomllib

    table = tomllib.loads(inipath.read_text("utf-8")).get("tool", {})
    return "pytest" in table


def _other_configuration(task: Path) -> str:
    candidates = (folder / name for folder in task.parents for name in _INI_FILES)
    above = next((path for path in candidates if path.is_file()), None)
    return f"-c {above}" if above else f"-c {os.devnull} --rootdir {task.parent}"


def conftest_anchors(config: pytest.Config) -> list[str] | None:
    """Give the paths where pytest may look for its first ``conftest.py`` files.

    None where pytest's own choice touches no task.
    """
    cwd = config.invocation_params.dir
    chosen = _paths_to_collect(config)
    safe = [_safe_anchors(Path(os.path.abspath(cwd / text.split("::")[0]))) for text in chosen]
    if all(anchors is None for anchors in safe):
        return None
    # Without any path pytest would look in the current folder: one is always given.
    anchors = [os.devnull]
    for text, instead in zip(chosen, safe, strict=True):
        anchors.extend([text] if instead is None else instead)
    return anchors


def _paths_to_collect(config: pytest.Config) -> list[str]:
    """The paths where pytest will look: as it decides once all arguments are known."""
    cwd = config.invocation_params.dir
    found = [str(path) for path in config.known_args_namespace.file_or_dir]
    if not found and cwd == config.rootpath and not config.known_args_namespace.pyargs:
        for pattern in config.getini("testpaths"):
            found.extend(sorted(glob.iglob(pattern, recursive=True)))
    # Modules of --pyargs are no paths: pytest then looks in the current folder.
    if not any((cwd / text.split("::")[0]).exists() for text in found):
        found.append(str(cwd))
    return found


def _safe_anchors(path: Path) -> list[str] | None:
    """What stands for ``path`` where it or a ``test*`` folder below it is a task.

    A ``conftest.py`` stands for its folder and those above, without their ``test*``.
    """
    task = task_of(path)
    if task is not None:
        return _nearest_conftest(task.parent)
    if not path.is_dir():
        return None
    below = [folder for folder in path.glob("test*") if folder.is_dir()]
    sound = [folder for folder in below if task_of(folder) is None]
    if len(sound) == len(below):
        return None
    own = (str(folder / "conftest.py") for folder in sound if (folder / "conftest.py").is_file())
    return [*_nearest_conftest(path), *own]


def _nearest_conftest(folder: Path) -> list[str]:
    candidates = (parent / "conftest.py" for parent in (folder, *folder.parents))
    return [str(path) for path in candidates if path.is_file()][:1]


def rewrite_args(config: pytest.Config) -> None:
    """Make every argument inside a task name the task, and ``folder::trial`` its trial."""
    cwd = config.invocation_params.dir
    config.args[:] = [_rewritten(arg, cwd, pyargs=config.option.pyargs) for arg in config.args]


def _rewritten(arg: str, cwd: Path, *, pyargs: bool) -> str:
    head, separator, trial = arg.partition("::")
    path = Path(os.path.abspath(cwd / head))
    is_module = pyargs and not path.exists()
    task = _task_of_module(head) if is_module else task_of(path)
    if task is None:
        return arg
    return f"{task / CONFIG_FILE}::{trial}" if separator else str(task)


def _task_of_module(name: str) -> Path | None:
    """The task in which a module lies; told from its name, for a look would import it."""
    relative = Path(*name.split("."))
    for entry in sys.path:
        path = Path(os.path.abspath(entry)) / relative
        if path.is_dir() or path.with_name(f"{path.name}.py").is_file():
            return task_of(path)
    return None


def task_behind_link(path: Path) -> Path | None:
    """Find the task into which a link leads that is met while collecting.

    A link to a whole task is no way into one: it is a task under its own path.
    """
    if not path.is_symlink() or is_task_node(path):
        return None
    return find_task_folder(os.path.realpath(path))


def is_job_folder(path: Path, output: Path) -> bool:
    """Whether ``path`` holds what earlier runs wrote, agents' Python files among it."""
    return path.parent == output and (path / "config.json").is_file()


def is_task_node(path: Path) -> bool:
    """Whether a folder met while collecting becomes a task, sound or broken."""
    return is_task_folder(path) or is_broken_task_folder(path)


def is_asked_for(config: pytest.Config, path: Path) -> bool:
    """Whether an argument of the command line covers ``path``.

    pytest looks at all of a folder's children on its way to one of them.
    """
    cwd = config.invocation_params.dir
    asked = {Path(os.path.abspath(cwd / arg.split("::")[0])) for arg in config.args}
    return config.option.pyargs or not asked.isdisjoint((path, *path.parents))


def named_trials(args: Iterable[str], config_file: Path) -> list[str]:
    """Give the trials of one task that the arguments name, after :func:`rewrite_args`."""
    start = f"{config_file}::"
    return [arg.removeprefix(start) for arg in args if arg.startswith(start)]
