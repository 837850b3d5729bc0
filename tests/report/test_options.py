"""The options that write reports at the end of a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.report.conftest import JobMaker
from tests.report.unpacked import blocks


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--harbor-baseline=nowhere"], "--harbor-baseline: */nowhere: expected a job's folder*"),
        (["--harbor-html=."], "--harbor-html: expected a file, * is a folder"),
        (["--harbor-html=x", "--harbor-csv=./x"], "--harbor-html and --harbor-csv are both */x"),
        (["--harbor-jsonl="], "*argument --harbor-jsonl: *"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_runs(
    pytester: pytest.Pytester, options: list[str], words: str
) -> None:
    pytester.makepyfile("def test_it(): raise SystemExit('ran')")
    result = pytester.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{words}"])


def test_a_baseline_in_the_ini_file_is_meant_from_there(pytester: pytest.Pytester) -> None:
    JobMaker(pytester.path / "jobs" / "old").trial()
    pytester.makeini("[pytest]\nharbor_baseline = jobs/old\nharbor_html = r.html\n")
    pytester.mkdir("below")
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest("--rootdir=.", "-c", "tox.ini")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["harbor: no trial ran, so no report was written"])
    assert not (pytester.path / "r.html").exists()


@pytest.mark.docker
def test_a_run_with_workers_is_reported_at_its_end(
    pytester: pytest.Pytester, make_task: Any, engine: Any
) -> None:
    make_task("hello")
    make_task("other", test="#!/bin/bash\nexit 0\n")
    old = JobMaker(pytester.path / "old")
    for name in ("hello", "other"):
        old.trial(f"{name}__aaaaaaa", 0.0, task_name=name, task_id={"path": f"/x/{name}"})
    result = pytester.runpytest_subprocess(
        "-n2", "--harbor-html=r.html", "--harbor-csv=t.csv", "--harbor-jsonl=t.jsonl",
        "--harbor-baseline=old", "tasks",
    )  # fmt: skip
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*harbor: against old*", "oracle: of 1 task *", "*better hello: 0/1 -> 1/1*", "report: *"]
    )
    found = blocks(pytester.path / "r.html")
    rows = {row["task"]: row["outcome"] for row in found["data"]["trials"]}
    assert rows == {"hello": "passed", "other": "task"}
    assert found["data"]["job"]["finished"]
    assert found["data"]["comparison"]["groups"][0]["only_then"] == ["other"]
    lines = (pytester.path / "t.jsonl").read_text().splitlines()
    assert sorted(str(json.loads(line)["reward"]) for line in lines) == ["1.0", "None"]
    assert len((pytester.path / "t.csv").read_text().splitlines()) == 3


@pytest.mark.docker
def test_a_report_that_cannot_be_written_makes_a_run_that_passed_fail(
    pytester: pytest.Pytester, make_task: Any, engine: Any
) -> None:
    make_task("hello")
    Path(pytester.path / "file").write_text("")
    result = pytester.runpytest_subprocess("--harbor-html=file/r.html", "tasks")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["harbor: */file/r.html: cannot be written: *"])
