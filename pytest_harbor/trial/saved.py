"""Files of the agent's box, saved in the trial's folder for a later grading.

They are as the agent left them, before anything of the tests came in: not without secrets, as
logs are, but all of what the box holds. So they are this user's alone.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from pytest_harbor.environment.base import Environment
from pytest_harbor.environment.saved import SavedFiles, SavesFiles
from pytest_harbor.errors import EnvironmentFault, TrajectoryFormatError, UnsupportedError
from pytest_harbor.result.trajectory_reader import load_json, read_bounded
from pytest_harbor.result.work import Work
from pytest_harbor.trial.plan import TrialPlan, WorkPlan
from pytest_harbor.trial.record import TrialRecord, WorkFolders
from pytest_harbor.trial.trust import needs_services

FOLDER = "saved"
"""In the trial's folder, or a step's."""
ARCHIVE = "files.tar.gz"
NOTE = "files.json"

_MAX_NOTE_BYTES = 64 * 1024**2
_LONG = 2_000
_LEVEL = 1  # most of it is not worth the time that more would take


@dataclass(frozen=True, slots=True)
class Saved:
    """What was saved of a trial or step.

    Attributes:
        files: What belongs to the archive.
        archive: The archive.
        digest: Its SHA-256.
    """

    files: SavedFiles
    archive: Path
    digest: str


def save_files(
    plan: TrialPlan, record: TrialRecord, work: WorkPlan, result: Work, environment: Environment
) -> None:
    """Save what the box holds, where that is asked for; a failure costs no verdict."""
    if plan.options.saves_files is None:
        return
    folder = record.folders(work.name).path / FOLDER
    begun = time.monotonic()
    try:
        _require_use(plan, environment)
        assert isinstance(environment, SavesFiles)
        record.status.doing("saving files")
        _save(folder, environment, sum(_sizes(record.path)))
        record.note(f"the files of the box were saved in {time.monotonic() - begun:.1f} s")
    except (EnvironmentFault, UnsupportedError, OSError) as error:
        reason = record.redactor.text(str(error))
        result.findings.append(f"the files of the box were not saved for a later grading: {reason}")
        (folder / ARCHIVE).unlink(missing_ok=True)
        with suppress(OSError):
            _write_note(folder, {"not_saved": reason})
    finally:
        record.status.doing("")


def _require_use(plan: TrialPlan, environment: Environment) -> None:
    if needs_services(plan.task, plan.options.isolate_except):
        raise UnsupportedError("the task is graded with what the agent leaves running")
    if not isinstance(environment, SavesFiles):
        raise UnsupportedError(f"{type(environment).__name__} cannot save its files")


def _save(folder: Path, environment: SavesFiles, already: int) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    draft = folder / f".{ARCHIVE}.part"
    try:
        with _opened(draft) as raw, gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as packed:
            files = environment.save_files(cast("BinaryIO", packed), already=already)
        _write_note(folder, {"archive": ARCHIVE, "sha256": _digest(draft), **files.to_json()})
        draft.replace(folder / ARCHIVE)
    finally:
        draft.unlink(missing_ok=True)


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _write_note(folder: Path, note: dict[str, Any]) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    draft = folder / f".{NOTE}.part"
    try:
        with _opened(draft) as file:
            file.write((json.dumps(note, indent=4) + "\n").encode("ascii"))
        draft.replace(folder / NOTE)
    finally:
        draft.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sizes(trial: Path) -> Iterator[int]:
    """Bytes that the steps before have saved."""
    for note in trial.glob(f"steps/*/{FOLDER}/{NOTE}"):
        with suppress(UnsupportedError):
            yield find_saved(note.parent.parent).files.size


def find_saved(folder: Path) -> Saved:
    """What was saved of a trial or step.

    Args:
        folder: Its folder.

    Raises:
        UnsupportedError: Nothing; says why, as the end of a sentence.
    """
    place = folder / FOLDER
    if not (place / NOTE).is_file() or place.is_symlink():
        raise UnsupportedError("were not saved (--harbor-save-files saves them)")
    try:
        note = load_json(read_bounded(place / NOTE, _MAX_NOTE_BYTES))
        if reason := note.get("not_saved"):
            raise UnsupportedError(f"could not be saved: {str(reason)[:_LONG]}")
        found = Saved(SavedFiles.parse(note), place / ARCHIVE, str(note["sha256"]))
    except TrajectoryFormatError as error:
        raise UnsupportedError(f"cannot be used: {place / NOTE}: {error}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnsupportedError(f"cannot be used: {place / NOTE}: {error!r}") from None
    if not found.archive.is_file() or found.archive.is_symlink():
        raise UnsupportedError(f"are gone: there is no {found.archive}")
    return found


def open_saved(saved: Saved) -> BinaryIO:
    """The archive, which is what it was when it was saved.

    Raises:
        UnsupportedError: It is not, or cannot be read; says why, as the end of a sentence.
    """
    try:
        file = saved.archive.open("rb")
    except OSError as error:
        raise UnsupportedError(f"cannot be read: {saved.archive}: {error.strerror}") from None
    if hashlib.file_digest(file, "sha256").hexdigest() != saved.digest:
        file.close()
        raise UnsupportedError(f"were changed since: {saved.archive} is not what was saved")
    file.seek(0)
    return file


def hand_on(saved: Saved, folders: WorkFolders) -> None:
    """Have the files in another trial's folder too, at no cost where the disk can.

    Raises:
        OSError: They cannot be written; nothing is left of them there.
    """
    place = folders.path / FOLDER
    place.mkdir(mode=0o700, exist_ok=True)
    try:
        for name in (ARCHIVE, NOTE):
            source = saved.archive.with_name(name)
            try:
                os.link(source, place / name)
            except OSError:
                shutil.copy2(source, place / name)
    except OSError:
        shutil.rmtree(place, ignore_errors=True)
        raise


def drop_saved(trial: Path) -> None:
    """Remove what was saved of a trial and its steps."""
    for folder in (trial / FOLDER, *trial.glob(f"steps/*/{FOLDER}")):
        shutil.rmtree(folder, ignore_errors=True)
