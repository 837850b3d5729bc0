"""Which file lies where, in a task's folder and in its container.

Imported for every path that pytest collects, with or without tasks: standard library
only, and few looks at the disk.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

LOGS_DIR = "/logs"
AGENT_LOGS = "/logs/agent"
VERIFIER_LOGS = "/logs/verifier"
ARTIFACTS_LOGS = "/logs/artifacts"
TESTS_DIR = "/tests"
SOLUTION_DIR = "/solution"

CONFIG_FILE = "task.toml"
INSTRUCTION_FILE = "instruction.md"
TRAJECTORY_FILE = "trajectory.json"
"""In a task's folder: where its agent goes on from. Among an agent's logs: what it did."""
ENVIRONMENT_FOLDER = "environment"
TESTS_FOLDER = "tests"
SOLUTION_FOLDER = "solution"
STEPS_FOLDER = "steps"
WORKDIR_FOLDER = "workdir"
SETUP_SCRIPT = "setup.sh"
IGNORE_FILE = ".harborignore"
DOCKERFILE = "Dockerfile"
APPTAINER_FILE = "Apptainer.def"
COMPOSE_FILE = "docker-compose.yaml"
OTHER_COMPOSE_FILES = ("docker-compose.yml", "compose.yaml", "compose.yml")
"""Names that compose knows and Harbor does not read."""
TEST_SCRIPTS = {"linux": "test.sh", "windows": "test.bat"}
SOLUTION_SCRIPTS = {"linux": "solve.sh", "windows": "solve.bat"}


_MAX_LISTED = 1_000
"""Of a larger folder each file is asked for by itself."""


def existing_file(*parts: str | os.PathLike[str]) -> Path | None:
    """The file that the parts of its path name, if it is there."""
    # Strings first: most are asked for and missing, and building a Path costs more.
    path = os.path.join(*parts)
    return Path(path) if os.path.isfile(path) else None


class Listing:
    """A folder of which several files may be asked for: most of them are not there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._names = _names_in(folder)

    def file(self, name: str) -> Path | None:
        """The file of this name, if it is there."""
        if self._names is not None and name.lower() not in self._names:
            return None
        return existing_file(self._folder, name)


def _names_in(folder: str) -> frozenset[str] | None:
    """All names, in lower case as some disks take them; None: not to be told in one look."""
    try:
        with os.scandir(folder) as entries:
            names = frozenset(entry.name.lower() for entry in islice(entries, _MAX_LISTED + 1))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:
        return None
    return names if len(names) <= _MAX_LISTED else None


def find_compose_file(folder: str | os.PathLike[str]) -> Path | None:
    """The compose file of a box, under any of compose's own names; Harbor's name wins."""
    return compose_file_in(Listing(os.fspath(folder)))


def compose_file_in(listing: Listing) -> Path | None:
    """The same of a folder that was listed."""
    files = (listing.file(name) for name in (COMPOSE_FILE, *OTHER_COMPOSE_FILES))
    return next(filter(None, files), None)


def is_task_folder(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` holds a ``task.toml`` and an instruction or steps."""
    return _has_config(path) and _has_content(path)


def is_broken_task_folder(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` looks like a task that lost both its instruction and its steps.

    A ``task.toml`` alone may belong to another tool; one of Harbor's other folders
    beside it tells that a task was meant.
    """
    return _has_config(path) and not _has_content(path) and _has_other_signs(path)


def find_task_folder(path: str | os.PathLike[str]) -> Path | None:
    """The outermost folder, ``path`` itself or above it, that is a task or a broken one.

    Folders below a task are never tasks: they are its files.
    """
    start = Path(os.path.abspath(path))
    for folder in reversed((start, *start.parents)):
        if _has_config(folder) and (_has_content(folder) or _has_other_signs(folder)):
            return folder
    return None


def _has_config(folder: str | os.PathLike[str]) -> bool:
    return os.path.isfile(os.path.join(folder, CONFIG_FILE))


def _has_content(folder: str | os.PathLike[str]) -> bool:
    return os.path.isfile(os.path.join(folder, INSTRUCTION_FILE)) or os.path.isdir(
        os.path.join(folder, STEPS_FOLDER)
    )


def _has_other_signs(folder: str | os.PathLike[str]) -> bool:
    return (
        os.path.isdir(os.path.join(folder, ENVIRONMENT_FOLDER))
        or os.path.isdir(os.path.join(folder, SOLUTION_FOLDER))
        or os.path.isfile(os.path.join(folder, TESTS_FOLDER, TEST_SCRIPTS["linux"]))
    )
