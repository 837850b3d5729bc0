"""Where a trial is, told by a file that is there while it runs, and by nothing afterwards."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_harbor.environment.image_work import ImageWork
from pytest_harbor.trial.record import TrialRecord
from pytest_harbor.trial.secrets import Redactor
from pytest_harbor.trial.status import FOLDER, TrialStatus, forget_running, read_running

SECRET = "s3cr3t-value"
ITEM = "tasks/hello/task.toml::oracle"


@pytest.fixture
def record(tmp_path: Path) -> TrialRecord:
    return TrialRecord(tmp_path / "job", "hello", Redactor([SECRET]))


def test_a_trial_is_told_from_its_beginning_to_its_end(record: TrialRecord) -> None:
    job, status = record.path.parent, record.status
    assert read_running(job) == []
    status.begin(item=ITEM, run="1f2e3d4c")
    (begun,) = read_running(job)
    assert (begun.item, begun.run, begun.phase) == (ITEM, "1f2e3d4c", "")
    status.phase("agent", "second")
    status.doing("much")
    (now,) = read_running(job)
    assert (now.phase, now.step, now.doing) == ("agent", "second", "much")
    assert begun.started == now.started <= now.since
    status.after("agent")
    assert [(one.phase, one.step, one.doing) for one in read_running(job)] == [
        ("artifacts", "second", "")
    ]
    status.end()
    assert sorted(job.iterdir()) == [record.path]


def test_what_ends_no_phase_of_work_changes_nothing(record: TrialRecord) -> None:
    record.status.begin(item=ITEM, run="r")
    record.status.phase("environment")
    record.status.after("environment")
    assert read_running(record.path.parent)[0].phase == "environment"


def test_a_trial_that_was_not_begun_or_has_ended_is_not_told(record: TrialRecord) -> None:
    record.status.phase("agent")
    record.status.doing("much")
    record.status.begin(item=ITEM, run="r")
    record.status.end()
    record.status.phase("verifier")
    assert sorted(record.path.parent.iterdir()) == [record.path]


def test_no_secret_is_told(record: TrialRecord) -> None:
    record.status.begin(item=ITEM, run="r")
    record.image_work.step(f"2/3 RUN echo {SECRET}")
    (file,) = (record.path.parent / FOLDER).iterdir()
    assert SECRET not in file.read_text()
    assert "2/3 RUN echo" in file.read_text()


def test_trials_come_and_go_at_once(tmp_path: Path) -> None:
    """The folder goes with the last of them, perhaps just when another begins."""

    def run(number: int) -> None:
        status = TrialStatus(tmp_path / FOLDER / f"{number}.json")
        for phase in ("environment", "agent"):
            status.begin(item=f"{number}", run="r")
            status.phase(phase)
            assert any(one.item == f"{number}" for one in read_running(tmp_path))
            status.end()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(40)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"item": 1}', b"\xff", b'{"started": "x"}']
)
def test_what_cannot_be_read_is_left_out(tmp_path: Path, content: bytes) -> None:
    status = TrialStatus(tmp_path / FOLDER / "good.json")
    status.begin(item=ITEM, run="r")
    (tmp_path / FOLDER / "bad.json").write_bytes(content)
    assert [one.item for one in read_running(tmp_path)] == [ITEM]
    forget_running(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_takes_nothing_stops_no_trial(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file in the folder's place")
    status = TrialStatus(tmp_path / FOLDER / "x.json")
    status.begin(item=ITEM, run="r")
    status.phase("agent")
    status.end()
    assert read_running(tmp_path) == []


# --- work on images


def test_work_on_an_image_is_told_and_its_time_kept() -> None:
    told: list[str] = []
    work = ImageWork(told.append)
    with (
        work.waiting("pytest-harbor/hello:0a1b2c"),
        work.doing("build", "pytest-harbor/hello:0a1b"),
    ):
        work.step("2/3 RUN make")
    with pytest.raises(OSError, match="refused"), work.doing("pull", "debian:12"):
        raise OSError("refused")
    assert told == [
        "waiting for hello",
        "building hello",
        "building hello: 2/3 RUN make",
        "",
        "",
        "pulling debian:12",
        "",
    ]
    assert [(one.kind, one.image) for one in work.times] == [
        ("build", "pytest-harbor/hello:0a1b"),
        ("pull", "debian:12"),
    ]
    assert json.dumps(work.times[0].as_json()).startswith('{"kind": "build"')
