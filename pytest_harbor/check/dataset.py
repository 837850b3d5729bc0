"""Whether tasks of one dataset repeat each other: names, and instructions by their shingles.

Two texts are as alike as their sets of runs of five words are (w-shingling, A. Broder). An
index from run to task keeps it far from comparing each with each.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from zlib import crc32

from pytest_harbor.check.finding import Check, Found
from pytest_harbor.task import layout

CHECKS = (
    Check(
        "duplicate-name",
        "results are filed by it: two tasks become one",
        "give one of them another [task].name",
    ),
    Check(
        "similar-instruction",
        "two tasks that ask nearly the same count twice",
        "make them differ, or drop one",
        "warning",
    ),
)

_RUN = 5
_COMMON = 50
"""A run of words that more tasks share is the house's own phrase and tells nothing."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Member:
    """A task of a dataset, as far as it is compared.

    Attributes:
        path: Its folder.
        name: Its ``[task].name``, else its folder's.
        is_named: The name was written into ``task.toml``.
        instruction: All that it tells the agent.
        file: Where that begins.
    """

    path: Path
    name: str
    is_named: bool
    instruction: str
    file: Path

    @cached_property
    def runs(self) -> frozenset[int]:
        """Its runs of words, as numbers."""
        words = _WORD.findall(self.instruction.lower())
        ends = range(max(len(words) - _RUN + 1, 1))
        return frozenset(crc32(" ".join(words[at : at + _RUN]).encode()) for at in ends)


def read_member(path: Path) -> Member | None:
    """A task's folder; None where it cannot be read as one."""
    import tomli

    try:
        with open(path / layout.CONFIG_FILE, "rb") as file:
            data = tomli.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    table = data.get("task")
    name = table.get("name") if isinstance(table, dict) else None
    files = _instructions(path, data.get("steps"))
    texts = [_text(file) for file in files]
    text = "\n".join(texts)
    if isinstance(name, str):
        return Member(path, name, True, text, files[0])
    return Member(path, path.name, False, text, files[0])


def _instructions(path: Path, steps: object) -> list[Path]:
    tables = [one for one in steps if isinstance(one, dict)] if isinstance(steps, list) else []
    names = [one["name"] for one in tables if isinstance(one.get("name"), str)]
    folders = [path / layout.STEPS_FOLDER / name for name in names] or [path]
    return [folder / layout.INSTRUCTION_FILE for folder in folders]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


def neighbours(folder: Path) -> Iterator[Path]:
    """Tasks beside a task: those of the same folder."""
    try:
        siblings = sorted(folder.parent.iterdir())
    except OSError:
        return
    for one in siblings:
        if layout.is_task_folder(one):
            yield one


class Dataset:
    """The tasks that are held against each other.

    Attributes:
        members: By folder.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        read = (read_member(folder) for folder in dict.fromkeys(folders))
        self.members: Mapping[Path, Member] = {one.path: one for one in read if one is not None}

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[Member]]:
        names = defaultdict(list)
        for member in self.members.values():
            if member.is_named:
                names[member.name].append(member)
        return names

    @cached_property
    def _by_run(self) -> Mapping[int, Sequence[Member]]:
        index = defaultdict(list)
        for member in self.members.values():
            for run in member.runs:
                index[run].append(member)
        return index

    def find(self, folder: Path, similarity: float) -> Iterator[Found]:
        """What a task shares with others of the dataset."""
        mine = self.members.get(folder)
        if mine is None:
            return
        for twin in self._by_name.get(mine.name, ()) if mine.is_named else ():
            if twin is not mine:
                message = f"{mine.name!r} is the name of {_from(mine, twin)} too"
                yield Found(
                    "duplicate-name", message, folder / layout.CONFIG_FILE, None, "task.name"
                )
        for twin, share in self._alike(mine, similarity):
            message = f"{share:.0%} of the text is that of {_from(mine, twin)}"
            yield Found("similar-instruction", message, mine.file, 1)

    def _alike(self, mine: Member, similarity: float) -> list[tuple[Member, float]]:
        shared: Counter[Path] = Counter()
        telling = [self._by_run[run] for run in mine.runs if len(self._by_run[run]) <= _COMMON]
        for holders in telling:
            shared.update(one.path for one in holders if one is not mine)
        common = len(mine.runs) - len(telling)
        alike = []
        for path, count in shared.most_common(20):
            twin = self.members[path]
            share = (count + common) / len(mine.runs | twin.runs)
            if share >= similarity:
                alike.append((twin, min(share, 1.0)))
        return alike


def _from(mine: Member, twin: Member) -> str:
    return Path(os.path.relpath(twin.path, mine.path.parent)).as_posix()
