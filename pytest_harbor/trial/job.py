"""A job's folder: what a run was asked for, and what came of it, written as it goes.

Layout and field names: ``format/rewards-and-results.md``, section 10.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_harbor.result.reward import as_float, shown
from pytest_harbor.result.trial import model_parts
from pytest_harbor.task.plural import in_number
from pytest_harbor.trial.record import write_json

_REWRITE_EVERY_SEC = 1.0


def job_name(run_id: str, now: datetime | None = None) -> str:
    """Name of a job's folder: Harbor's time stamp, and the run, so that no two are alike."""
    return f"{now or datetime.now():%Y-%m-%d__%H-%M-%S}__{run_id}"


class JobRecord:
    """Writes ``config.json``, ``result.json`` and ``job.log`` of a job.

    Every process of a run begins them where they are missing; one counts trials.
    """

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self._id = str(uuid.uuid4())
        self._started = datetime.now()
        self._trials: dict[str, Mapping[str, Any]] = {}
        self._retries = 0
        self._total = 0
        self._config = dict(config)
        self._written = float("-inf")
        self.is_begun = False

    def begin(self, expected: int) -> None:
        """A trial has its folder: from now on the job can be read, whatever ends the run.

        Args:
            expected: How many trials the run has.
        """
        self.is_begun = True
        if not (self.path / "config.json").exists():
            self._write_file("config.json", self._config)
        if not (self.path / "result.json").exists():
            self._write(running=1, pending=max(expected - 1, 0))
            self._note(f"{self.path.name} begins: {in_number(expected, 'trials')}")

    def go_on(self, trials: Mapping[str, Mapping[str, Any]], expected: int, total: int) -> None:
        """Take up a job that ended early; its id and start stay.

        Args:
            trials: Those that are done and are not run again, as :meth:`add` takes them.
            expected: How many are run now.
            total: How many the job was to have.
        """
        self._take_over()
        self.is_begun = True
        self._trials, self._total = dict(trials), total
        self._write_file("config.json", self._config)
        self._write(pending=expected)
        self._note(f"{self.path.name} goes on: {expected} of {total} trials are run")

    def add(
        self, key: str, trial: Mapping[str, Any], *, running: int = 0, pending: int = 0
    ) -> None:
        """Count a trial; one that is run again takes the place of its last run.

        Args:
            key: Names the trial.
            trial: ``agent``, ``model``, ``category``, ``rewards``, ``name``, ``usage``,
                ``fault``, ``faults``, ``untrusted``; plain values.
            running: How many others run now.
            pending: How many have not begun.
        """
        self._take_over()
        if not (self.path / "config.json").exists():
            self._write_file("config.json", self._config)
        self._retries += key in self._trials
        self._trials[key] = trial
        self._note(_line(key, trial))
        # Rewriting for each of thousands of short trials would cost more than the trials.
        if time.monotonic() - self._written > _REWRITE_EVERY_SEC:
            self._write(running=running, pending=pending)

    def finish(self, *, cancelled: int = 0, pending: int = 0) -> None:
        """Write the final state; does nothing where no trial ran.

        Args:
            cancelled: How many trials were cut off with the run.
            pending: How many never began.
        """
        self._take_over()
        if self._trials or self.is_begun:
            self._write(cancelled=cancelled, pending=pending, ended=not (cancelled or pending))
            still = {"cut off": cancelled, "not begun": pending}
            told = "".join(f", {number} {what}" for what, number in still.items() if number)
            done = in_number(len(self._trials), "trials with a result")
            self._note(f"{self.path.name} ends: {done}{told}")

    def _take_over(self) -> None:
        """Go on with what another process, or this one, has begun."""
        if self.is_begun:
            return
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads((self.path / "result.json").read_text(encoding="utf-8"))
            started = datetime.fromisoformat(known["started_at"])
            self._id, self._started, self.is_begun = str(known["id"]), started, True
            self._retries += int(known["stats"]["n_retries"])

    def _write(
        self, *, running: int = 0, pending: int = 0, cancelled: int = 0, ended: bool = False
    ) -> None:
        now = datetime.now()
        # Of a job that is gone on with in part, the rest is still to come.
        pending = max(pending, self._total - len(self._trials) - running - cancelled)
        stats = job_stats(self._trials.values(), retries=self._retries)
        open_trials = {
            "n_running_trials": running,
            "n_pending_trials": pending,
            "n_cancelled_trials": cancelled,
        }
        document = {
            "schema_version": 1,
            "id": self._id,
            "started_at": self._started.isoformat(),
            "updated_at": now.isoformat(),
            "finished_at": now.isoformat() if ended and not pending else None,
            "n_total_trials": len(self._trials) + sum(open_trials.values()),
            "stats": {**stats, **open_trials},
        }
        self._write_file("result.json", document)
        self._written = time.monotonic()

    def _write_file(self, name: str, content: Mapping[str, Any]) -> None:
        # A full disk must not end the run: the trials' own files hold the results.
        with contextlib.suppress(OSError):
            self.path.mkdir(parents=True, exist_ok=True)
            write_json(self.path / name, content)

    def _note(self, text: str) -> None:
        """Add a line to ``job.log``."""
        with contextlib.suppress(OSError):
            self.path.mkdir(parents=True, exist_ok=True)
            with (self.path / "job.log").open("ab") as file:
                line = f"{datetime.now(UTC).isoformat()} {text}\n"
                file.write(line.encode("utf-8", "backslashreplace"))


def _line(key: str, trial: Mapping[str, Any]) -> str:
    """What came of a trial, in one line."""
    rewards = "".join(f" {name}={shown(value)}" for name, value in trial["rewards"].items())
    fault = f" ({trial['fault']})" if trial.get("fault") else ""
    parts = f"{trial['name']}: {key}: {trial['category']}{rewards}{fault}"
    return " ".join(parts.split())


def job_stats(trials: Iterable[Mapping[str, Any]], *, retries: int = 0) -> dict[str, Any]:
    """The ``stats`` of a job's ``result.json``."""
    trials = list(trials)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for trial in trials:
        model = model_parts(trial.get("model"))[1]
        dataset = trial.get("dataset") or "adhoc"
        key = "__".join(part for part in (trial["agent"], model, dataset) if part)
        groups.setdefault(key, []).append(trial)
    categories = Counter(trial["category"] for trial in trials)
    return {
        "n_completed_trials": len(trials),
        "n_errored_trials": sum(1 for trial in trials if trial.get("fault")),
        "n_running_trials": 0,
        "n_pending_trials": 0,
        "n_cancelled_trials": 0,
        "n_retries": retries,
        **{name: _total(trials, name) for name in _USAGE},
        "evals": {key: _group_stats(group) for key, group in groups.items()},
        "pytest_harbor": {
            "categories": dict(categories),
            "untrusted": [trial["name"] for trial in trials if trial.get("untrusted")],
        },
    }


