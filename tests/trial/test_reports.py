"""Properties in JUnit XML and the report log, with and without workers (case 38)."""

import json
import xml.etree.ElementTree as ET

import pytest

pytestmark = pytest.mark.docker


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_properties_reach_the_reports(make_task, run_tasks, pytester, workers):
    make_task("good")
    make_task("none", test="#!/bin/bash\n:\n")
    ran = run_tasks(
        "tasks", "-W", "error", "--junitxml=junit.xml", "--report-log=report.json", *workers
    )
    ran.run.assert_outcomes(passed=1, failed=1)
    cases = {
        case.get("classname"): {
            entry.get("name"): entry.get("value") for entry in case.iter("property")
        }
        for case in ET.parse(pytester.path / "junit.xml").iter("testcase")
    }
    good, none = cases["tasks.good.task.toml"], cases["tasks.none.task.toml"]
    assert good["reward"] == "1.0"
    assert good["reward.reward"] == "1.0"
    assert good["category"] == "reward"
    assert good["agent"] == "oracle"
    assert good["attempt"] == "1"
    assert float(good["seconds.environment"]) > 0
    assert good["trial"] == str(ran.folder("good"))
    assert "reward" not in none
    assert none["category"] == "task"
    lines = [json.loads(line) for line in (pytester.path / "report.json").read_text().splitlines()]
    calls = [line for line in lines if line.get("when") == "call"]
    assert {dict(line["user_properties"])["category"] for line in calls} == {"reward", "task"}


@pytest.mark.long
def test_summary_and_job_are_the_same_with_workers(make_task, run_tasks, pytester):
    for number in range(3):
        make_task(f"t{number}")
    ran = run_tasks("tasks", "-n2", "--harbor-agent=oracle", "--harbor-agent=nop")
    ran.run.assert_outcomes(passed=3, failed=3)
    ran.run.stdout.fnmatch_lines(
        [
            "3 tasks, 6 trials",
            "oracle       3  3 of 3 *1.00  1.00 [[]0.44, 1.00[]]",
            "nop          3  0 of 3 *0.00  0.00 [[]0.00, 0.56[]]",
            "results: */jobs/*",
        ]
    )
    (job,) = pytester.path.glob("jobs/*/result.json")
    content = json.loads(job.read_text())
    assert content["n_total_trials"] == 6
    assert content["finished_at"]
    assert set(content["stats"]["evals"]) == {"oracle__adhoc", "nop__adhoc"}
