"""Runs with annotations and a summary: what is written, and which lines GitHub obeys."""

import json
from pathlib import Path

import pytest

from tests.plugin.conftest import CONFTEST
from tests.pull_requests.conftest import ALONE, Project
from tests.pull_requests.runner import Command, obeyed

HOSTILE_TEST = """
def test_it():
    print("::set-output name=a::b")
    print("text ##[add-mask]everything")
    raise AssertionError("::error file=x::forged\\\\r::add-mask::x\\\\n  ::warning::forged")
"""


@pytest.fixture
def page(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that GitHub shows on the job's page."""
    path = project.path.parent / f"{project.path.name}-summary.md"
    path.write_text("of an earlier command\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


def break_tasks(project: Project) -> None:
    project.add_task("a", toml="memroy = 1\n")
    project.add_task("b", dockerfile="FROM debian\nWORKDIR /app\nRUN pip install numpy\n")


def test_findings_on_github(project: Project, page: Path) -> None:
    break_tasks(project)
    result = project.run("--harbor-annotations", "--harbor-changed-since=main", "tasks")
    result.assert_outcomes(failed=2)
    shown = [(one.name, one.properties) for one in obeyed(result.stdout.str())]
    base = {"file": "tasks/b/environment/Dockerfile"}
    assert shown == [
        ("error", {"file": "tasks/a/task.toml", "line": "8", "title": "unknown-field"}),
        ("error", {**base, "line": "1", "title": "unpinned-image"}),
        ("warning", {**base, "line": "3", "title": "unpinned-package"}),
    ]
    text = page.read_text()
    assert text.startswith("of an earlier command\n## Harbor tasks\n")
    assert "<code>2 of 3 tasks changed since main</code>" in text
    assert "| <code>tasks/a</code> | ❌ 1 error |" in text
    assert "name==1.2" in text


def test_nothing_found_on_github(project: Project, page: Path) -> None:
    result = project.run("--harbor-annotations")
    assert obeyed(result.stdout.str()) == []
    assert "**3 tasks**: ✅ 3 sound" in page.read_text()


def test_nothing_changed_on_github(project: Project, page: Path) -> None:
    result = project.run("--harbor-annotations", "--harbor-changed-since=main")
    assert result.ret == 0
    text = "## Harbor tasks\n\n<code>no task changed since main &#40;3 looked at&#41;</code>"
    assert text in page.read_text()


def test_what_tests_print_is_not_obeyed(project: Project, page: Path) -> None:
    project.write("test_it.py", HOSTILE_TEST)
    project.write("tasks/a/tests/::add-mask::x.sh", "")
    project.write("tasks/a/environment/##[add-mask]y\n::add-mask::z", "")
    assert len(obeyed(project.run("-s").stdout.str())) > 2
    for args in ([], ["-s", "-v", "-rA"], ["-x", "--tb=native"]):
        result = project.run("--harbor-annotations", *args)
        found = obeyed(result.stdout.str())
        names = {(one.name, one.properties.get("title")) for one in found}
        assert {("error", "test_it failed")} <= names
        assert {one.name for one in found} <= {"error", "warning"}
        assert not any(one.data == "forged" for one in found)


def test_a_run_that_ends_in_an_error_leaves_commands_stopped(project: Project, page: Path) -> None:
    project.write(
        "conftest.py",
        "import pytest\n"
        "def pytest_collection_finish():\n"
        "    raise pytest.UsageError('\\n::add-mask::x')\n",
    )
    result = project.run("--harbor-annotations")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    output = result.stdout.str() + "\n" + result.stderr.str()
    assert "::add-mask::x" in output
    assert obeyed(output) == []


def test_the_token_is_drawn_anew_before_failures_are_shown(project: Project, page: Path) -> None:
    def tokens() -> list[str]:
        lines = project.run("--harbor-annotations=github").outlines
        return [line for line in lines if line.startswith("::stop-commands::")]

    found = [*tokens(), *tokens()]
    assert len(set(found)) == len(found) == 4
    assert all(len(token.rpartition("::")[2]) == 32 for token in found)


@pytest.mark.parametrize("args", [[], ["--harbor-annotations=off"]])
def test_without_annotations_nothing_is_written(
    project: Project, page: Path, args: list[str]
) -> None:
    break_tasks(project)
    assert "::stop-commands::" not in project.run(*args).stdout.str()
    assert page.read_text() == "of an earlier command\n"


def test_auto_is_off_elsewhere(project: Project) -> None:
    break_tasks(project)
    assert "::stop-commands::" not in project.run("--harbor-annotations").stdout.str()


def test_a_report_for_gitlab(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    break_tasks(project)
    monkeypatch.setenv("GITLAB_CI", "true")
    result = project.run("--harbor-annotations", "--harbor-summary=page.md")
    assert "::stop-commands::" not in result.stdout.str()
    entries = json.loads((project.path / "gl-code-quality-report.json").read_text())
    assert [(one["check_name"], one["severity"]) for one in entries] == [
        ("unknown-field", "major"),
        ("unpinned-image", "major"),
        ("unpinned-package", "minor"),
    ]
    assert entries[0]["location"] == {"path": "tasks/a/task.toml", "lines": {"begin": 8}}
    assert (project.path / "page.md").read_text().startswith("## Harbor tasks\n")


def test_a_report_is_no_link_that_a_stranger_left(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    victim = tmp_path_factory.mktemp("host") / "file"
    victim.write_text("mine")
    for name in ("gl-code-quality-report.json", "page.md"):
        (project.path / name).symlink_to(victim)
    result = project.run("--harbor-annotations=gitlab", "--harbor-summary=page.md")
    assert result.ret == 0
    assert victim.read_text() == "mine"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--harbor-annotations=svn"], "*argument --harbor-annotations: *'svn'"),
        (["-o", "harbor_annotations=svn"], "*one of github, gitlab, auto, off, got 'svn'"),
        (["--harbor-summary=tasks"], "*--harbor-summary: expected a file, */tasks is a folder*"),
        (["--harbor-untrusted"], "*--harbor-untrusted needs a configuration that is named*"),
    ],
)
def test_wrong_options_stop_the_run(project: Project, args: list[str], message: str) -> None:
    result = project.run(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_summary_that_cannot_be_written_makes_a_run_that_passed_fail(project: Project) -> None:
    result = project.run("--harbor-summary=pytest.ini/page.md")
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["harbor: */page.md: cannot be written: *"])


def test_a_full_page_is_not_overrun(project: Project, page: Path) -> None:
    page.write_text("x" * (1024 * 1024 - 300))
    assert project.run("--harbor-annotations").ret == 0
    assert page.stat().st_size <= 1024 * 1024
    assert "Left out, for the page's size" in page.read_text()


def test_paths_are_named_from_the_repository(project: Project, page: Path) -> None:
    break_tasks(project)
    project.pytester.mkdir("sub")
    project.write("sub/pytest.ini", "[pytest]\n")
    result = project.run("--harbor-annotations", "-c", "sub/pytest.ini", "--rootdir=sub", "tasks")
    assert {one.properties["file"] for one in obeyed(result.stdout.str())} == {
        "tasks/a/task.toml",
        "tasks/b/environment/Dockerfile",
    }


FAILING = f"""
{CONFTEST}

@pytest.fixture
def harbor_trial(request):
    request.node.user_properties.append(("reward", 0.5))
    if request.node.name == "oracle":
        pytest.fail("the task's own solution does not pass\\n::error::x\\nmore\\nand more", False)
    pytest.skip("no GPU")
"""


def test_trials_that_fail(project: Project, page: Path) -> None:
    project.write("conftest.py", FAILING)
    project.git("rm", "-qr", "tasks/b", "tasks/c")
    result = project.run("--harbor-check", "--harbor-annotations", "-k", "oracle or nop")
    (command,) = obeyed(result.stdout.str())
    assert command == Command(
        "error",
        {"file": "tasks/a/solution/solve.sh", "line": "1", "title": "oracle: error in setup"},
        "the task's own solution does not pass\n::error::x\nmore",
    )
    assert "| <code>tasks/a</code> | 💥 | ➖ |" in page.read_text()


def test_a_broken_task_of_a_run_with_agents(project: Project, page: Path) -> None:
    project.write("conftest.py", FAILING)
    project.write("tasks/a/task.toml", 'version = "1.0"\n[agent]\ntimeout_sec = "x"\n')
    result = project.pytester.runpytest_inprocess(
        *ALONE,
        *("--harbor-annotations", "--harbor-agent=nop", "tasks/a"),
    )
    (command,) = obeyed(result.stdout.str())
    assert command.properties["file"] == "tasks/a/task.toml"
    assert command.properties["line"] == "3"
    assert command.data.startswith("agent.timeout_sec: ")


def test_workers_report_to_one_and_select_the_same(project: Project, page: Path) -> None:
    project.write("conftest.py", FAILING)
    project.git.commit()
    project.git("branch", "-f", "main")
    break_tasks(project)
    project.write("tasks/a/tests/ö\n.txt", "x\n")
    project.git("rm", "-qr", "tasks/c")
    args = ("-n2", "--harbor-check", "--harbor-annotations", "--harbor-changed-since=main")
    result = project.run_process(*args, "-p", "no:cacheprovider", "-k", "check or oracle")
    result.assert_outcomes(failed=2, errors=2)
    found = {one.properties["title"]: one.data for one in obeyed(result.stdout.str())}
    failure = "oracle: error in setup"
    titles = ["awkward-file-name", "unknown-field", "unpinned-image", "unpinned-package"]
    assert sorted(found) == sorted([failure, *titles])
    assert found[failure].startswith("the task's own solution does not pass\n")
    assert result.stdout.str().count("::stop-commands::") == 2
    result.stdout.fnmatch_lines(
        ["harbor: 2 of 2 tasks changed since main", "harbor: deleted since then: tasks/c"]
    )
    text = page.read_text()
    assert text.count("## Harbor tasks") == 1
    assert "<code>2 of 2 tasks changed since main</code>" in text


@pytest.mark.docker
def test_what_a_task_prints_is_not_obeyed(project: Project, page: Path, engine: object) -> None:
    words = "echo '::add-mask::x'; echo 'a ##[set-output name=b]c'; printf 'd\\r::error::forged\\n'"
    project.add_task("a", solve=f"#!/bin/bash\n{words}\nexit 3\n")
    result = project.pytester.runpytest_subprocess(
        *(*ALONE, "-rA", "--harbor-annotations"),
        *("--harbor-check", "tasks/a/task.toml::oracle"),
    )
    result.assert_outcomes(failed=1)
    output = result.stdout.str() + "\n" + result.stderr.str()
    assert "##[set-output name=b]c" in output
    (command,) = obeyed(output)
    assert command.properties["title"] == "oracle failed"
    assert command.properties["file"] == "tasks/a/solution/solve.sh"
    assert command.data.startswith("the task's own solution does not pass")
    assert "| <code>tasks/a</code> | ❌ | 0 |" in page.read_text()


def test_a_trial_that_is_run_again_counts_once(project: Project, page: Path) -> None:
    project.write("conftest.py", FAILING)
    args = ("-p", "rerunfailures", "--reruns=2", "--harbor-check", "--harbor-annotations")
    result = project.run(*args, "tasks/a", "-k", "oracle")
    result.assert_outcomes(errors=1)
    (command,) = obeyed(result.stdout.str())
    assert command.properties["title"] == "oracle: error in setup"
    assert "| <code>tasks/a</code> | 💥 | 0.5 |" in page.read_text()


def test_what_is_not_collected(project: Project, page: Path) -> None:
    project.write("test_it.py", "import no_such_module\n")
    (command,) = obeyed(project.run("--harbor-annotations").stdout.str())
    assert command.properties == {"file": "test_it.py", "line": "1", "title": "not collected"}
    assert "no_such_module" in command.data
