"""Which trial of an earlier job an item grades again; never that of another task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_harbor.errors import UnsupportedError
from pytest_harbor.report.trial import Trial

_WORDS = ("item", "path", "item", "name in its dataset", "name")
_Key = tuple[int, str, tuple[str, str, int]]


class Named(NamedTuple):
    """What a trial may be found by, of an item or of the job.

    Attributes:
        variant: Agent, model and attempt, which have to be the same.
        item: The item's id.
        path: The task's folder.
        task_id: What names the task in its dataset, whatever the version.
    """

    variant: tuple[str, str, int]
    item: str
    path: str
    task_id: str = ""

    def ways(self) -> Iterator[_Key]:
        """From the surest to the least sure; by the folder's name where tasks lie elsewhere now.

        An item's id alone is none: seen from another folder it may be another task's.
        """
        names = (
            f"{self.item}\0{self.path}" if self.item else "",
            self.path,
            f"{self.item}\0{self.task_id}" if self.item and self.task_id else "",
            self.task_id,
            Path(self.path).name,
        )
        return ((place, name, self.variant) for place, name in enumerate(names) if name)


class Matches:
    """Finds the trials of a job that the items of a run are about."""

    def __init__(self, trials: Sequence[Trial], items: Iterable[Named]) -> None:
        """Take what there is.

        Args:
            trials: Of the job.
            items: All of the run: a name that two of them have tells neither.
        """
        self._trials: dict[_Key, list[Trial]] = {}
        for trial in trials:
            for key in () if trial.superseded else _named(trial).ways():
                self._trials.setdefault(key, []).append(trial)
        self._items = Counter(key for item in items for key in item.ways())

    def trial_of(self, item: Named) -> Trial:
        """The trial that an item of the run grades again.

        Raises:
            UnsupportedError: There is none, or more than one may be meant.
        """
        for key in item.ways():
            if found := [one for one in self._trials.get(key, ()) if _may_be(one, item, key)]:
                if len(found) == 1 and self._items[key] <= 1:
                    return found[0]
                where = "that job has" if len(found) > 1 else "this run has"
                raise UnsupportedError(
                    f"cannot be graded again: {where} two trials of that {_WORDS[key[0]]}"
                )
        raise UnsupportedError("cannot be graded again: that job has no trial of it")


def _named(trial: Trial) -> Named:
    return Named((*trial.group, trial.attempt), trial.item, trial.task_path, trial.task_id)


def _may_be(trial: Trial, item: Named, key: _Key) -> bool:
    """A task that has another name in its dataset is another, whatever its folder's name."""
    known = bool(trial.task_id and item.task_id)
    return not known or trial.task_id == item.task_id or _WORDS[key[0]] != "name"
