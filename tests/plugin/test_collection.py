"""What becomes an item, what is reported instead, and what stays as pytest has it."""

import pytest

BROKEN = '=description = "match \\s+ here"\n'


def test_tasks_are_found_at_any_depth_beside_ordinary_tests(project):
    for name in ("a", "group/a", "group/deep/er/a"):
        project.task(name)
    project.pytester.makepyfile(test_ordinary="def test_x(): pass")
    project.run().assert_outcomes(skipped=3, passed=1)
    assert project.ids("tasks/group") == [
        "tasks/group/a/task.toml::oracle",
        "tasks/group/deep/er/a/task.toml::oracle",
    ]


def test_folders_below_a_task_are_never_tasks(project):
    project.task("outer")
    project.task("outer/environment/inner")
    project.task("outer/inner")
    only = ["tasks/outer/task.toml::oracle"]
    assert project.ids() == only
    assert project.ids("tasks/outer/inner") == only
    assert project.ids("tasks/outer/inner/task.toml::oracle") == only


def test_overlapping_arguments_give_each_task_once(project):
    project.task("a")
    project.task("b")
    both = ["tasks/a/task.toml::oracle", "tasks/b/task.toml::oracle"]
    assert sorted(project.ids("tasks/a", "tasks", "tasks/a/task.toml")) == both


def test_a_multi_step_task_is_one_item(project):
    steps = "[[steps]]\nname = 'one'\n[[steps]]\nname = 'two'\n"
    folder = project.task("hello", toml=steps, remove=("instruction.md",))
    for name in ("one", "two"):
        project.task.write(folder, f"steps/{name}/instruction.md", "Do it.\n")
    assert project.ids() == ["tasks/hello/task.toml::oracle"]
    assert project.ids("-m", "harbor(steps=2)") == ["tasks/hello/task.toml::oracle"]


class TestBrokenTask:
    """One clear error for that task alone."""

    @pytest.fixture(autouse=True)
    def _tasks(self, project):
        project.task("a")
        project.task("b")
        project.task("c", toml=BROKEN)

    @pytest.mark.parametrize("workers", [[], ["-n2"]])
    def test_the_others_run(self, project, workers):
        result = project.run_process(*workers)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        outcomes = result.parseoutcomes()
        assert (outcomes["skipped"], outcomes["errors"]) == (2, 1)
        result.stdout.fnmatch_lines(["tasks/c/task.toml:1:24: *"])
        assert "Traceback" not in result.stdout.str()
        assert "collect.py" not in result.stdout.str()

    def test_no_fixture_is_set_up_for_it(self, project):
        project.conftest("""
@pytest.fixture(autouse=True)
def loud(request):
    print("set up for", request.node.nodeid)
""")
        assert "set up for" not in project.run("tasks/c").stdout.str()

    def test_it_is_one_item_however_many_trials_were_asked_for(self, project):
        options = ["--harbor-agent=oracle", "--harbor-agent=nop", "--harbor-attempts=3"]
        assert project.ids(*options, "tasks/c") == ["tasks/c/task.toml::oracle[1]"]

    @pytest.mark.parametrize("name", ["nop[2]", "oracle[3]"])
    def test_it_answers_to_the_name_that_was_asked_for(self, project, name):
        options = ["--harbor-agent=oracle", "--harbor-agent=nop", "--harbor-attempts=3"]
        nodeid = f"tasks/c/task.toml::{name}"
        assert project.ids(*options, nodeid) == [nodeid]
        project.run(*options, nodeid).assert_outcomes(errors=1)
        assert project.ids(*options, f"tasks/c::{name[:3]}x") == []

    def test_it_says_nothing_when_another_task_is_selected(self, project):
        result = project.run("tasks/a", "-W", "error")
        result.assert_outcomes(skipped=1)
        assert "tasks/c" not in result.stdout.str()

    def test_last_failed_finds_it_again(self, project):
        project.run().assert_outcomes(skipped=2, errors=1)
        project.run("--lf").assert_outcomes(errors=1)

    def test_reports_say_that_it_is_the_tasks_fault(self, project):
        project.run("tasks/c", "--junitxml=report.xml")
        report = (project.path / "report.xml").read_text()
        assert '<property name="category" value="task" />' in report
        assert '<property name="agent" value="oracle" />' in report


def test_a_task_without_instruction_is_broken_and_not_dropped(project):
    project.task("hello", remove=("instruction.md",))
    result = project.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*tasks/hello/instruction.md*"])


