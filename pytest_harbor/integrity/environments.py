"""Python in folders of its own: virtual environments, and what uv installs for them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection

from pytest_harbor.environment.base import Change
from pytest_harbor.integrity.reading import BoxFiles

_MANAGED = re.compile(r".*/(?:cpython|pypy|graalpy)-[0-9][^/]*/bin/(?:python|pypy)[0-9.]*")
_VERSIONED = re.compile(r"python[0-9]+\.[0-9.]+")
_MIN_BYTES = 200 * 1024


def is_large_program(content: bytes | None) -> bool:
    """Whether it is compiled, and no mere wrapper; what is too large to be read is taken so."""
    return content is None or (content.startswith(b"\x7fELF") and len(content) > _MIN_BYTES)


def is_of_environment(
    change: Change, added: Collection[str], path_folders: Collection[str], files: BoxFiles
) -> bool:
    """Whether a new program is the link to Python of a new virtual environment.

    It leads to another of its folder, to the image's Python, or to one that uv brought where
    the image's own ``PATH`` names the folder: the task leaves it to the agent to fill.
    """
    folder, name = posixpath.split(change.path)
    place = posixpath.normpath(posixpath.join(folder, change.target))
    is_python = name.startswith("python") and posixpath.basename(place).startswith("python")
    if change.type != "link" or not is_python:
        return False
    managed = folder in path_folders and _is_managed(place, files)
    if folder not in added or f"{posixpath.dirname(folder)}/pyvenv.cfg" not in added:
        return managed and bool(_VERSIONED.fullmatch(name))
    if posixpath.dirname(place) == folder:
        return True
    return managed or (place not in added and files.in_image(place))


def _is_managed(place: str, files: BoxFiles) -> bool:
    """Python as uv lays it out; nobody has a record of its files, so only its kind is known."""
    return bool(_MANAGED.fullmatch(place)) and is_large_program(files.read(place))
