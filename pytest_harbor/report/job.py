"""A job's folder → its trials, whatever state they are in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_harbor.errors import OptionError
from pytest_harbor.report.files import UnreadableError, read_object, read_text, subfolders
from pytest_harbor.report.result_file import MAX_MESSAGE_CHARS, identity, trial_of_result
from pytest_harbor.report.trial import Trial
from pytest_harbor.report.values import items, mapping, moment, text

MAX_TRIALS = 20_000
SELECTION_FOLDER = "selection"
"""In the job's folder; it is no trial's, whose names end otherwise."""
_SIGNS = ("result.json", "config.json", "trial.log")
_PARTS_OF_TRIAL = ("agent", "artifacts", "services", "steps", "user-agent", "verifier")
_LOG_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReading:
    """What a job's folder holds.

    Attributes:
        path: The folder.
        name: The job's name.
        config: What the job was asked for, as far as it can be read.
        started: Seconds since 1970.
        finished: The same; None while the job runs, and of one that was cut off.
        trials: In the order of their start.
        problems: What is wrong with the job's own files, a sentence each.
        selection: What was chosen among its attempts, and by whom; empty where nobody chose.
    """

    path: Path
    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    started: float | None = None
    finished: float | None = None
    trials: Sequence[Trial] = ()
    problems: Sequence[str] = ()
    selection: Mapping[str, Any] = field(default_factory=dict)


def read_job(path: Path) -> JobReading:
    """Read a job's folder.

    Raises:
        OptionError: It is no job's folder.
    """
    folders = _trial_folders(path)
    config, config_problems = _object(path / "config.json")
    result, result_problems = _object(path / "result.json")
    left_out = len(folders) - MAX_TRIALS
    more = [f"{left_out} trials more than {MAX_TRIALS} are not read"] if left_out > 0 else []
    selection = mapping(mapping(result.get("pytest_harbor")).get("selection"))
    trials = _marked([_read_trial(path / name) for name in folders[:MAX_TRIALS]])
    if selection:
        chosen = {text(name) for name in items(selection.get("selected"))}
        trials = [replace(one, selected=one.name in chosen) for one in trials]
    starts = [trial.started for trial in trials if trial.started is not None]
    return JobReading(
        path=path,
        name=text(config.get("job_name")) or path.resolve().name,
        config=config,
        started=moment(result.get("started_at")) or min(starts, default=None),
        finished=moment(result.get("finished_at")),
        trials=trials,
        problems=[*config_problems, *result_problems, *more],
        selection=selection,
    )


def check_job(path: Path) -> None:
    """See that a folder is a job's that has a readable result.

    Raises:
        OptionError: It is not.
    """
    for name in _trial_folders(path):
        if not _object(path / name / "result.json")[1]:
            return
    raise OptionError(f"{path}: no trial of this job has a result that can be read")


def _trial_folders(path: Path) -> list[str]:
    if not path.is_dir():
        raise OptionError(f"{path}: expected a job's folder, found {_what(path)}")
    names = [name for name in subfolders(path) if _is_trial(path / name)]
    if names or "pytest_harbor" in _object(path / "config.json")[0]:
        return names  # of a job of ours, which may have none yet
    jobs = [name for name in subfolders(path) if any(map(_is_trial, _below(path / name)))]
    hint = f"; it holds jobs, name one of them, as {path / jobs[-1]}" if jobs else ""
    raise OptionError(f"{path}: expected a job's folder, found one without trials{hint}")


def _what(path: Path) -> str:
    return "no folder" if path.exists() else "nothing"


def _below(path: Path) -> Iterable[Path]:
    return (path / name for name in subfolders(path))


def _is_trial(folder: Path) -> bool:
    """Whether a folder is a trial's; a job's has files of the same names."""
    if (folder / "trial.log").is_file():
        return True
    return _has_sign(folder) and not any(
        _has_sign(folder / name) for name in subfolders(folder) if name not in _PARTS_OF_TRIAL
    )


def _has_sign(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _SIGNS)


def _object(path: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        return read_object(path), []
    except UnreadableError as error:
        return {}, [str(error)]


def _read_trial(folder: Path) -> Trial:
    config, config_problems = _object(folder / "config.json")
    if not (folder / "result.json").exists():
        return _unfinished(folder, config, config_problems)
    result, problems = _object(folder / "result.json")
    if problems:
        return Trial(
            name=folder.name,
            folder=folder,
            state="unreadable",
            **identity({}, config, folder),
            fault_message=problems[0],
            problems=tuple(problems),
        )
    result.setdefault("config", config)
    return trial_of_result(result, folder, [] if mapping(result["config"]) else config_problems)


def _unfinished(folder: Path, config: Mapping[str, Any], problems: list[str]) -> Trial:
    """A trial that runs, or was cut off: how far it came stands at the end of its log."""
    log = (read_text(folder / "trial.log", _LOG_BYTES) or "").strip().splitlines()
    stamps = [moment(line.partition(" ")[0]) for line in log[:1]]
    last = f"no result yet; last line of its log: {log[-1]}" if log else "no result yet"
    return Trial(
        name=folder.name,
        folder=folder,
        state="unfinished",
        **identity({}, config, folder),
        fault_message=text(last, MAX_MESSAGE_CHARS),
        started=stamps[0] if stamps else None,
        problems=tuple(problems),
    )


def _marked(trials: list[Trial]) -> list[Trial]:
    """In the order of their start; of the runs of one attempt only the last counts.

    Harbor's own jobs do not number attempts: there every trial counts.
    """
    ordered = sorted(trials, key=lambda one: (one.started is None, one.started or 0.0, one.name))
    last = {one.attempt_key: one.name for one in ordered}
    return [
        replace(one, superseded=True) if one.attempt and last[one.attempt_key] != one.name else one
        for one in ordered
    ]
