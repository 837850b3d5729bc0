"""A job that ended early: what of it stands, and what was cut off.

A trial stands once it has a verdict, or its task is known to be at fault. What kept it from
one otherwise (the environment, an agent that could not work, this machine) may be mended by
now, so that trial is run again like one that was cut off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_harbor.environment.docker.owner import Owner
from pytest_harbor.errors import OptionError
from pytest_harbor.report.files import UnreadableError, read_object, read_text, subfolders
from pytest_harbor.report.job import SELECTION_FOLDER
from pytest_harbor.report.values import mapping, text
from pytest_harbor.trial.record import OUTCOME_FILE

STANDING = ("reward", "task")
"""Categories of a result that is not asked for again."""

_STAMP_CHARS = 26  # to the microsecond, without the zone, which is always UTC
_LOG_BYTES = 4096
_LONG = 5_000
_MAX_TEXT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTrial:
    """One folder of a trial.

    Attributes:
        folder: Where it is.
        item: Id of its item; empty where nothing tells it.
        digest: Of the task's files as they were; empty where it is not known.
        category: Of its result; empty where there is none that can be read.
        outcome: What pytest heard: ``passed`` or ``failed``; empty where nothing tells.
        text: What was said of it; left out where a whole job is read.
        properties: Of its item's reports, by name.
        started: When, ISO 8601; empty where it is not known.
        owner: The process that ran it, if that is known.
    """

    folder: Path
    item: str = ""
    digest: str = ""
    category: str = ""
    outcome: str = ""
    text: str = ""
    properties: Mapping[str, str | int | float] = field(default_factory=dict)
    started: str = ""
    owner: Owner | None = None

    @property
    def stands(self) -> bool:
        """Whether it need not run again."""
        told = self.item and self.outcome and {"agent", "category"} <= {*self.properties}
        return self.category in STANDING and bool(told)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierJob:
    """A job's folder as a run finds it that goes on with it.

    Attributes:
        path: The folder.
        own: What the job's configuration says under ``pytest_harbor``.
        trials: Every trial's folder, by the start.
        total: How many trials the job was to have; 0 where it is not known.
    """

    path: Path
    own: Mapping[str, Any]
    trials: tuple[EarlierTrial, ...]
    total: int = 0

    @property
    def standing(self) -> dict[str, EarlierTrial]:
        """Trials that need not run again, by their items; of several runs the last one tells."""
        last = {one.item: one for one in self.trials}
        return {item: one for item, one in last.items() if one.stands}

    @property
    def owners(self) -> Iterator[Owner]:
        """The processes that wrote to it, as far as they are known."""
        whole = Owner.parse(text(self.own.get("owner"), _LONG))
        yield from ([whole] if whole else [])
        yield from (one.owner for one in self.trials if one.owner and not one.stands)


def read_earlier(path: Path) -> EarlierJob:
    """Read the folder of a job of ours.

    Raises:
        OptionError: It is none, or cannot be read.
    """
    try:
        config = read_object(path / "config.json")
    except UnreadableError as error:
        raise OptionError(f"{path}: expected a job's folder: {error}") from None
    own = mapping(config.get("pytest_harbor"))
    if not isinstance(own.get("options"), Mapping):
        raise OptionError(
            f"{path}: its config.json does not tell what was asked for: it was written by Harbor's"
            " own runner or by an earlier version; begin a new job"
        )
    names = [name for name in subfolders(path) if name != SELECTION_FOLDER]
    folders = [path / name for name in names if not name.startswith(".")]
    trials = [replace(read_trial(folder), text="") for folder in folders]
    total = _object(path / "result.json").get("n_total_trials")
    return EarlierJob(
        path=path,
        own=own,
        trials=tuple(sorted(trials, key=lambda one: (one.started, one.folder.name))),
        total=total if isinstance(total, int) else 0,
    )


def read_trial(folder: Path) -> EarlierTrial:
    """Read a trial's folder, in whatever state it is."""
    result, outcome = _object(folder / "result.json"), _object(folder / OUTCOME_FILE)
    config = mapping(result.get("config")) or _object(folder / "config.json")
    properties = mapping(outcome.get("properties"))
    return EarlierTrial(
        folder=folder,
        item=text(config.get("item"), _LONG),
        digest=text(config.get("task_digest")),
        category=text(mapping(result.get("pytest_harbor")).get("category")),
        outcome=outcome["outcome"] if outcome.get("outcome") in ("passed", "failed") else "",
        text=text(outcome.get("text"), _MAX_TEXT),
        properties={k: v for k, v in properties.items() if isinstance(v, str | int | float)},
        started=(text(result.get("started_at")) or _first_stamp(folder))[:_STAMP_CHARS],
        owner=Owner.parse(text(config.get("owner"), _LONG)),
    )


def _first_stamp(folder: Path) -> str:
    return (read_text(folder / "trial.log", _LOG_BYTES) or "").partition(" ")[0]


def _object(path: Path) -> dict[str, Any]:
    try:
        return read_object(path)
    except UnreadableError:
        return {}