class TestWarnings:
    """Warnings of a sound task: shown once, errors on request."""

    @pytest.fixture(autouse=True)
    def _tasks(self, project):
        project.task("sound")
        project.task("typo", toml="[verifer]\nx = 1\n")

    @pytest.mark.parametrize("workers", [[], ["-n2"]])
    def test_are_shown_once_with_file_and_line(self, project, workers):
        result = project.run_process(*workers)
        outcomes = result.parseoutcomes()
        assert (outcomes["skipped"], outcomes["warnings"]) == (2, 1)
        result.stdout.fnmatch_lines(["tasks/typo/task.toml:8*", "*HarborWarning: verifer: *"])

    @pytest.mark.parametrize(
        "option",
        [["--harbor-strict"], ["-W", "error"], ["-W", "error::pytest_harbor.plugin.HarborWarning"]],
    )
    def test_may_be_errors_of_that_task_alone(self, project, option):
        result = project.run(*option)
        result.assert_outcomes(skipped=1, errors=1)
        result.stdout.fnmatch_lines(["tasks/typo/task.toml:8: verifer: *"])

    def test_may_be_errors_in_workers_too(self, project):
        result = project.run_process("-n2", "-W", "error::pytest.PytestWarning")
        outcomes = result.parseoutcomes()
        assert (outcomes["skipped"], outcomes["errors"]) == (1, 1)

    def test_may_be_silenced(self, project):
        project.ini("    ignore::pytest_harbor.plugin.HarborWarning")
        project.run().assert_outcomes(skipped=2, warnings=0)


class TestStrayConfigFile:
    """A ``task.toml`` without any other sign of a Harbor task."""

    @pytest.fixture(autouse=True)
    def _folder(self, project):
        project.task("hello")
        folder = project.path / "tasks/stray"
        folder.mkdir()
        (folder / "task.toml").write_text("x = 1\n")
        (folder / "test_python.py").write_text("def test_x(): pass")

    @pytest.mark.parametrize("workers", [[], ["-n2"]])
    def test_is_named_once_and_its_tests_run(self, project, workers):
        result = project.run_process(*workers)
        outcomes = result.parseoutcomes()
        assert (outcomes["passed"], outcomes["skipped"], outcomes["warnings"]) == (1, 1, 1)
        result.stdout.fnmatch_lines(["*HarborWarning: stray: not taken for a Harbor task*"])

    def test_is_not_named_when_another_task_is_selected(self, project):
        project.run("tasks/hello").assert_outcomes(skipped=1, warnings=0)

    def test_is_one_collection_error_where_warnings_are_errors(self, project):
        result = project.run("-W", "error", "--continue-on-collection-errors")
        result.assert_outcomes(skipped=1, errors=1)
        result.stdout.fnmatch_lines(["*ERROR collecting tasks/stray*", "stray: not taken*"])


class TestFolderOfTheDefaultIgnoreList:
    """``build`` and its like: never dropped without a word."""

    @pytest.fixture(params=["build", "dist", ".hidden", "venv"], autouse=True)
    def name(self, project, request):
        project.task("hello")
        project.task(request.param)
        if request.param == "venv":
            (project.path / "tasks/venv/pyvenv.cfg").write_text("")
        return request.param

    def test_is_warned_of(self, project, name):
        result = project.run()
        result.assert_outcomes(skipped=1, warnings=1)
        result.stdout.fnmatch_lines([f"*HarborWarning: the task '{name}' is left out: *"])

    def test_is_collected_when_named(self, project, name):
        project.run(f"tasks/{name}").assert_outcomes(skipped=1, warnings=0)

    @pytest.mark.parametrize("option", ["--ignore=tasks/{}", "--ignore-glob=*/{}"])
    def test_is_left_out_in_silence_on_request(self, project, name, option):
        project.run(option.format(name)).assert_outcomes(skipped=1, warnings=0)

    def test_is_an_error_where_warnings_are(self, project, name):
        result = project.run("-W", "error", "--continue-on-collection-errors")
        result.assert_outcomes(skipped=1, errors=1)

    def test_is_none_of_another_tasks_business(self, project):
        project.run("tasks/hello").assert_outcomes(skipped=1, warnings=0)


def test_the_ignore_list_may_be_shortened(project):
    project.task("build")
    project.ini("norecursedirs = .*")
    assert project.ids() == ["tasks/build/task.toml::oracle"]


def test_ignored_tasks_stay_away(project):
    project.task("a")
    project.task("b")
    assert project.ids("--ignore=tasks/a") == ["tasks/b/task.toml::oracle"]
    project.conftest("collect_ignore = ['b']", "tasks")
    assert project.ids() == ["tasks/a/task.toml::oracle"]


