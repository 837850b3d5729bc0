"""Bring home what the task asked for, and have it at hand for a separate verifier.

Places and the manifest: ``format/rewards-and-results.md``, sections 6 and 8. A missing
artifact never fails a trial. The first claim of a place wins.
"""

from __future__ import annotations

import json
import posixpath
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from pytest_harbor.environment.base import DEFAULT_LIMITS, DownloadReport, Environment
from pytest_harbor.environment.extraction import extract
from pytest_harbor.errors import CollectHookError, TransferError
from pytest_harbor.task.artifacts import MAIN_SERVICE, MANIFEST_FILE, ArtifactEntry
from pytest_harbor.task.config import CollectConfig
from pytest_harbor.task.layout import ARTIFACTS_LOGS
from pytest_harbor.trial.artifact_record import ArtifactRecorder
from pytest_harbor.trial.record import TrialRecord, WorkFolders, write_whole

_IN_MEMORY_BYTES = 4 * 1024 * 1024
_CHUNK = 128 * 1024
_NAMED = 100
ABSENT = "absent"
"""Key of a manifest's row: the artifact was not there, so that nothing of it is missing here."""
_LOGS_FOLDER = ArtifactEntry(source=ARTIFACTS_LOGS)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A place below ``artifacts/`` that an artifact has taken."""

    place: str
    source: str
    service: str
    filtered: bool

    def holds_place_of(self, other: _Claim) -> bool:
        return other.place == self.place or _is_below(other.place, self.place)

    def holds_bytes_of(self, other: _Claim) -> bool:
        """The other's files came with this one's."""
        inside = other.source == self.source or _is_below(other.source, self.source)
        return self.service == other.service and inside and not self.filtered


class Artifacts:
    """The artifacts of one step, or of a single-step trial.

    Attributes:
        archives: What a separate verifier gets, in order: safe archives of each artifact.
        takes_logs_folder: ``/logs/artifacts`` is among them, and does not come home with
            the other logs.
    """

    def __init__(
        self,
        entries: Sequence[ArtifactEntry],
        folders: WorkFolders,
        record: TrialRecord,
        *,
        packs: bool,
    ) -> None:
        """Artifacts of ``entries``.

        Args:
            entries: What the task declares.
            folders: Where they go on this machine.
            record: Takes the notes.
            packs: Keep archives for a separate verifier.
        """
        self._entries = tuple(entries)
        declares_logs = any(map(_is_logs_folder, entries))
        if packs and not declares_logs:
            self._entries = (_LOGS_FOLDER, *entries)
        self.takes_logs_folder = packs or declares_logs
        self._folders = folders
        self._record = record
        self._packs = packs
        self._claims: list[_Claim] = []
        self._rows: list[dict[str, Any]] = []
        self._recorder = ArtifactRecorder(record.redactor)
        self.archives: list[IO[bytes]] = []

    @property
    def services(self) -> tuple[str, ...]:
        """Services other than ``main`` that hold artifacts."""
        names = (entry.service for entry in self._entries if not entry.is_in_main)
        return tuple(dict.fromkeys(name for name in names if name))

    def collect(self, environment: Environment, service: str = MAIN_SERVICE) -> None:
        """Bring home every artifact that one service holds.

        Args:
            environment: The service's box.
            service: Its name.
        """
        for entry in self._entries:
            if (entry.service or MAIN_SERVICE) == service:
                self._collect_one(entry, environment)

    def close(self) -> None:
        """Write the manifest, and what the copies do not hold, and let the archives go."""
        self._add_logs_folder()
        self._recorder.write(self._folders.path)
        if self._rows:
            text = json.dumps(self._rows, indent=4, ensure_ascii=False)
            write_whole(self._folders.artifacts_dir / MANIFEST_FILE, text + "\n")
        for archive in self.archives:
            archive.close()
        self.archives.clear()

    def _add_logs_folder(self) -> None:
        """The row of the folder that came home with the other logs, if anything is in it."""
        home = self._folders.artifacts_dir / ARTIFACTS_LOGS.strip("/")
        if not self.takes_logs_folder and home.is_dir() and any(home.iterdir()):
            row = self._row(_LOGS_FOLDER, ARTIFACTS_LOGS.strip("/"))
            self._rows.insert(0, {**row, "type": "directory", "status": "ok"})

    @staticmethod
    def _row(entry: ArtifactEntry, place: str) -> dict[str, Any]:
        return {
            "source": entry.source,
            "destination": f"artifacts/{place}",
            "type": "directory" if entry.source.endswith("/") else "file",
            "status": "skipped",
            "service": entry.service,
            "exclude": list(entry.exclude),
        }

    def _collect_one(self, entry: ArtifactEntry, environment: Environment) -> None:
        source = posixpath.normpath(posixpath.join(environment.workdir, entry.source))
        place = _place(entry, source)
        row = self._row(entry, place)
        self._rows.append(row)
        claim = _Claim(place, source, entry.service or MAIN_SERVICE, bool(entry.exclude))
        holder = next((held for held in self._claims if held.holds_place_of(claim)), None)
        if holder is not None:
            if not holder.holds_bytes_of(claim):
                self._record.note(f"artifact {entry.source}: {holder.place} is claimed already")
                self._fetch(entry, source, None, environment, row)
            return
        self._claims.append(claim)
        target = self._folders.artifacts_dir / place
        row["status"] = self._fetch(entry, source, target, environment, row)
        if row["status"] == ABSENT:
            # Harbor has one word for this and for files that could not be copied.
            row |= {"status": "failed", ABSENT: True}
        row["type"] = "directory" if target.is_dir() else "file"
        if row["type"] == "file":
            row["exclude"] = []  # as in Harbor: nothing can be left out of a file

    def give_up(self, service: str, error: Exception) -> None:
        """Record the artifacts of a service that is gone."""
        self._record.note(f"service {service}: {error}")
        done = sum(row["service"] == service for row in self._rows)
        for entry in [entry for entry in self._entries if entry.service == service][done:]:
            row = self._row(entry, _place(entry, entry.source))
            self._rows.append({**row, "status": "failed"})

    def _fetch(
        self,
        entry: ArtifactEntry,
        source: str,
        target: Path | None,
        environment: Environment,
        row: Mapping[str, Any],
    ) -> str:
        """Bring an artifact home, and keep it for a separate verifier; its status.

        Without a target its place here is taken: then it is for the verifier alone.
        """
        if target is None and not self._packs:
            return "skipped"
        archive = cast("IO[bytes]", tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES))  # noqa: SIM115
        try:
            reports = [
                environment.archive(source, cast("BinaryIO", archive), exclude=entry.exclude)
            ]
            if target is not None:
                reports.append(self._unpack(archive, target))
                self._recorder.add(row, source, archive)
        except FileNotFoundError:
            archive.close()
            self._record.note(f"artifact {entry.source}: not there")
            return "empty" if source == ARTIFACTS_LOGS else ABSENT
        except (TransferError, OSError) as error:
            archive.close()
            self._record.note(f"artifact {entry.source}: {error}")
            return "failed"
        self._keep(archive)
        self._note_skipped(entry, *reports)
        packed = reports[0]
        if not packed.complete:
            return "failed"
        return "ok" if packed.files or source != ARTIFACTS_LOGS else "empty"

    def _unpack(self, archive: IO[bytes], target: Path) -> DownloadReport:
        archive.seek(0)
        return extract(
            iter(partial(archive.read, _CHUNK), b""),
            target,
            limits=DEFAULT_LIMITS,
            filter_data=self._record.redactor.reader,
        )

    def _keep(self, archive: IO[bytes]) -> None:
        if self._packs:
            archive.seek(0)
            self.archives.append(archive)
        else:
            archive.close()

    def _note_skipped(self, entry: ArtifactEntry, *reports: DownloadReport) -> None:
        for report in reports:
            for name, reason in list(report.skipped.items())[:_NAMED]:
                self._record.note(f"artifact {entry.source}: {name} left out: {reason}")
            if not report.complete:
                limits = DEFAULT_LIMITS
                self._record.note(
                    f"artifact {entry.source}: more than {limits.files} files or"
                    f" {limits.total_bytes} bytes; the rest was left out"
                )


def run_hooks(
    hooks: Sequence[CollectConfig],
    environment: Environment,
    record: TrialRecord,
    *,
    service: str = MAIN_SERVICE,
    strict: bool,
) -> None:
    """Run the commands that make a service's artifacts ready; one that fails is noted.

    Raises:
        CollectHookError: A hook failed, and ``strict`` makes that count.
    """
    for hook in hooks:
        if hook.service != service:
            continue
        limit = hook.timeout_sec if hook.timeout_sec > 0 else None
        result = environment.exec(hook.command, user=hook.user, timeout_sec=limit)
        if result.exit_code == 0:
            continue
        end = (
            f"timed out after {hook.timeout_sec:g} s"
            if result.timed_out
            else f"ended with exit status {result.exit_code}"
        )
        message = f"collect hook {hook.command!r} in {service} {end}: {result.output[-1000:]}"
        record.note(message)
        if strict:
            raise CollectHookError(message)


def _is_logs_folder(entry: ArtifactEntry) -> bool:
    return entry.is_in_main and posixpath.normpath(entry.source) == ARTIFACTS_LOGS


def _place(entry: ArtifactEntry, source: str) -> str:
    """Where an artifact goes below ``artifacts/``."""
    return (entry.destination or source).strip("/") or "root"


def _is_below(place: str, folder: str) -> bool:
    return place.startswith(f"{folder}/")
