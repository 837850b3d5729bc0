"""Several trials on behalf of one item, one after the other."""

import xml.etree.ElementTree as ET

import pytest

pytestmark = pytest.mark.docker


def properties(junit) -> list[dict[str, str]]:
    cases = ET.parse(junit).iter("testcase")
    return [{p.get("name"): p.get("value") for p in case.iter("property")} for case in cases]


def test_an_ordinary_test_reports_its_last_trial(make_task, run_tasks, pytester):
    make_task("good")
    make_task("none", test="#!/bin/bash\n:\n")
    pytester.makepyfile(
        """
        def test_two(harbor):
            assert harbor.run("tasks/good").passed
            assert harbor.run("tasks/none").category == "task"
        """
    )
    ran = run_tasks("test_an_ordinary_test_reports_its_last_trial.py", "--junitxml=junit.xml")
    ran.run.assert_outcomes(passed=1)
    (reported,) = properties(pytester.path / "junit.xml")
    assert reported["category"] == "task"
    assert reported["task"] == "none"
    assert not [name for name in reported if name.startswith("reward")]


def test_a_trial_that_is_run_again_counts_once_as_it_ended(make_task, run_tasks, pytester):
    make_task()
    pytester.makeconftest(
        """
        import pytest
        from pytest_harbor import Agent

        class Second(Agent):
            runs = 0

            def run(self, instruction, environment, context):
                Second.runs += 1
                if Second.runs == 2:
                    environment.write("/app/out.txt", "ok")

        @pytest.fixture
        def harbor_agent():
            return Second()
        """
    )
    ran = run_tasks("tasks", "--reruns=2", "--junitxml=junit.xml")
    assert ran.run.ret == 0
    ran.run.stdout.fnmatch_lines(
        ["1 task, 1 trial", "oracle: 1 of 1 valid rewards passed; mean reward 1"]
    )
    assert [result["pytest_harbor"]["passed"] for result in ran.trials["hello"]].count(True) == 1
    assert properties(pytester.path / "junit.xml")[-1]["reward"] == "1.0"