_USAGE = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")


def _total(trials: Iterable[Mapping[str, Any]], name: str) -> float | None:
    values = [trial["usage"][name] for trial in trials if trial["usage"].get(name) is not None]
    return sum(values) if values else None


def _group_stats(trials: list[Mapping[str, Any]]) -> dict[str, Any]:
    valid = [trial for trial in trials if trial["category"] == "reward"]
    rewards: dict[str, dict[float, tuple[float, list[str]]]] = {}
    faults: dict[str, list[str]] = {}
    for trial in valid:
        for key, value in trial["rewards"].items():
            counted = _counted(trial, key)
            # Whole numbers are written as the verifier wrote them; 1 and 1.0 are one value.
            label = value if isinstance(value, int) and value == counted else counted
            rewards.setdefault(key, {}).setdefault(counted, (label, []))[1].append(trial["name"])
    for trial in trials:
        for fault in _faults(trial):
            faults.setdefault(fault, []).append(trial["name"])
    return {
        "n_trials": len(valid),
        "n_errors": sum(1 for trial in trials if trial.get("fault")),
        "metrics": [_means(valid)] if valid else [],
        "pass_at_k": {},
        "reward_stats": {
            key: {str(label): names for label, names in values.values()}
            for key, values in rewards.items()
        },
        "exception_stats": faults,
    }


def _faults(trial: Mapping[str, Any]) -> list[str]:
    """The first error of the trial and of each of its steps, each name once, as in Harbor."""
    return trial.get("faults") or [fault for fault in [trial.get("fault")] if fault]


def _means(trials: list[Mapping[str, Any]]) -> dict[str, float]:
    """Mean of each reward key; a trial without the key counts as 0, as in Harbor."""
    keys = list(dict.fromkeys(key for trial in trials for key in trial["rewards"]))
    means = {key: sum(_counted(trial, key) for trial in trials) / len(trials) for key in keys}
    return {"mean": means[keys[0]]} if len(keys) == 1 else means


def _counted(trial: Mapping[str, Any], key: str) -> float:
    """A trial's part of a mean; a reward that is not trusted raises none."""
    value = as_float(trial["rewards"].get(key, 0))
    return min(value, 0.0) if trial.get("untrusted") else value
