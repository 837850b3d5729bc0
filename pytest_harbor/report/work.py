"""What a trial's agent left: its folder's parts, one for each step, and the artifacts in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_harbor.report.files import UnreadableError, files_below, subfolders, unlinked
from pytest_harbor.report.trial import Trial


def work_folders(trial: Trial) -> Iterator[tuple[Path, str]]:
    """The trial's folder and those of its steps in their order, each with its path in the former.

    Steps are in the order in which they ran; such that no phase tells of come last, by name.
    """
    if trial.folder is None:
        return
    yield trial.folder, ""
    steps = unlinked(trial.folder / "steps")
    for name in in_order(trial, subfolders(steps)):
        yield steps / name, f"steps/{name}/"


def in_order(trial: Trial, steps: Iterable[str]) -> list[str]:
    """Names of steps in the order in which they ran; of those that did not, by name."""
    order = list(dict.fromkeys(span.step for span in trial.spans))
    known = {name: place for place, name in enumerate(order)}
    return sorted(steps, key=lambda one: (known.get(one, len(known)), one))


def artifact_paths(trial: Trial) -> Iterator[str]:
    """Paths of the files that were brought home, from the trial's folder."""
    for folder, prefix in work_folders(trial):
        try:
            found, _ = files_below(unlinked(folder / "artifacts"))
        except UnreadableError:
            continue
        for one in found:
            if one.kind == "file" and one.path != "manifest.json":
                yield f"{prefix}artifacts/{one.path}"
