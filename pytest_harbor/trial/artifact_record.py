"""What copies of artifacts on this machine do not hold: owners, modes, times and links.

It stands in a file beside ``artifacts/``, so that a later grading gives a verifier what the first
one had. As the file may come from anybody, all of it is checked before any of it is used.
"""

from __future__ import annotations

import json
import os
import posixpath
import stat
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_harbor.environment.extraction import printable, relative_name
from pytest_harbor.environment.repack import leads_out
from pytest_harbor.errors import TrajectoryFormatError, UnsupportedError
from pytest_harbor.result.trajectory_reader import load_json, problems_of, read_bounded
from pytest_harbor.trial.record import write_whole
from pytest_harbor.trial.secrets import Redactor

RECORD_FILE = "artifacts.json"
"""In the trial's folder, or a step's."""
MAX_BYTES = 64 * 1024**2
MAX_ENTRIES = 100_000
"""Of all artifacts of a step; those that would be more are not recorded."""
_MAX_NAME_BYTES = 8 * 1024**2
"""Of all names and links, each of them at most six times as long in the file."""
_UNLINKED = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_STRICT = ConfigDict(frozen=True, strict=True)

_Id = Annotated[int, Field(ge=0, lt=2**32)]
_KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.DIRTYPE: "folder",
    tarfile.SYMTYPE: "link",
    tarfile.LNKTYPE: "same",
}
_TYPES = {kind: letter for letter, kind in _KINDS.items()}


class Entry(BaseModel):
    """A file, folder or link of an artifact, as it was in the agent's container."""

    model_config = _STRICT

    path: str
    """Below the artifact; empty for the artifact itself."""
    type: Literal["file", "folder", "link", "same"]
    """``same`` is another name of a file."""
    mode: Annotated[str, Field(pattern="^[0-7]{1,3}$")]
    uid: _Id
    gid: _Id
    mtime: Annotated[float, Field(ge=0, le=2**40)]
    target: str = ""
    """Where a link leads, or the file's first name below the artifact."""


class RecordedArtifact(BaseModel):
    """One artifact; its first three fields are those of its row in the manifest."""

    model_config = _STRICT

    source: str
    service: str | None
    destination: str
    path: str
    """Where it was in the container."""
    entries: list[Entry] = []
    """Folders before their content."""
    not_recorded: str = ""
    """Why there are no entries."""

    def gone_from(self, place: Path) -> str:
        """A path whose file or folder is not in a copy on this machine; empty: all are."""
        looks = {"file": stat.S_ISREG, "folder": stat.S_ISDIR}
        for entry in self.entries:
            if is_it := looks.get(entry.type):
                path = place / entry.path if entry.path else place
                try:
                    there = is_it(path.lstat().st_mode)
                except (OSError, ValueError):
                    there = False
                if not there:
                    return posixpath.join(self.path, entry.path).rstrip("/")
        return ""

    def pack(self, tar: tarfile.TarFile, place: Path) -> None:
        """Add a copy on this machine to an archive, as it was in the container.

        Raises:
            UnsupportedError: A file is not there, or cannot be read.
        """
        for entry in self.entries:
            info = tarfile.TarInfo(self._name(entry.path))
            info.type, info.mode = _TYPES[entry.type], int(entry.mode, 8)
            info.uid, info.gid, info.mtime = entry.uid, entry.gid, entry.mtime
            if entry.type != "file":
                info.linkname = self._name(entry.target) if entry.type == "same" else entry.target
                tar.addfile(info)
                continue
            path = place / entry.path if entry.path else place
            try:
                with os.fdopen(os.open(path, _UNLINKED), "rb") as file:
                    info.size = os.fstat(file.fileno()).st_size
                    tar.addfile(info, file)
            except OSError as error:
                raise UnsupportedError(f"{path} cannot be read: {error.strerror}") from None

    def _name(self, path: str) -> str:
        return posixpath.join(self.path.strip("/"), path) if path else self.path.strip("/")

    def fault(self) -> str:
        """What no container can have held, or no copy may be made of; empty: nothing."""
        if not self.path.startswith("/") or not _is_plain(self.path[1:]):
            return f"path {self.path[:80]!r} is not absolute and plain"
        kinds: dict[str, str] = {}
        for entry in self.entries:
            if reason := _fault_of(entry, kinds):
                return f"entry {entry.path[:80]!r} {reason}"
            kinds[entry.path] = entry.type
        return ""


def _fault_of(entry: Entry, kinds: Mapping[str, str]) -> str:
    """What is wrong with an entry, after those before it."""
    if not _is_plain(entry.path):
        return "is not relative and plain"
    if entry.path in kinds:
        return "is there twice"
    # So no folder on the way to a file is a link.
    if entry.path and kinds.get(posixpath.dirname(entry.path)) != "folder":
        return "comes before its folder"
    if entry.type == "same" and kinds.get(entry.target) != "file":
        return "is another name of no file"
    if entry.type == "link" and (
        not entry.path or "\0" in entry.target or leads_out(entry.path, entry.target)
    ):
        return "leads out of the artifact"
    return ""


