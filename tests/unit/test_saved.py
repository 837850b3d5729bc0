"""What is packed of a box's changes, and what stands in the trial's folder of it."""

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest

from pytest_harbor.environment.base import Change
from pytest_harbor.environment.docker.saved import (
    AT_ONCE,
    Root,
    removals,
    require_same_image,
    roots_of,
)
from pytest_harbor.environment.saved import SavedFiles
from pytest_harbor.errors import EnvironmentFault, UnsupportedError
from pytest_harbor.trial.record import TrialRecord
from pytest_harbor.trial.saved import drop_saved, find_saved, hand_on, open_saved, save_files
from pytest_harbor.trial.secrets import Redactor

FILES = SavedFiles("i:1", "sha256:1", built=True, removed=("/etc/motd",), files=1, size=4)


class Box:
    """A box of another backend: what it does is said by the test."""

    def __init__(self, write: Callable[[BinaryIO], None]) -> None:
        self._write = write

    def save_files(self, sink: BinaryIO, *, already: int = 0) -> SavedFiles:
        self._write(sink)
        return FILES

    def start_for(self, *_: Any, **__: Any) -> None:
        raise AssertionError

    def fill(self, *_: Any) -> None:
        raise AssertionError


def save(tmp_path: Path, box: Any, saves: str | None = "all") -> tuple[Path, list[str]]:
    record = TrialRecord(tmp_path, "hello", Redactor(["s3cret-value"]))
    options = SimpleNamespace(saves_files=saves, isolate_except=())
    config = SimpleNamespace(metadata={})
    task = SimpleNamespace(config=config, name="hello", path=tmp_path)
    result = SimpleNamespace(findings=[])
    plan, work = SimpleNamespace(options=options, task=task), SimpleNamespace(name="")
    save_files(plan, record, work, result, box)  # type: ignore[arg-type]
    return record.path, result.findings


def test_what_is_saved_is_found_and_this_users_alone(tmp_path: Path) -> None:
    trial, findings = save(tmp_path, Box(lambda sink: sink.write(b"tar!") and None))
    saved = find_saved(trial)
    assert (saved.files, findings) == (FILES, [])
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (saved.archive.parent, saved.archive)]
    assert modes == [0o700, 0o600]
    other = TrialRecord(tmp_path, "hello", Redactor()).folders()
    hand_on(saved, other)
    assert find_saved(other.path).files == FILES
    drop_saved(trial)
    with pytest.raises(UnsupportedError, match="were not saved"):
        find_saved(trial)


def test_an_archive_that_was_changed_since_is_not_used(tmp_path: Path) -> None:
    trial, _ = save(tmp_path, Box(lambda sink: sink.write(b"tar!") and None))
    saved = find_saved(trial)
    open_saved(saved).close()
    saved.archive.write_bytes(b"other")
    with pytest.raises(UnsupportedError, match="changed since"):
        open_saved(saved)


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), EnvironmentFault("s3cret-value")]
)
def test_a_failure_costs_no_verdict_and_is_told(tmp_path: Path, error: Exception) -> None:
    def fail(sink: BinaryIO) -> None:
        sink.write(b"half")
        raise error

    trial, findings = save(tmp_path, Box(fail))
    assert "not saved for a later grading" in findings[0]
    assert "s3cret" not in findings[0]
    with pytest.raises(UnsupportedError, match="could not be saved"):
        find_saved(trial)
    assert [path.name for path in (trial / "saved").iterdir()] == ["files.json"]


def test_a_backend_that_cannot_is_told_of(tmp_path: Path) -> None:
    assert "cannot save its files" in save(tmp_path, object())[1][0]


def test_nothing_is_touched_where_nothing_is_asked_for(tmp_path: Path) -> None:
    trial, findings = save(tmp_path, object(), saves=None)
    assert (list(trial.iterdir()), findings) == ([], [])


def note(**changed: Any) -> str:
    return json.dumps({"sha256": "0", **FILES.to_json(), **changed})


LAYER = {"name": "tool", "script": "true", "key": "1"}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "[" * 100_000,
        '{"removed": ["etc"]}',
        '{"archive": 1}',
        note(size=float("inf")),
        note(files=-1),
        note(layers=[{**LAYER, "folder": "/tool\nRUN evil"}]),
        note(layers=[{**LAYER, "timeout_sec": "long"}]),
        note(layers=[{**LAYER, "script": None}]),
    ],
)
def test_a_broken_note_is_a_reason_and_no_traceback(tmp_path: Path, text: str) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/files.json").write_text(text)
    with pytest.raises(UnsupportedError, match="cannot be used"):
        find_saved(tmp_path)


def test_a_new_folder_is_packed_whole_and_a_changed_one_by_itself() -> None:
    roots, removed = roots_of(
        [
            Change("/app", "changed", "folder"),
            Change("/app/new", "added", "folder"),
            Change("/app/new/file", "added", "file"),
            Change("/app/new-file", "added", "file"),
            Change("/etc/motd", "deleted"),
            Change("/etc/hosts", "changed", "file"),
        ]
    )
    assert [(one.path, bool(one.takes)) for one in roots] == [
        ("/app", True),
        ("/app/new-file", True),
        ("/app/new", False),
    ]
    assert removed == ["/etc/motd"]


def test_a_folder_made_anew_is_packed_after_it_was_removed() -> None:
    roots, removed = roots_of([Change("/d", "deleted"), Change("/d/x", "added", "file")])
    assert [one.path for one in roots] == ["/d", "/d/x"]
    assert removed == ["/d"]


def test_many_changes_in_a_folder_are_one_request() -> None:
    changes = [Change(f"/app/{n}", "added", "file") for n in range(AT_ONCE + 1)]
    assert roots_of(changes)[0] == [Root("/app", frozenset(one.path for one in changes))]


def test_a_name_that_cannot_be_asked_for_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="UTF-8"):
        roots_of([Change("/etc/\N{REPLACEMENT CHARACTER}", "added", "file")])


def test_what_removing_needs_itself_is_removed_last_and_at_once() -> None:
    needed = ["/usr/bin/rm", "/lib/ld-musl.so.1", "/usr/lib/libc.so.6"]
    many = [f"/usr/share/{number}/{'x' * 200}" for number in range(20_000)]
    batches = list(removals([*needed, *many]))
    assert len(batches) > 1
    assert set(needed) <= set(batches[-1])
    assert sorted(path for batch in batches for path in batch) == sorted([*needed, *many])


def test_an_image_built_again_of_the_same_content_is_the_same() -> None:
    content, other = "0123456789abcdef0123", "f" * 20
    built = replace(FILES, image=f"pytest-harbor/hello:{content}")
    require_same_image(built, f"pytest-harbor/hello:{content}", "sha256:2")
    require_same_image(built, f"pytest-harbor/renamed:{content}", "sha256:2")
    require_same_image(replace(FILES, image="i:1"), "i:2", "sha256:1")
    for then, now in (
        (built, f"pytest-harbor/hello:{other}"),
        (replace(FILES, image="debian:12"), "debian:12"),
        (replace(built, built=False), f"pytest-harbor/hello:{content}"),
    ):
        with pytest.raises(UnsupportedError, match="saved over"):
            require_same_image(then, now, "sha256:2")
