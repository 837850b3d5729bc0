"""The items of ``--harbor-check``: their ids, outcomes, reports and exit status."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# What inner runs need is loaded once: each starts with the modules that are there now.
import pytest_harbor.plugin.check_items
import pytest_harbor.plugin.check_report  # noqa: F401

CONFTEST = """
import pytest
from pytest_harbor.plugin import engine

engine.require = lambda config, first=None: None
"""


class Project:
    """A project whose tasks are checked without an engine, unless a test has one."""

    def __init__(self, pytester: pytest.Pytester, task: Callable[..., Path]) -> None:
        self.pytester = pytester
        self.task = task
        self.ini()

    def ini(self, *lines: str) -> None:
        self.pytester.makeini("\n".join(["[pytest]", "filterwarnings = default", *lines]))

    def run(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess("-p", "no:hypothesispytest", *args)

    def ids(self, *args: str) -> list[str]:
        lines = self.run("--collect-only", "-q", *args).outlines
        return [line.partition("::")[2] for line in lines if "::" in line]


@pytest.fixture
def project(pytester: pytest.Pytester, make_task: Callable[..., Path]) -> Project:
    return Project(pytester, make_task)


def test_ids(project: Project) -> None:
    project.task("hello", solve="#!/bin/bash\ntouch a\ntouch b\n")
    assert project.ids("--harbor-check") == ["check", "oracle", "nop"]
    assert project.ids("--harbor-check", "--harbor-attempts=2") == [
        "check",
        "oracle[1]",
        "oracle[2]",
        "nop",
    ]
    assert project.ids("--harbor-check=full") == [
        *("check", "oracle", "nop", "planted-reward", "mutant-1", "mutant-2", "verifier-time")
    ]
    assert project.ids("--harbor-check=static") == ["check"]
    assert project.ids("--harbor-check", "tasks/hello/task.toml::nop") == ["nop"]


def test_grading_without_network_where_the_task_claims_it(project: Project) -> None:
    project.task("hello", toml='network_mode = "no-network"\n')
    assert "no-network-grading" in project.ids("--harbor-check=full")


def test_a_folder_after_the_option_is_no_mode(project: Project) -> None:
    project.task()
    project.run("--harbor-check=static", "tasks").assert_outcomes(passed=1)
    assert project.ids("--harbor-check", "tasks") == ["check", "oracle", "nop"]


def test_the_ini_file_asks_too(project: Project) -> None:
    project.task()
    project.ini("harbor_check = static")
    assert project.ids() == ["check"]


def test_a_sound_task_passes_its_static_checks(project: Project) -> None:
    project.task()
    result = project.run("--harbor-check=static")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*= harbor check =*", "1 task: no findings"])


def test_errors_fail_with_all_findings(project: Project) -> None:
    project.task(toml="memroy = 1\n", dockerfile="FROM ubuntu\nRUN pip install numpy\n")
    result = project.run("--harbor-check=static")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "tasks/hello/environment/Dockerfile:1: error: ubuntu: no tag*[[]unpinned-image[]]",
            "tasks/hello/task.toml:8: error: environment.memroy: unknown key*[[]unknown-field[]]",
            "tasks/hello/environment/Dockerfile:2: warning: numpy*[[]unpinned-package[]]",
        ]
    )


def test_warnings_pass_and_are_shown(project: Project) -> None:
    project.task(dockerfile="FROM ubuntu:24.04\nWORKDIR /app\nRUN pip install numpy\n")
    result = project.run("--harbor-check=static")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 task: 1 warning", "*Dockerfile:3: warning: numpy*"])


def test_a_broken_task_is_one_failed_item(project: Project) -> None:
    project.task("bad", toml="=a = \n")
    project.task("good")
    result = project.run("--harbor-check=static")
    result.assert_outcomes(passed=1, failed=1)
    assert project.ids("--harbor-check", "tasks/bad") == ["check"]


def test_what_is_switched_off_is_told(project: Project) -> None:
    project.task(toml='[metadata]\nharbor_ignore = ["unpinned-image"]\n', dockerfile="FROM a\n")
    result = project.run("--harbor-check=static")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["switched off: unpinned-image: 1 in tasks/hello/*"])


def test_the_rules_of_the_ini_file(project: Project) -> None:
    project.task()
    project.ini(
        "harbor_check_metadata = category difficulty=easy|hard",
        "harbor_check_severity = metadata-missing=warning",
        "harbor_check_agent_timeout = 100-200",
        "harbor_check_ignore = timeout-range",
    )
    result = project.run("--harbor-check=static")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 task: 2 warnings", "switched off: timeout-range: 1 in *"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("harbor_check = yes", "*harbor_check: expected on, full or static, got 'yes'*"),
        ("harbor_check_ignore = liter", "*harbor_check_ignore: no check has the code 'liter'*"),
        ("harbor_check_agent_timeout = 5", "*harbor_check_agent_timeout: expected two numbers*"),
    ],
)
def test_a_wrong_rule_stops_the_run(project: Project, line: str, message: str) -> None:
    project.task()
    flags = [] if line.startswith("harbor_check =") else ["--harbor-check"]
    project.ini(line)
    result = project.run(*flags)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_check_chooses_its_agents(project: Project) -> None:
    result = project.run("--harbor-check", "--harbor-agent=nop")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--harbor-check chooses its agents itself*--harbor-agent*"])


def test_checks_of_a_conftest(project: Project) -> None:
    project.task()
    project.pytester.makeconftest(
        """
        from pytest_harbor.errors import Problem

        def pytest_harbor_check_task(task):
            return [Problem(task.config_file, "not by me", line=1)]
        """
    )
    result = project.run("--harbor-check=static")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*task.toml:1: error: not by me [[]house-check[]]"])


def test_near_copies_among_the_tasks(project: Project) -> None:
    text = " ".join(f"word{n}" for n in range(100))
    project.task("a", instruction=text)
    project.task("b", instruction=text)
    result = project.run("--harbor-check=static", "tasks/a")
    result.stdout.fnmatch_lines(["*warning: 100% of the text is that of b;*"])


@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["one process", "xdist"])
def test_findings_are_on_the_reports(project: Project, workers: list[str]) -> None:
    project.task("bad", dockerfile="FROM ubuntu\n")
    project.task("good", instruction="Put ok where you are told to.\n")
    project.pytester.makeconftest(
        """
        import json

        class Reports:
            def pytest_runtest_logreport(self, report):
                if report.when == "call":
                    with open("found.json", "a") as file:
                        file.write(json.dumps(report.harbor_findings) + "\\n")

        def pytest_configure(config):
            if not hasattr(config, "workerinput"):
                config.pluginmanager.register(Reports())
        """
    )
    args = ["-p", "no:hypothesispytest", "--harbor-check=static", *workers]
    result = project.pytester.runpytest_subprocess(*args)
    result.assert_outcomes(passed=1, failed=1)
    lines = (project.pytester.path / "found.json").read_text().splitlines()
    (found,) = [one for line in lines for one in json.loads(line)]
    assert found["file"] == "tasks/bad/environment/Dockerfile"
    assert (found["code"], found["severity"], found["line"]) == ("unpinned-image", "error", 1)


def test_the_summary_gives_no_rates_of_what_a_check_tried(project: Project) -> None:
    project.task()
    project.pytester.makeconftest(CONFTEST)
    text = project.run("--harbor-check").stdout.str()
    assert "= harbor =" in text
    assert "valid reward" not in text


def test_a_skipped_trial_proves_nothing(project: Project) -> None:
    project.task()
    project.pytester.makeconftest(
        CONFTEST
        + """
