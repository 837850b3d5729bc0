"""A trial's folder on disk, in Harbor's layout (``format/rewards-and-results.md``, section 6).

Every file is written whole or not at all, and without secrets.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import string
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from pytest_harbor.environment.image_work import ImageWork
from pytest_harbor.errors import OptionError
from pytest_harbor.result.trial import TrialResult
from pytest_harbor.trial.logs import LogFile
from pytest_harbor.trial.secrets import Redactor
from pytest_harbor.trial.status import FOLDER, TrialStatus

ASIDE = ".set-aside"
"""Folder of a job for the trials that another run took the place of; readers pass it by."""
LOCK_FILE = "lock.json"
"""What a job, or a trial, ran, to the last digest."""
OUTCOME_FILE = "outcome.json"
"""What pytest heard of a trial, in the trial's folder."""

_ID_CHARS = string.ascii_letters + string.digits


def trial_name(short_name: str) -> str:
    """A new name as Harbor makes it: at most 32 characters of the task's, and 7 random ones."""
    allowed = string.ascii_letters + string.digits + "._-"
    clean = "".join(char if char in allowed else "-" for char in short_name)
    stem = clean[:32].strip("_-.") or "task"
    return f"{stem}__{''.join(secrets.choice(_ID_CHARS) for _ in range(7))}"


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, or a crash, sees the old or the new one, never a part."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # No fsync: this guards against a killed process, and a flush costs each trial dearly.
        # A path that is no text comes as surrogates; so written, they are JSON's own escapes.
        draft.write_text(text, encoding="utf-8", errors="backslashreplace")
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def write_json(path: Path, value: Mapping[str, Any], redactor: Redactor | None = None) -> None:
    """Write JSON as Harbor does, four spaces deep, without secrets."""
    content = _plain(value, redactor or Redactor())
    write_whole(path, json.dumps(content, indent=4, ensure_ascii=False) + "\n")


def _plain(value: Any, redactor: Redactor) -> Any:
    """What JSON can say of a value; an agent's own may be anything."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one, redactor) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one, redactor) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int):
        return value
    return redactor.text(str(value))


@dataclass(frozen=True, slots=True)
class WorkFolders:
    """Where the files of one step go, or of a single-step trial.

    Attributes:
        path: The step's folder, or the trial's.
    """

    path: Path

    @property
    def agent_dir(self) -> Path:
        """Logs of the agent."""
        return self.path / "agent"

    @property
    def verifier_dir(self) -> Path:
        """Copy of ``/logs/verifier`` and the test script's output."""
        return self.path / "verifier"

    @property
    def artifacts_dir(self) -> Path:
        """What the task asked to bring home."""
        return self.path / "artifacts"

    def make(self) -> WorkFolders:
        """Make the folders."""
        for folder in (self.agent_dir, self.verifier_dir, self.artifacts_dir):
            folder.mkdir(parents=True, exist_ok=True)
        return self


class TrialRecord:
    """The folder of one trial, and what is told of it while it runs.

    Attributes:
        status: Where it is.
        image_work: Work on its images.
    """

    def __init__(self, job_dir: Path, short_name: str, redactor: Redactor) -> None:
        self.redactor = redactor
        self.id = str(uuid.uuid4())
        self.name, self.path = self._claim(job_dir, short_name)
        self.status = TrialStatus(self.path.parent / FOLDER / f"{self.name}.json", redactor.text)
        self.image_work = ImageWork(self.status.doing)

    @staticmethod
    def _claim(job_dir: Path, short_name: str) -> tuple[str, Path]:
        try:
            job_dir.mkdir(parents=True, exist_ok=True)
            while True:
                name = trial_name(short_name)
                with contextlib.suppress(FileExistsError):
                    (job_dir / name).mkdir()
                    return name, (job_dir / name).absolute()
        except OSError as error:
            raise OptionError(
                f"cannot make the folder of a trial in {job_dir}: {error.strerror}; name another"
                " place with --harbor-output"
            ) from error

    def folders(self, step: str = "") -> WorkFolders:
        """The folders of a step, or of a single-step trial, made."""
        return WorkFolders(self.path / "steps" / step if step else self.path).make()

    def build_log(self, role: str) -> Path:
        """Log of the build of a box's image."""
        return self.path / ("build.log" if role == "agent" else f"build-{role}.log")

    def open_log(self, path: Path) -> BinaryIO:
        """Open a log below this folder, without secrets and bounded."""
        return cast("BinaryIO", LogFile(path, self.redactor))

    def note(self, text: str) -> None:
        """Add a line to ``trial.log``."""
        line = f"{datetime.now(UTC).isoformat()} {self.redactor.text(text)}\n"
        with (self.path / "trial.log").open("ab") as file:
            file.write(line.encode("utf-8", "backslashreplace"))

    def write_inputs(self, config: Mapping[str, Any], lock: Mapping[str, Any]) -> None:
        """Write ``config.json``, and ``lock.json`` where there is something to say in it."""
        write_json(self.path / "config.json", config, self.redactor)
        if lock:
            write_json(self.path / LOCK_FILE, lock, self.redactor)

    def write_outcome(
        self, properties: Iterable[tuple[str, str | int | float]], passed: bool, text: str
    ) -> None:
        """Write what pytest hears of the trial, for a run that goes on with the job.

        Args:
            properties: Of the item's reports.
            passed: Whether the item passes.
            text: What is said of it.
        """
        outcome = "passed" if passed else "failed"
        content = {"outcome": outcome, "text": text, "properties": dict(properties)}
        write_json(self.path / OUTCOME_FILE, content, self.redactor)

    def write_result(self, result: TrialResult, config: Mapping[str, Any]) -> None:
        """Write ``result.json``, and ``exception.txt`` where something went wrong."""
        if result.faults:
            text = "\n".join(
                f"[{f.phase}] {f.type}: {f.message}\n{f.traceback}" for f in result.faults
            )
            write_whole(self.path / "exception.txt", self.redactor.text(text) + "\n")
        document = result.to_json(config)
        document["pytest_harbor"]["boxes"] = list(dict.fromkeys(self.image_work.used))
        write_json(self.path / "result.json", document, self.redactor)
