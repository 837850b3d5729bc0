"""What an agent changed, as far as a trial's folder tells: differences of texts."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_harbor.report.files import files_below, read_small_text
from pytest_harbor.report.limits import Limits
from pytest_harbor.report.values import cut, text

PATCHES = (".diff", ".patch")
_MAX_LINES = 3_000
_BEFORE = ("old_str", "old_string", "old_text", "search")
_AFTER = ("new_str", "new_string", "new_text", "replace")
_PATH = ("path", "file_path", "file", "filename")


def unified(before: str, after: str, name_before: str, name_after: str, limit: int) -> str:
    """The difference of two texts; empty where they are the same."""
    a, b = before.splitlines()[:_MAX_LINES], after.splitlines()[:_MAX_LINES]
    lines = difflib.unified_diff(a, b, name_before, name_after, lineterm="")
    return cut("\n".join(lines), limit)


def edit_of_call(arguments: Mapping[str, Any], limit: int) -> str:
    """The difference that a tool call asks for, by the usual names of its arguments."""
    before = next((arguments[key] for key in _BEFORE if key in arguments), None)
    after = next((arguments[key] for key in _AFTER if key in arguments), None)
    if not isinstance(before, str) or not isinstance(after, str):
        return ""
    path = next((text(arguments[key], 200) for key in _PATH if key in arguments), "")
    return unified(before[:limit], after[:limit], path, path, limit)


class Originals:
    """Files that the environment of a task is built from, to hold artifacts against.

    They are the task's as it is now, which need not be as it was when the trial ran.
    """

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, Sequence[str]]] = {}

    def of(self, task_path: str, artifact: str) -> Path | None:
        """The one file whose path ends most like an artifact's; None where none does."""
        wanted = PurePosixPath(artifact)
        found = self._names(task_path).get(wanted.name, ())
        scored = sorted(((_common_end(wanted, one), one) for one in found), reverse=True)
        if not scored or (len(scored) > 1 and scored[0][0] == scored[1][0]):
            return None
        return Path(task_path, "environment", scored[0][1])

    def _names(self, task_path: str) -> Mapping[str, Sequence[str]]:
        if task_path not in self._known:
            self._known[task_path] = self._listed(task_path)
        return self._known[task_path]

    @staticmethod
    def _listed(task_path: str) -> Mapping[str, Sequence[str]]:
        names: dict[str, list[str]] = {}
        # A job of somebody else's must not choose which folder of this machine is read.
        if task_path and Path(task_path, "task.toml").is_file():
            for one in files_below(Path(task_path, "environment"))[0]:
                names.setdefault(PurePosixPath(one.path).name, []).append(one.path)
        return names


def _common_end(wanted: PurePosixPath, path: str) -> int:
    pairs = zip(reversed(wanted.parts), reversed(PurePosixPath(path).parts), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), len(PurePosixPath(path).parts))


def artifact_diffs(
    folder: Path, names: Sequence[str], task_path: str, originals: Originals, limits: Limits
) -> Iterator[dict[str, str]]:
    """Differences of brought-home files: patches among them, and what was built in before."""
    for name in names:
        after = read_small_text(folder / name, limits.file_bytes)
        if after is None:
            continue
        if name.endswith(PATCHES):
            yield {"path": name, "against": "", "text": after}
        elif original := originals.of(task_path, name):
            before = read_small_text(original, limits.file_bytes)
            against = original.relative_to(task_path).as_posix()
            if before is not None and before != after:
                difference = unified(before, after, against, name, limits.file_bytes)
                yield {"path": name, "against": against, "text": difference}
