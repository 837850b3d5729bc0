"""What can be graded again, and what a verifier's box is given of it."""

import os
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_harbor.errors import EnvironmentFault
from pytest_harbor.task.artifacts import ArtifactEntry
from pytest_harbor.trial.left_behind import EarlierTrial, packed, told, why_not
from pytest_harbor.trial.record import WorkFolders
from pytest_harbor.trial.regrade import _copy

AGENT = {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:01Z"}
ROW = {"source": "/app/out", "destination": "artifacts/app/out", "service": None, "status": "ok"}


def reason(tmp_path: Path, *, box: Any = "own", rows: Any = (ROW,), **more: Any) -> str:
    result, services = more.get("result", {"agent_execution": AGENT}), more.get("services", False)
    work = SimpleNamespace(name="", box=box, artifacts=(ArtifactEntry(source="/app/out"),))
    config = SimpleNamespace(metadata={"needs_services": services})
    task = SimpleNamespace(config=config, name="hello", path=tmp_path)
    plan: Any = SimpleNamespace(
        works=(work,), task=task, options=SimpleNamespace(isolate_except=())
    )
    return why_not(plan, EarlierTrial(tmp_path, result, {} if rows is None else {"": list(rows)}))


def test_a_whole_artifact_is_enough_for_a_separate_verifier(tmp_path: Path) -> None:
    (tmp_path / "artifacts/app").mkdir(parents=True)
    (tmp_path / "artifacts/app/out").write_text("x")
    assert reason(tmp_path) == ""


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"result": {}}, "did not come to work"),
        ({"rows": None}, "have no manifest.json"),
        ({"rows": ()}, "was not collected"),
        ({"rows": ({**ROW, "status": "failed"},)}, "not brought home whole then (failed"),
        ({}, "is gone from the trial's folder"),
        ({"box": None}, "files were not saved"),
        ({"box": None, "services": True}, "what the agent leaves running"),
    ],
)
def test_the_reason_is_told(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    assert words in reason(tmp_path, **more)


CUT = {"category": "environment", "faults": [{"phase": "agent", "type": "KeyboardInterrupt"}]}


@pytest.mark.parametrize(
    ("result", "is_cut"),
    [
        ({"pytest_harbor": CUT}, True),
        ({"step_results": [{"pytest_harbor": CUT}], "pytest_harbor": {**CUT, "faults": []}}, True),
        ({"pytest_harbor": {"category": None}}, True),
        ({"pytest_harbor": {**CUT, "faults": [{"phase": "verifier"}]}}, False),
        ({"pytest_harbor": {**CUT, "category": "reward"}}, False),
        ({}, False),
    ],
)
def test_half_of_an_agents_work_is_not_graded(
    tmp_path: Path, result: dict[str, Any], is_cut: bool
) -> None:
    (tmp_path / "artifacts/app").mkdir(parents=True)
    (tmp_path / "artifacts/app/out").write_text("x")
    said = reason(tmp_path, result={"agent_execution": AGENT, **result})
    assert ("was cut off" in said) is is_cut


@pytest.mark.parametrize(("key", "reward"), [("reward", 0.5), ("style", None)])
def test_an_old_verdict_is_told_by_the_key_that_decides_now(
    tmp_path: Path, key: str, reward: float | None
) -> None:
    plan: Any = SimpleNamespace(options=SimpleNamespace(threshold=1.0, reward_key=key))
    result = {"verifier_result": {"rewards": {"reward": 0.5}}, "pytest_harbor": {"passed": False}}
    old = told(EarlierTrial(tmp_path, result, {}), plan)
    assert (old["reward"], old["rewards"]) == (reward, {"reward": 0.5})


def test_an_artifact_that_was_not_there_is_not_missed(tmp_path: Path) -> None:
    assert reason(tmp_path, rows=({**ROW, "status": "failed", "absent": True},)) == ""


def test_what_is_packed_is_roots_without_rights_or_devices(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts/app/out"
    folder.mkdir(parents=True)
    (folder / "tool").write_text("x")
    (folder / "tool").chmod(0o4755)
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/etc/shadow")
    with packed(tmp_path, ROW) as archive, tarfile.open(fileobj=archive) as tar:
        entries = {one.name: one for one in tar}
    assert set(entries) == {"app/out", "app/out/tool", "app/out/link"}
    assert (entries["app/out/tool"].mode, entries["app/out/tool"].uid) == (0o755, 0)
    assert entries["app/out/link"].issym()


def test_what_cannot_be_copied_is_passed_by_or_told(tmp_path: Path) -> None:
    source = tmp_path / "old"
    (source / "agent").mkdir(parents=True)
    (source / "agent/log").write_text("said")
    (source / "agent/link").symlink_to("/etc/shadow")
    os.mkfifo(source / "agent/pipe")
    _copy(source, WorkFolders(tmp_path / "new"))
    assert sorted(path.name for path in (tmp_path / "new/agent").iterdir()) == ["link", "log"]
    assert (tmp_path / "new/agent/link").is_symlink()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/agent").write_text("no folder")
    with pytest.raises(EnvironmentFault, match="cannot be copied"):
        _copy(source, WorkFolders(tmp_path / "full"))


@pytest.mark.parametrize("place", ["artifacts/../../outside", "artifacts/link"])
def test_nothing_outside_of_the_artifacts_is_packed(tmp_path: Path, place: str) -> None:
    trial = tmp_path / "trial"
    (trial / "artifacts").mkdir(parents=True)
    (tmp_path / "outside").write_text("secret")
    (trial / "artifacts/link").symlink_to(tmp_path / "outside")
    row = {**ROW, "destination": place}
    with packed(trial, row) as archive, tarfile.open(fileobj=archive) as tar:
        assert tar.getnames() == []
