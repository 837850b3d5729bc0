"""``--harbor-changed-since``: what is collected, said and returned."""

import pytest

from tests.pull_requests.conftest import Git, Project


def test_only_changed_tasks_are_collected(project: Project) -> None:
    project.write("tasks/a/task.toml", "memroy = 1\n")
    project.git("mv", "tasks/b", "tasks/d")
    project.git.commit()
    project.write("tasks/e/../c/environment/new.txt", "not yet added\n")
    assert project.changed() == ["a", "c", "d"]
    assert project.changed(since="HEAD") == ["c"]


def test_the_run_says_how_many_and_which_are_gone(project: Project) -> None:
    project.git("mv", "tasks/b", "tasks/d")
    project.git("rm", "-qr", "tasks/c")
    result = project.run("--harbor-changed-since=main")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "harbor: 1 of 2 tasks changed since main",
            "harbor: deleted since then: tasks/b, tasks/c",
            "tasks/d/task.toml *",
        ]
    )


def test_deleted_tasks_outside_of_what_was_asked_for_are_not_named(project: Project) -> None:
    project.git("rm", "-qr", "tasks/c")
    result = project.run("--harbor-changed-since=main", "tasks/a")
    result.stdout.no_fnmatch_line("harbor: deleted*")


@pytest.mark.parametrize(
    "args", [[], ["tasks/a"], ["tasks/a/task.toml::check"], ["tasks/a/task.toml"], ["--co"]]
)
def test_no_changed_task_is_no_failure(project: Project, args: list[str]) -> None:
    result = project.run("--harbor-changed-since=main", *args)
    assert result.ret == 0
    looked = 1 if "tasks" in "".join(args) else 3
    result.stdout.fnmatch_lines([f"harbor: no task changed since main ({looked} looked at)"])


def test_a_run_whose_tasks_are_all_gone_is_no_failure(project: Project) -> None:
    project.git("rm", "-qr", "tasks")
    project.write("tasks/README.md", "nothing here\n")
    result = project.run("--harbor-changed-since=main", "tasks")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["harbor: deleted since then: tasks/a, tasks/b, tasks/c"])


def test_a_run_that_finds_no_task_at_all_fails(project: Project) -> None:
    project.pytester.mkdir("empty")
    result = project.run("--harbor-changed-since=main", "empty")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["harbor: no task changed since main (no task was found)"])


def test_a_changed_task_that_is_deselected_otherwise_is_a_run_without_tests(
    project: Project,
) -> None:
    project.write("tasks/a/task.toml", "memroy = 1\n")
    result = project.run("--harbor-changed-since=main", "-k", "nothing")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_ids_on_the_command_line(project: Project) -> None:
    project.write("tasks/a/tests/more.txt", "x\n")
    ids = ["tasks/a/task.toml::check", "tasks/b/task.toml::check"]
    result = project.run("--harbor-changed-since=main", *ids)
    result.assert_outcomes(passed=1, deselected=1)
    assert result.ret == 0


def test_a_broken_task_that_did_not_change_is_left_alone(project: Project) -> None:
    project.write("tasks/a/task.toml", "=")
    project.git.commit()
    project.git("branch", "-f", "main")
    project.write("tasks/b/tests/more.txt", "x\n")
    project.run("--harbor-changed-since=main").assert_outcomes(passed=1)


def test_other_tests_are_run_as_ever(project: Project) -> None:
    project.write("test_it.py", "def test_it(): pass\n")
    result = project.run("--harbor-changed-since=main")
    result.assert_outcomes(passed=1)


def test_with_patterns_for_tasks(project: Project) -> None:
    project.write("tasks/a/tests/more.txt", "x\n")
    project.write("tasks/b/tests/more.txt", "x\n")
    assert project.changed("--harbor-tasks=a", "--harbor-tasks=c") == ["a"]
    result = project.run("--harbor-changed-since=main", "--harbor-tasks=c", "-Werror")
    assert result.ret == 0


def test_files_above_the_tasks(project: Project) -> None:
    project.ini("harbor_shared_path = lib/")
    project.write("lib/tool.sh", "x\n")
    base = project.git.commit()
    assert project.changed(since=base) == []
    project.write("lib/tool.sh", "y\n")
    assert project.changed(since=base) == ["a", "b", "c"]
    base = project.git.commit()
    project.ini("harbor_shared_path = lib/ other/")
    assert project.changed(since=base) == ["a", "b", "c"]


def test_the_ini_file_asks_too(project: Project) -> None:
    project.ini("harbor_changed_since = main")
    project.git.commit()
    project.git("branch", "-f", "main")
    project.write("tasks/b/tests/more.txt", "x\n")
    ids = [line for line in project.run("--collect-only", "-q").outlines if "::" in line]
    assert ids == ["tasks/b/task.toml::check"]


def test_tasks_of_another_repository_than_the_current_folders(project: Project) -> None:
    other = Git(project.path.parent / "other")
    other.commit("empty")
    project.write("tasks/a/tests/more.txt", "x\n")
    project.git.commit()
    project.pytester.mkdir("sub")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(other.path)
        result = project.run(
            f"--rootdir={project.path}", "--harbor-changed-since=main", f"{project.path}/tasks"
        )
    result.assert_outcomes(passed=1)


def test_a_worktree(project: Project) -> None:
    project.write("tasks/a/tests/more.txt", "x\n")
    project.git.commit()
    place = project.path / "wt"
    project.git("worktree", "add", "-q", "--detach", str(place))
    result = project.run("--harbor-changed-since=main", "-c", "wt/pytest.ini", "wt/tasks")
    result.stdout.fnmatch_lines(["harbor: 1 of 3 tasks changed since main"])


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("nope", "*--harbor-changed-since: no commit 'nope' in the repository */project*"),
        ("", "*--harbor-changed-since: expected some text*"),
    ],
)
def test_a_wrong_revision_stops_the_run(project: Project, revision: str, message: str) -> None:
    result = project.run(f"--harbor-changed-since={revision}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message.replace("*/project", "*")])


def test_no_repository_stops_the_run(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--harbor-changed-since=main")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--harbor-changed-since: * is in no git repository"])


def test_a_bad_pattern_stops_the_run(project: Project) -> None:
    project.write("tasks/a/tests/more.txt", "x\n")
    result = project.run("--harbor-changed-since=main", "--harbor-shared-path=!")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--harbor-shared-path: *'!'*"])


@pytest.mark.long
def test_workers_without_changes(project: Project) -> None:
    result = project.run_process("-n1", "--harbor-changed-since=main")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["harbor: no task changed since main (3 looked at)"])
