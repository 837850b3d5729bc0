"""What is recorded of artifacts beside their copies, and what is made of such a record."""

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.environment.extraction import extract
from pytest_harbor.environment.values import DEFAULT_LIMITS
from pytest_harbor.errors import UnsupportedError
from pytest_harbor.trial import artifact_record
from pytest_harbor.trial.artifact_record import (
    RECORD_FILE,
    ArtifactRecorder,
    RecordedArtifact,
    read_record,
    recorded_of,
)
from pytest_harbor.trial.left_behind import packed
from pytest_harbor.trial.secrets import Redactor

ROW = {"source": "out", "destination": "artifacts/x", "service": None, "status": "ok"}
WHERE = {"source": "out", "destination": "artifacts/x", "service": None, "path": "/app/out"}
PLAIN = {"mode": "755", "uid": 1500, "gid": 1501, "mtime": 1}
TOP = {"path": "", "type": "folder", **PLAIN}


def archive_of(*members: tuple[str, bytes, dict[str, Any]]) -> io.BytesIO:
    """An archive as a box gives it: name, content, other fields."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, fields in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
    packed.seek(0)
    return packed


OWNED = {"uid": 1500, "gid": 1501, "mtime": 1700000000.25}
TREE = (
    ("app/out", b"", {**OWNED, "type": tarfile.DIRTYPE, "mode": 0o700}),
    ("app/out/a", b"", {**OWNED, "type": tarfile.DIRTYPE, "mode": 0o555}),
    ("app/out/a/tool", b"run", {**OWNED, "mode": 0o750}),
    ("app/out/a/twin", b"", {"type": tarfile.LNKTYPE, "linkname": "app/out/a/tool", "mode": 0o750}),
    ("app/out/hidden", b"x", {**OWNED, "uid": 2**32 - 2, "mode": 0o000}),
    ("app/out/link", b"", {**OWNED, "type": tarfile.SYMTYPE, "linkname": "a/tool", "mode": 0o777}),
)


def brought_home(folder: Path, *members: Any, secrets: tuple[str, ...] = ()) -> None:
    """Copy and record an artifact as a trial does."""
    archive = archive_of(*members)
    extract([archive.getvalue()], folder / "artifacts/x", limits=DEFAULT_LIMITS)
    recorder = ArtifactRecorder(Redactor(secrets))
    recorder.add(ROW, "/app/out", archive)
    recorder.write(folder)


def test_what_comes_home_goes_back_as_it_was(tmp_path: Path) -> None:
    brought_home(tmp_path, *TREE)
    (tmp_path / "artifacts/x/added").write_text("by somebody else")
    recorded = recorded_of(ROW, read_record(tmp_path))
    assert recorded is not None
    assert recorded.gone_from(tmp_path / "artifacts/x") == ""
    with packed(tmp_path, ROW, recorded) as archive, tarfile.open(fileobj=archive) as tar:
        found = [
            (one.name, one.type, one.mode, one.uid, one.gid, one.mtime, one.linkname)
            for one in tar.getmembers()
        ]
        assert tar.extractfile("app/out/a/twin").read() == b"run"  # type: ignore[union-attr]
    with tarfile.open(fileobj=archive_of(*TREE)) as tar:
        assert found == [
            (one.name, one.type, one.mode, one.uid, one.gid, one.mtime, one.linkname)
            for one in tar.getmembers()
        ]


def test_a_lone_file_goes_back_as_it_was(tmp_path: Path) -> None:
    brought_home(tmp_path, ("app/out", b"run", {**OWNED, "mode": 0o711}))
    recorded = recorded_of(ROW, read_record(tmp_path))
    with packed(tmp_path, ROW, recorded) as archive, tarfile.open(fileobj=archive) as tar:
        (one,) = tar
    assert (one.name, one.mode, one.uid, one.gid) == ("app/out", 0o711, 1500, 1501)


@pytest.mark.parametrize("name", ["a\nb", os.fsdecode(b"a\xff")])
def test_a_file_that_could_not_come_home_is_missed(tmp_path: Path, name: str) -> None:
    brought_home(tmp_path, TREE[0], (f"app/out/{name}", b"x", {}))
    (recorded,) = read_record(tmp_path)
    assert recorded.gone_from(tmp_path / "artifacts/x").startswith("/app/out/a")


@pytest.mark.parametrize("kind", ["gone", "link", "folder", "pipe"])
def test_a_file_that_is_another_thing_now_is_missed(tmp_path: Path, kind: str) -> None:
    brought_home(tmp_path, *TREE)
    (recorded,) = read_record(tmp_path)
    tool = tmp_path / "artifacts/x/a/tool"
    tool.unlink()
    if kind == "link":
        tool.symlink_to("/etc/passwd")
    elif kind == "folder":
        tool.mkdir()
    elif kind == "pipe":
        os.mkfifo(tool)
    assert recorded.gone_from(tmp_path / "artifacts/x") == "/app/out/a/tool"


def test_no_secret_gets_into_a_record(tmp_path: Path) -> None:
    secret = "sk-0123456789abcdef"
    link = {"type": tarfile.SYMTYPE, "linkname": secret}
    brought_home(tmp_path, TREE[0], ("app/out/link", b"", link), secrets=(secret,))
    assert secret not in (tmp_path / RECORD_FILE).read_text()
    (found,) = read_record(tmp_path)
    assert "secret" in found.not_recorded
    assert recorded_of(ROW, [found]) is None


def test_too_many_files_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_record, "MAX_ENTRIES", 5)
    brought_home(tmp_path, *TREE)
    (found,) = read_record(tmp_path)
    assert (found.entries, "more than 5" in found.not_recorded) == ([], True)


def test_an_older_job_has_no_record(tmp_path: Path) -> None:
    assert read_record(tmp_path) == []


def entry(path: str, **fields: Any) -> dict[str, Any]:
    return {**PLAIN, "path": path, "type": "file", **fields}


@pytest.mark.parametrize(
    ("artifact", "words"),
    [
        ({**WHERE, "path": "app"}, "not absolute"),
        ({**WHERE, "path": "/app/../etc"}, "not absolute and plain"),
        ({**WHERE, "entries": [TOP, entry("../x")]}, "not relative and plain"),
        ({**WHERE, "entries": [TOP, entry("/etc/x")]}, "not relative and plain"),
        ({**WHERE, "entries": [TOP, entry("a\0b")]}, "not relative and plain"),
        ({**WHERE, "entries": [TOP, entry("a"), entry("a")]}, "there twice"),
        ({**WHERE, "entries": [TOP, entry("a/b")]}, "before its folder"),
        (
            {**WHERE, "entries": [TOP, entry("a", type="link", target="b"), entry("a/b")]},
            "before its folder",
        ),
        ({**WHERE, "entries": [TOP, entry("a", type="link", target="/etc")]}, "leads out"),
        ({**WHERE, "entries": [TOP, entry("a", type="link", target="../b")]}, "leads out"),
        ({**WHERE, "entries": [entry("", type="link", target="b")]}, "leads out"),
        ({**WHERE, "entries": [TOP, entry("a", type="same", target="b")]}, "of no file"),
        ({**WHERE, "entries": [entry("", mode="4755")]}, "mode"),
        ({**WHERE, "entries": [entry("", uid=-1)]}, "uid"),
        ({**WHERE, "entries": [entry("", gid=2**32)]}, "gid"),
        ({**WHERE, "entries": [entry("", gid=True)]}, "gid"),
        ({**WHERE, "entries": [entry("", mtime=1e30)]}, "mtime"),
        ({**WHERE, "entries": [entry("", type="device")]}, "type"),
        ({**WHERE, "entries": 3}, "entries"),
        (7, "artifacts"),
    ],
)
def test_a_record_that_is_none_is_told_of(tmp_path: Path, artifact: Any, words: str) -> None:
    (tmp_path / RECORD_FILE).write_text(json.dumps({"artifacts": [artifact]}))
    with pytest.raises(UnsupportedError, match=words) as told:
        read_record(tmp_path)
    assert RECORD_FILE in str(told.value)


def test_a_record_is_read_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / RECORD_FILE
    file.write_text(json.dumps({"artifacts": [{**WHERE, "entries": [TOP, entry("a")]}]}))
    assert len(read_record(tmp_path)[0].entries) == 2
    monkeypatch.setattr(artifact_record, "MAX_ENTRIES", 1)
    with pytest.raises(UnsupportedError, match="at most 1 entries"):
        read_record(tmp_path)
    monkeypatch.setattr(artifact_record, "MAX_BYTES", 20)
    with pytest.raises(UnsupportedError, match="larger than"):
        read_record(tmp_path)
    file.unlink()
    file.symlink_to("/etc/passwd")
    with pytest.raises(UnsupportedError):
        read_record(tmp_path)


def test_a_file_that_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts/x").symlink_to("/etc/passwd")
    recorded = RecordedArtifact.model_validate({**WHERE, "entries": [entry("")]})
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as tar, pytest.raises(UnsupportedError):
        recorded.pack(tar, tmp_path / "artifacts/x")
