"""What a dataset's name means by now, beside what it meant when its tasks were pinned."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_harbor.dataset.dataset import Dataset
from pytest_harbor.dataset.source import GitTask, TaskSource
from pytest_harbor.task.plural import listed

_SHOWN = 5


def drift(pinned: Dataset, now: Dataset) -> str:
    """Say what is otherwise now; empty for nothing."""
    found = "; ".join(_differences(pinned, now))
    return f"{pinned.label} is run as it was pinned, and by now {found}" if found else ""


def _differences(pinned: Dataset, now: Dataset) -> Iterator[str]:
    if pinned.version != now.version:
        yield f"is {_short(now.version)} (was {_short(pinned.version)})"
    then, today = ({one.name: one.source for one in each.tasks} for each in (pinned, now))
    if new := [name for name in today if name not in then]:
        yield f"has {listed(new, _SHOWN)} too"
    if gone := [name for name in then if name not in today]:
        yield f"has no more {listed(gone, _SHOWN)}"
    other = [
        name
        for name, source in then.items()
        if name in today and _place(source, pinned.version) != _place(today[name], now.version)
    ]
    if other:
        yield f"has other versions of {listed(other, _SHOWN)}"


def _place(source: TaskSource, version: str) -> object:
    """Where a task is, without the commit where that is the dataset's version, told already."""
    if isinstance(source, GitTask) and version and source.commit.startswith(version):
        return source.url, source.path
    return source


def _short(version: str) -> str:
    if version.startswith("sha256:"):
        return version[: len("sha256:") + 12]
    return version or "without a version"