def _is_plain(path: str) -> bool:
    parts = path.split("/") if path else ()
    return "\0" not in path and not any(part in ("", ".", "..") for part in parts)


class _Record(BaseModel):
    model_config = _STRICT

    artifacts: list[RecordedArtifact]


class ArtifactRecorder:
    """Gathers what the copies of a step's artifacts do not hold, and writes it."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._found: list[RecordedArtifact] = []
        self._left, self._names_left = MAX_ENTRIES, _MAX_NAME_BYTES

    def add(self, row: Mapping[str, Any], source: str, archive: IO[bytes]) -> None:
        """Take an artifact.

        Args:
            row: Its row in the manifest.
            source: Where it was, from the root.
            archive: It, packed for another environment.
        """
        known = {key: row[key] for key in ("source", "service", "destination")}
        try:
            found = RecordedArtifact(**known, path=source, entries=self._entries(archive, source))
            if reason := found.fault():
                raise ValueError(reason)
        except ValueError as error:  # also what a field cannot hold
            reason = self._redactor.text(str(error))
            found = RecordedArtifact(**known, path=source, not_recorded=reason)
        self._found.append(found)

    def write(self, folder: Path) -> None:
        """Write the record into the step's folder, if there is something to write."""
        if self._found:
            found = [one.model_dump(exclude_defaults=True) for one in self._found]
            # An entry a line: short, and to be read by people.
            lines = ",\n".join(_lines(one) for one in found)
            write_whole(folder / RECORD_FILE, f'{{"artifacts": [\n{lines}\n]}}\n')

    def _entries(self, archive: IO[bytes], source: str) -> list[Entry]:
        archive.seek(0)
        entries = []
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for entry in _read(tar, posixpath.normpath(source).strip("/")):
                entries.append(entry)
                self._names_left -= len(os.fsencode(entry.path + entry.target))
                if len(entries) > self._left or self._names_left < 0:
                    raise ValueError(f"more than {MAX_ENTRIES} files, or too long names")
        self._left -= len(entries)
        names = "\n".join(f"{entry.path}\n{entry.target}" for entry in entries)
        if self._redactor.text(names) != names:
            raise ValueError("a name or a link holds a secret")
        return entries


def _read(tar: tarfile.TarFile, root: str) -> Iterator[Entry]:
    while (member := tar.next()) is not None:
        tar.members = []  # type: ignore[attr-defined, unused-ignore]
        target = member.linkname
        if member.islnk():
            target = relative_name(target, root) or ""
        path = relative_name(member.name, root) or ""
        # No copy has a name that is no text: so written, it is found missing.
        yield Entry(
            path=path if _is_text(path) else printable(path),
            type=_KINDS[member.type],
            mode=f"{member.mode & 0o777:o}",
            uid=member.uid,
            gid=member.gid,
            mtime=member.mtime,
            target=target,
        )


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _lines(artifact: dict[str, Any]) -> str:
    entries = artifact.pop("entries", [])
    head = json.dumps(artifact)[:-1]
    return f'{head}, "entries": [\n' + ",\n".join(map(json.dumps, entries)) + "\n]}"


def read_record(folder: Path) -> list[RecordedArtifact]:
    """What was recorded of a step's artifacts; empty where nothing was, as in older jobs.

    Args:
        folder: The step's, or of a single-step trial.

    Raises:
        UnsupportedError: The record cannot be used; says why.
    """
    file = folder / RECORD_FILE
    if not os.path.lexists(file):
        return []
    try:
        found = _Record.model_validate(load_json(read_bounded(file, MAX_BYTES))).artifacts
    except TrajectoryFormatError as error:
        raise UnsupportedError(f"{RECORD_FILE}: {error}") from None
    except ValidationError as error:
        raise UnsupportedError(f"{RECORD_FILE}: {'; '.join(problems_of(error))}") from None
    if sum(len(one.entries) for one in found) > MAX_ENTRIES:
        raise UnsupportedError(f"{RECORD_FILE}: expected at most {MAX_ENTRIES} entries, got more")
    for number, one in enumerate(found):
        if reason := one.fault():
            raise UnsupportedError(f"{RECORD_FILE}: artifacts[{number}]: {reason}")
    return found


def recorded_of(row: Mapping[str, Any], record: list[RecordedArtifact]) -> RecordedArtifact | None:
    """What was recorded of the artifact of a manifest's row; None where nothing was."""
    wanted = row.get("source"), row.get("service"), row.get("destination")
    for one in record:
        if (one.source, one.service, one.destination) == wanted and not one.not_recorded:
            return one
    return None
