"""An agent's trajectory and the files in which it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.report.files import unlinked
from pytest_harbor.report.trajectory import MAX_TRAJECTORY_BYTES, TRAJECTORY
from pytest_harbor.result.trajectory_reader import read_bounded

_T = TypeVar("_T")
_MAX_FILES = 100


class Broken(NamedTuple):
    """A trajectory that cannot be read.

    Attributes:
        problem: What is wrong with it.
    """

    problem: str


def trajectories(
    folder: Path, read: Callable[[bytes], _T], continued: Callable[[_T], str | None]
) -> Iterator[tuple[str, _T | Broken]]:
    """The trajectory of a trial, or of a step, and those that go on from it, by their files.

    Args:
        folder: The trial's, or the step's.
        read: Reads a file's content; may raise a TrajectoryFormatError.
        continued: Names the file in which one goes on, if it does.
    """
    agent, name, seen = unlinked(folder / "agent"), TRAJECTORY, list[str]()
    if not (agent / name).exists():
        return
    while name:
        try:
            found = read(read_bounded(agent / name, MAX_TRAJECTORY_BYTES))
        except TrajectoryFormatError as error:
            yield name, Broken(str(error))
            return
        yield name, found
        seen.append(name)
        following = continued(found) or ""
        if problem := following and _no_way_on(following, seen):
            yield name, Broken(f"continued_trajectory_ref: {problem}")
            return
        name = following


def _no_way_on(name: str, seen: list[str]) -> str:
    # Only a file beside it: a trajectory is an agent's own, and may name any place.
    if name != Path(name).name or name == ".." or "\0" in name:
        return f"expected a file in the same folder, got {name[:100]!r}"
    if name in seen:
        return f"expected a file that was not read yet, got {name[:100]!r}"
    return f"expected at most {_MAX_FILES} files, found more" if len(seen) >= _MAX_FILES else ""