class TestSelectingTasks:
    """``--harbor-tasks``."""

    @pytest.fixture(autouse=True)
    def _tasks(self, project):
        project.task("group/one", toml="[task]\nname = 'org/uno'\n")
        project.task("group/two")
        project.task("three")

    @pytest.mark.parametrize(
        ("patterns", "found"),
        [
            (["one"], ["group/one"]),
            (["org/*"], ["group/one"]),
            (["tasks/group/*"], ["group/one", "group/two"]),
            (["t*"], ["group/one", "group/two", "three"]),
            (["three", "two"], ["group/two", "three"]),
        ],
    )
    def test_by_path_folder_or_name(self, project, patterns, found):
        ids = project.ids(*(f"--harbor-tasks={pattern}" for pattern in patterns))
        assert ids == [f"tasks/{name}/task.toml::oracle" for name in found]

    @pytest.mark.parametrize("option", ["tasks", "exclude-tasks"])
    def test_a_pattern_without_a_task_is_an_error_with_near_names(self, project, option):
        result = project.run(f"--harbor-{option}=thre", f"--harbor-{option}=two")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"*--harbor-{option}: no task fits 'thre'. Near: three*"])

    @pytest.mark.parametrize("filters", [[], ["-W", "error"]])
    def test_workers_warn_of_a_pattern_without_a_task(self, project, filters):
        result = project.run_process("--harbor-tasks=thre", *filters, "-n2")
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        result.stdout.fnmatch_lines(["*no task fits 'thre'*"])
        assert "INTERNALERROR" not in result.stdout.str()

    def test_tasks_are_left_out_of_those_that_are_kept(self, project):
        ids = project.ids("--harbor-tasks=t[hw]*", "--harbor-exclude-tasks=three")
        assert ids == ["tasks/group/two/task.toml::oracle"]


METADATA = """=
[task]
name = "org/uno"
keywords = ["crypto"]
[metadata]
difficulty = "easy"
category = "security"
tags = ["red", "blue"]
estimate = 3
internal = true
class = "keyword of Python"
"not a name" = 1
nested = {a = 1}
agent = "not the agent"
[environment]
network_mode = "no-network"
"""


@pytest.mark.parametrize(
    "expression",
    [
        "harbor",
        "harbor(name='org/uno')",
        "harbor(difficulty='easy')",
        "harbor(category='security')",
        "harbor(steps=1)",
        "harbor(network='no-network')",
        "harbor(agent='codex')",
        "harbor(model='a/b')",
        "harbor(attempt=1)",
        "harbor(estimate=3)",
        "harbor(internal=True)",
        "not harbor(difficulty='hard')",
    ],
)
def test_markers_select(project, expression):
    project.task("one", toml=METADATA)
    options = ["--strict-markers", "--harbor-agent=codex", "--harbor-model=a/b"]
    assert project.ids(*options, "-m", expression) == ["tasks/one/task.toml::codex[a/b]"]
    assert project.ids(*options, "-m", f"not ({expression})") == []


def test_markers_hold_plain_values_under_names_only(project):
    project.task("one", toml=METADATA)
    (item,), _ = project.pytester.inline_genitems()
    assert item.get_closest_marker("harbor").kwargs == {
        "name": "org/uno",
        "difficulty": "easy",
        "category": "security",
        "estimate": 3,
        "internal": True,
        "steps": 1,
        "network": "no-network",
        "agent": "oracle",
        "attempt": 1,
    }


@pytest.mark.parametrize("word", ["one", "uno", "red", "crypto", "oracle", "ONE and blue"])
def test_keywords_select(project, word):
    project.task("one", toml=METADATA)
    project.task("other")
    expected = ["tasks/one/task.toml::oracle"]
    if word == "oracle":
        expected.append("tasks/other/task.toml::oracle")
    assert project.ids("-k", word) == expected


def test_the_marker_is_listed(project):
    project.run("--markers").stdout.fnmatch_lines(["@pytest.mark.harbor(name, difficulty, *"])


def test_fixtures_are_listed(project):
    shown = project.run("--fixtures").stdout.str()
    for name in ("harbor_task", "harbor_environment", "harbor_trial"):
        assert f"\n{name} " in shown


@pytest.mark.parametrize("option", ["--setup-plan", "--fixtures-per-test", "--setup-show"])
def test_fixtures_of_a_trial_are_shown(project, option):
    project.task("hello")
    project.run(option).stdout.fnmatch_lines(["*harbor_trial*"])


@pytest.mark.parametrize(
    "options",
    [
        ["-p", "no:cacheprovider"],
        ["--import-mode=importlib"],
        ["--strict-config", "--strict-markers", "-W", "error"],
        ["-o", "python_functions=check_*", "-o", "python_classes=Check*"],
        ["-o", "collect_imported_tests=false"],
        ["--noconftest", "--collect-only"],
    ],
)
def test_runs_under_other_options(project, options):
    project.task("hello")
    result = project.run(*options)
    assert result.ret == 0
    assert "1 skipped" in result.stdout.str() or "1 test collected" in result.stdout.str()
