"""Trials as a CSV table, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_harbor.report.data import outcome
from pytest_harbor.report.files import write_lines
from pytest_harbor.report.trial import PHASES, USAGE, Trial
from pytest_harbor.report.values import stamp

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(path: Path, trials: Sequence[Trial]) -> None:
    """Write a table of trials, a row each; what is not known is empty.

    Raises:
        OptionError: It cannot be written.
    """
    write_lines(path, csv_lines(trials))


def csv_lines(trials: Sequence[Trial]) -> Iterator[str]:
    """The lines of the table, the names of its columns first."""
    rows = [_row(trial) for trial in trials]
    keys = list(dict.fromkeys(key for trial in trials for key in trial.rewards))
    columns = list(_row(Trial(name="", task=""))) + [f"reward.{key}" for key in keys]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_cell, columns))
    for trial, row in zip(trials, rows, strict=True):
        row |= {f"reward.{key}": value for key, value in trial.rewards.items()}
        writer.writerow([_cell(row.get(column)) for column in columns])
    yield buffer.getvalue()


def _row(trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.name,
        "task": trial.task,
        "task_path": trial.task_path,
        "dataset": trial.dataset,
        "dataset_label": trial.dataset_key,
        "agent": trial.agent,
        "model": trial.model,
        "attempt": trial.attempt or None,
        "outcome": outcome(trial),
        "category": trial.category,
        "in_rates": trial.counts,
        "passed": trial.passed,
        "reward": trial.reward,
        "threshold": trial.threshold,
        "fault": trial.fault,
        "message": trial.fault_message,
        "started_at": stamp(trial.started),
        **{f"seconds.{phase}": _rounded(trial.seconds(phase)) for phase in PHASES},
        "seconds": _rounded(trial.total_seconds),
        **{name: trial.usage.get(name) for name in USAGE},
        "integrity": trial.suspicious,
        "integrity.codes": ", ".join(trial.codes),
        "refused_connections": trial.refused,
        "superseded": trial.superseded,
        "selected": trial.selected,
        "folder": str(trial.folder or ""),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _cell(value: Any) -> Any:
    """A value that no spreadsheet takes for a formula, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e15 else value
    if not isinstance(value, str):
        return value
    shown = "".join(char if char.isprintable() else " " for char in value)
    return f"'{shown}" if value.startswith(_FORMULA) else shown
