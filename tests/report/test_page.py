"""The report's file: what is in it, and that nothing of a job can break out of it."""

import base64
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.errors import OptionError
from pytest_harbor.report import page as page_module
from pytest_harbor.report.page import write_report
from pytest_harbor.report.trial import trial_of_properties
from tests.report.large import fill_job
from tests.report.unpacked import BLOCK, blocks

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture
def report(tmp_path: Path) -> Any:
    def write(job: Any, **more: Any) -> Path:
        path = tmp_path / "out" / "report.html"
        write_report(job.path, path, **more)
        return path

    return write


def only_work(path: Path) -> Any:
    (work,) = blocks(path)["trial-0"]["works"]
    return work


def test_the_data_of_a_small_job_are_these(
    job: Any, make_job: Any, report: Any, tmp_path: Path
) -> None:
    fill_job(job, 12)
    before = make_job("before")
    fill_job(before, 12, seed=2)
    text = json.dumps(blocks(report(job, baseline=before.path))["data"], indent=1) + "\n"
    text = text.replace(str(tmp_path), "ROOT")
    golden = GOLDEN / "report.json"
    if os.environ.get("PYTEST_HARBOR_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_only_the_pages_own_code_may_run_and_nothing_is_fetched(job: Any, report: Any) -> None:
    job.trial()
    text = report(job).read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy
    assert policy[1].startswith("default-src 'none'; ")
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    for kind, content in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy[1]
    assert not re.search(r"\b(src|href)\s*=\s*[\"']", text)
    assert re.findall(r"https?://[^\"']*", text) == ["http://www.w3.org/2000/svg"]


def test_a_jobs_texts_stand_nowhere_as_they_are(make_job: Any, report: Any) -> None:
    job = make_job("now")
    evil = "</script><img src=x onerror=alert(1)><!-- data -->$script\u2028\u202e\0"
    job.write("config.json", {"job_name": evil})
    job.trial(task_name=evil, files={"verifier/test-stdout.txt": evil, f"agent/{evil[9:15]}": evil})
    path = report(job)
    text = path.read_text(encoding="utf-8")
    assert "<img" not in text
    assert "\u2028" not in text
    assert "&lt;/script&gt;" in text
    assert text.count("<script>") == 1
    assert len(BLOCK.findall(text)) == 2
    assert blocks(path)["data"]["trials"][0]["task"] == evil


def test_trials_in_any_state_have_a_row(job: Any, report: Any) -> None:
    job.trial("a__aaaaaaa", 1.0)
    job.trial("b__bbbbbbb", 0.0, start=1)
    job.trial("c__ccccccc", None, start=2)
    (job.trial("d__ddddddd", start=3) / "result.json").unlink()
    job.trial("e__eeeeeee", files={"result.json": "{"})
    lost = trial_of_properties("tasks/f/task.toml::oracle", {"category": "skipped"})
    found = blocks(report(job, more=[lost]))
    outcomes = [row["outcome"] for row in found["data"]["trials"]]
    assert outcomes == ["passed", "failed", "task", "unfinished", "unreadable", "skipped"]
    assert found["trial-4"]["problems"][0].startswith("result.json: ")
    assert found["trial-5"]["works"] == []
    assert found["data"]["groups"][0]["trials"] == 5


def test_an_infinite_reward_is_a_number_that_json_has(job: Any, report: Any) -> None:
    job.trial(verifier_result={"rewards": {"reward": 10**400}})
    data = blocks(report(job))["data"]
    assert data["trials"][0]["reward"] > 1e308
    assert data["groups"][0]["mean_reward"]["value"] > 1e308


def test_a_trial_is_shown_with_all_that_it_left_behind(job: Any, report: Any) -> None:
    task = job.task()
    (task / "environment").mkdir()
    (task / "environment" / "run.py").write_text("a = 1\nb = 2\n")
    step = {
        "step_id": 1,
        "source": "agent",
        "message": [{"type": "text", "text": "I look."}, {"type": "image", "source": {}}],
        "reasoning_content": "Hm.",
        "tool_calls": [
            {"function_name": "edit", "arguments": {"old_str": "a", "new_str": "b", "path": "f"}}
        ],
        "observation": {"results": [{"content": "done"}]},
        "metrics": {"prompt_tokens": 5},
    }
    job.trial(
        files={
            "agent/trajectory.json": {"steps": [step]},
            "agent/notes.txt": "noted",
            "artifacts/app/run.py": "a = 1\nb = 3\n",
            "artifacts/app/fix.patch": "--- a\n+++ b\n",
            "artifacts/app/image.png": b"\x89PNG\0",
            "artifacts/manifest.json": [{"source": "/gone", "status": "failed"}],
            "verifier/test-stdout.txt": "1 failed",
            "verifier/ctrf.json": {
                "results": {"tests": [{"name": "t", "status": "failed", "message": "no"}]}
            },
            "network.json": {
                "phases": [
                    {
                        "phase": "agent",
                        "policy": "no-network",
                        "refused": [
                            {"destination": "x.org", "port": 443, "protocol": "tcp", "count": 2}
                        ],
                        "refused_more": 3,
                    }
                ]
            },
            "build.log": "built",
            "exception.txt": "Traceback",
        },
        own={"agent_exit_code": 3, "integrity": {"findings": [{"code": "git", "message": "m"}]}},
    )
    path = report(job)
    work, found = only_work(path), blocks(path)["trial-0"]
    assert work["instruction"] == "Write ok into /app/out.txt."
    (shown,) = work["trajectory"]["steps"]
    assert shown["text"] == "I look.\n[image: ]"
    assert "-a\n+b" in shown["calls"][0]["edit"]
    assert shown["results"] == ["done"]
    assert work["agent_files"]["files"] == [
        {"path": "notes.txt", "size": 5, "kind": "file", "text": "noted"}
    ]
    assert [one["path"] for one in work["artifacts"]["files"]] == [
        "app/fix.patch",
        "app/image.png",
        "app/run.py",
    ]
    assert "text" not in work["artifacts"]["files"][1]
    assert work["missing"] == [{"source": "/gone", "status": "failed"}]
    patch, change = work["diffs"]
    assert patch["path"] == "app/fix.patch"
    assert change["against"] == "environment/run.py"
    assert "-b = 2\n+b = 3" in change["text"]
    assert (work["output"], work["agent_exit"]) == ("1 failed", 3)
    assert work["ctrf"]["tests"] == [{"name": "t", "status": "failed", "message": "no"}]
    assert work["integrity"]["findings"] == [{"code": "git", "message": "m", "remedied": False}]
    assert found["network"]["refused"][0]["destination"] == "x.org"
    assert found["network"]["more"] == 3
    assert found["traceback"] == "Traceback"
    assert [log["path"] for log in found["logs"]] == ["trial.log", "build.log"]


def test_steps_are_shown_in_their_order(job: Any, report: Any) -> None:
    steps = [{"step_name": "zero", "verifier_result": {"rewards": {"reward": 1}}}]
    job.trial(
        step_results=[*steps, {"step_name": "after"}],
        files={
            "steps/after/verifier/test-stdout.txt": "second",
            "steps/zero/verifier/test-stdout.txt": "first",
            "steps/stray/agent/notes.txt": "third",
        },
    )
    works = blocks(report(job))["trial-0"]["works"]
    assert [(one["step"], one["output"]) for one in works] == [
        ("zero", "first"),
        ("after", "second"),
        ("stray", ""),
    ]
    assert works[0]["rewards"] == {"reward": 1}


def test_without_the_task_the_instruction_is_the_trajectorys(job: Any, report: Any) -> None:
    (job.tasks / "hello").mkdir(parents=True)
    (job.tasks / "hello" / "instruction.md").write_text("of no task")
    steps = [{"source": "system", "message": "s"}, {"source": "user", "message": "Do it."}]
    job.trial(files={"agent/trajectory.json": {"steps": steps}})
    work = only_work(report(job))
    assert (work["instruction"], work["instruction_from"]) == ("Do it.", "the trajectory")


def test_links_of_a_trials_folder_are_not_followed(job: Any, report: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = job.trial(files={"verifier/reward.txt": "1", "artifacts/a.txt": "a"})
    for name in ("verifier/test-stdout.txt", "artifacts/link.txt", "exception.txt", "agent"):
        (folder / name).symlink_to(tmp_path if name == "agent" else tmp_path / "secret.txt")
    found = blocks(report(job))["trial-0"]
    assert "secret" not in json.dumps(found)
    assert {"path": "link.txt", "size": None, "kind": "link"} in found["works"][0]["artifacts"][
        "files"
    ]


@pytest.mark.parametrize("content", [b"", b"{", b'{"steps": 5}', b'{"steps": [1, {}, null]}'])
def test_a_broken_trajectory_leaves_the_rest(job: Any, report: Any, content: bytes) -> None:
    job.trial(files={"agent/trajectory.json": content, "verifier/test-stdout.txt": "seen"})
    assert only_work(report(job))["output"] == "seen"


def test_of_long_texts_and_many_steps_the_ends_are_shown(job: Any, report: Any) -> None:
    steps = [{"step_id": n, "source": "agent", "message": "x" * 20_000} for n in range(1, 601)]
    job.trial(
        files={
            "agent/trajectory.json": {"steps": steps},
            "verifier/test-stdout.txt": "begin" + "x" * 200_000 + "end",
        }
    )
    work = only_work(report(job))
    numbers = [step["number"] for step in work["trajectory"]["steps"]]
    assert (numbers[0], numbers[-1], work["trajectory"]["left_out"]) == (1, 600, 200)
    assert len(work["trajectory"]["steps"][0]["text"]) < 17_000
    assert work["output"].startswith("begin")
    assert work["output"].endswith("end")
    assert "bytes not shown" in work["output"]


def test_details_keep_within_their_space(
    job: Any, report: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = 60_000
    monkeypatch.setattr(page_module, "MAX_DETAIL_BYTES", allowed)
    for number in range(20):
        noise = base64.b64encode(os.urandom(60_000)).decode()
        job.trial(f"t{number}__aaaaaaa", files={"verifier/test-stdout.txt": noise})
    found = BLOCK.findall(report(job).read_text(encoding="utf-8"))
    assert len(found) == 21
    assert sum(len(data) for name, data in found if name != "data") <= allowed


def test_a_file_that_cannot_be_written_is_said_and_no_part_of_it_stays(
    job: Any, tmp_path: Path
) -> None:
    job.trial()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OptionError, match=r"folder: cannot be written"):
        write_report(job.path, tmp_path / "folder")
    assert not list(tmp_path.glob(".folder*"))
