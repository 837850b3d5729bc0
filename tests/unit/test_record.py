"""A trial's folder: its name is its own, its files are whole and hold no secrets."""

import itertools
import json
import os
import random
import re
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.errors import OptionError
from pytest_harbor.result.trial import Fault, TrialResult
from pytest_harbor.trial.record import TrialRecord, trial_name, write_json, write_whole
from pytest_harbor.trial.secrets import Redactor

SECRET = "s3cr3t-value"


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file may grow beyond a size: writing fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def record(tmp_path: Path) -> TrialRecord:
    return TrialRecord(tmp_path / "jobs" / "job", "hello", Redactor([SECRET]))


def result(record: TrialRecord, **changes: Any) -> TrialResult:
    return TrialResult(
        trial_name=record.name,
        trial_dir=record.path,
        task_name="hello",
        task_path=Path("tasks/hello"),
        agent_name="oracle",
        **changes,
    )


# --- names


@given(st.text(max_size=90))
def test_names_are_short_and_fit_for_any_file_system(task: str) -> None:
    name = trial_name(task)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*__[A-Za-z0-9]{7}", name)
    assert len(name) <= 32 + 2 + 7


@pytest.mark.parametrize(
    ("task", "stem"),
    [
        ("hello-world", "hello-world"),
        ("CapsTask", "CapsTask"),
        ("v1.0-x", "v1.0-x"),
        ("my task", "my-task"),
        ("tâche", "t-che"),
        ("x" * 80, "x" * 32),
        ("y" * 31 + "-z", "y" * 31),
        ("..", "task"),
        ("日本語", "task"),
        ("a/../../etc", "a-..-..-etc"),
        ("", "task"),
    ],
)
def test_names_resemble_the_tasks(task: str, stem: str) -> None:
    assert trial_name(task).rpartition("__")[0] == stem


def test_trials_that_begin_at_once_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So few names that many are drawn twice.
    monkeypatch.setattr("pytest_harbor.trial.record.secrets.choice", lambda _: random.choice("ab"))
    with ThreadPoolExecutor(8) as pool:
        records = list(
            pool.map(lambda _: TrialRecord(tmp_path / "job", "hello", Redactor()), range(90))
        )
    assert len({record.path for record in records}) == 90
    assert len({record.id for record in records}) == 90


# --- the folder


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_place_that_is_no_folder_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match=r"file.*; name another place with --harbor-output"):
        TrialRecord(tmp_path / place, "hello", Redactor())


def test_logs_and_notes_hold_no_secrets(record: TrialRecord) -> None:
    with record.open_log(record.path / "agent" / "own.txt") as log:
        log.write(f"the key is {SECRET}".encode())
    record.note(f"agent begins with {SECRET}")
    record.note("odd path " + os.fsdecode(b"x-\xff"))
    assert (record.path / "agent" / "own.txt").read_text() == "the key is [REDACTED]"
    first, second = (record.path / "trial.log").read_text().splitlines()
    assert first.endswith("agent begins with [REDACTED]")
    assert second.endswith(r"odd path x-\udcff")


def test_all_faults_are_in_one_file_and_the_result(record: TrialRecord) -> None:
    faults = [
        Fault("agent", "AgentTimeoutError", f"timed out with {SECRET}"),
        Fault("verifier", "RewardFileNotFoundError", "no reward", traceback="Traceback …\n"),
    ]
    record.write_result(result(record, faults=faults), {"id": record.id})
    text = (record.path / "exception.txt").read_text()
    assert "[agent] AgentTimeoutError: timed out with [REDACTED]" in text
    assert "[verifier] RewardFileNotFoundError: no reward\nTraceback …" in text
    content = json.loads((record.path / "result.json").read_text())
    assert content["exception_info"]["exception_message"] == "timed out with [REDACTED]"
    assert content["id"] == record.id


def test_without_faults_there_is_no_exception_file(record: TrialRecord) -> None:
    record.write_inputs({"id": record.id}, {})
    record.write_result(result(record), {})
    assert not (record.path / "exception.txt").exists()
    assert json.loads((record.path / "config.json").read_text()) == {"id": record.id}
    assert not (record.path / "lock.json").exists()


# --- whole or not at all


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_whole(path, "old")
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        write_whole(path, "x" * 100_000)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_at_all_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_whole(tmp_path / "result.json", 5)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


# --- JSON


class Odd:
    def __str__(self) -> str:
        return f"odd {SECRET}"


def read_back(path: Path, value: dict[Any, Any], *secrets: str) -> Any:
    write_json(path, value, Redactor(secrets))
    return json.loads(path.read_text(), parse_constant=pytest.fail)


def test_values_that_json_does_not_know_become_plain(tmp_path: Path) -> None:
    value = {
        "path": Path("a/b"),
        "numbers": (1, 2.5, True, None),
        "odd": Odd(),
        ("a", 1): "key",
        "no number": [float("nan"), float("inf")],
        "raw": os.fsdecode(b"\xff"),
    }
    assert read_back(tmp_path / "x.json", value, SECRET) == {
        "path": "a/b",
        "numbers": [1, 2.5, True, None],
        "odd": "odd [REDACTED]",
        "('a', 1)": "key",
        "no number": [None, None],
        "raw": "\udcff",
    }


@pytest.mark.parametrize("secret", ['a"quoted\\one', "two\nlines", "name", "1234", "clé-secrète"])
def test_secrets_go_and_the_files_form_stays(tmp_path: Path, secret: str) -> None:
    value = {"name": f"<{secret}>", "number": 1234}
    assert read_back(tmp_path / "x.json", value, secret) == {
        "name": "<[REDACTED]>",
        "number": 1234,
    }


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
_numbers = itertools.count()


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), json_values, max_size=4))
def test_plain_values_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / f"{next(_numbers) % 5}.json"
    assert read_back(path, value) == value