@pytest.fixture
def harbor_trial():
    pytest.skip("no such machine")
"""
    )
    result = project.run("--harbor-check")
    result.assert_outcomes(passed=1, skipped=2)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["not proven: tasks/hello/task.toml::oracle: no such machine"])


class Judged:
    """A project whose trials really run."""

    def __init__(self, pytester: pytest.Pytester, task: Callable[..., Path]) -> None:
        self.pytester = pytester
        self.task = task
        pytester.makeini("[pytest]\nfilterwarnings = default\n")

    def run(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess("-p", "no:hypothesispytest", *args)


@pytest.fixture
def judged(pytester: pytest.Pytester, make_task: Callable[..., Path], engine: Any) -> Judged:
    return Judged(pytester, make_task)


@pytest.mark.docker
def test_sound_and_unsound_tasks(judged: Judged) -> None:
    judged.task("sound")
    judged.task("free", test="#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n")
    judged.task("fails", solve="#!/bin/bash\necho ok > /app/out.txt\nexit 3\n")
    result = judged.run("--harbor-check", "-k", "not fails or oracle")
    result.assert_outcomes(passed=5, failed=2)
    assert result.ret == 1
    result.stdout.fnmatch_lines_random(
        [
            "the task passes without doing anything",
            "the task's own solution passes, but exits with status 3",
            "FAILED tasks/free/task.toml::nop*",
            "FAILED tasks/fails/task.toml::oracle*",
        ]
    )


@pytest.mark.docker
def test_probes(judged: Judged) -> None:
    judged.task(
        solve="#!/bin/bash\necho more > /app/more.txt\necho ok > /app/out.txt\n",
        instruction="Read `/app/lost/input.txt`, write ok into /app/out.txt.\n",
    )
    result = judged.run("--harbor-check=full", "-k", "nop or planted or mutant")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines_random(
        [
            "the tests do not need line 2 of solve.sh: they pass without",
            "*instruction.md:1: warning: /app/lost/input.txt: the built image lacks it*",
        ]
    )


@pytest.mark.docker
@pytest.mark.long
def test_a_flaky_oracle_is_named(judged: Judged) -> None:
    judged.task()
    judged.pytester.makeconftest(
        """
        def pytest_harbor_before_phase(item, phase, environment):
            if phase == "verifier" and item.name == "oracle[2]":
                environment.exec("rm /app/out.txt", user="root")
        """
    )
    result = judged.run("--harbor-check", "--harbor-attempts=2", "-k", "oracle")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["flaky: tasks/hello/task.toml: the oracle passed 1 of 2"])
