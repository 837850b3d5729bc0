"""Other plugins' reports tell which trial it was, how it ended and why."""

import html
import json
import re

ORACLE = "tasks/{}/task.toml::oracle"
REASON = "reward 0.25"


def test_pytest_html_has_a_row_per_trial_and_its_failure(project):
    project.task("good")
    project.task("poor")
    loaded = ("html", "html_fixtures", "metadata")
    project.run(loaded, "--html=report.html", "--self-contained-html").assert_outcomes(
        passed=1, failed=1
    )
    page = (project.path / "report.html").read_text()
    (blob,) = re.findall(r'data-jsonblob="([^"]*)"', page)
    rows = json.loads(html.unescape(blob))["tests"]
    found = {test: run["result"] for test, runs in rows.items() for run in runs}
    assert found == {ORACLE.format("good"): "Passed", ORACLE.format("poor"): "Failed"}
    assert REASON in rows[ORACLE.format("poor")][0]["log"]
    assert "run again: " in rows[ORACLE.format("poor")][0]["log"]


def test_json_report_holds_ids_properties_and_the_reason(project):
    project.task("good")
    project.task("poor")
    loaded = ("pytest_jsonreport", "metadata")
    project.run(loaded, "--json-report", "--json-report-file=report.json")
    tests = json.loads((project.path / "report.json").read_text())["tests"]
    assert [(one["nodeid"], one["outcome"]) for one in tests] == [
        (ORACLE.format("good"), "passed"),
        (ORACLE.format("poor"), "failed"),
    ]
    pairs = {name: value for pair in tests[1]["user_properties"] for name, value in pair.items()}
    assert (pairs["reward"], pairs["category"], pairs["agent"]) == (0.25, "reward", "oracle")
    assert REASON in tests[1]["call"]["longrepr"]


def test_reportlog_holds_ids_properties_and_the_reason(project):
    project.task("good")
    project.task("poor")
    project.run((), "--report-log=log.jsonl")
    lines = project.json_lines("log.jsonl")
    calls = {line["nodeid"]: line for line in lines if line.get("when") == "call"}
    assert {nodeid: call["outcome"] for nodeid, call in calls.items()} == {
        ORACLE.format("good"): "passed",
        ORACLE.format("poor"): "failed",
    }
    poor = calls[ORACLE.format("poor")]
    assert ["reward", 0.25] in poor["user_properties"]
    assert REASON in json.dumps(poor["longrepr"])


def test_allure_has_a_result_per_trial_with_its_name_and_status(project):
    project.task("good")
    project.task("poor")
    project.run("allure_pytest", "--alluredir=allure", "--harbor-attempts=2")
    places = sorted((project.path / "allure").glob("*-result.json"))
    results = [json.loads(place.read_text()) for place in places]
    found = sorted((one["fullName"], one["name"], one["status"]) for one in results)
    assert found == [
        (f"tasks.{task}.task#oracle[{n}]", f"oracle[{n}]", status)
        for task, status in (("good", "passed"), ("poor", "failed"))
        for n in (1, 2)
    ]
    assert len({one["historyId"] for one in results}) == 4
    reasons = [one["statusDetails"]["message"] for one in results if one["status"] == "failed"]
    assert all(REASON in reason for reason in reasons)
