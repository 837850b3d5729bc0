"""No Python file inside a task is imported on this machine, however pytest is called."""

import os
import sys

import pytest

CALLS = {
    "nothing": [],
    "current folder": ["."],
    "folder above": ["tasks"],
    "folder": ["tasks/hello"],
    "folder with slash": ["tasks/hello/"],
    "task.toml": ["tasks/hello/task.toml"],
    "file inside": ["tasks/hello/tests/test_outputs.py"],
    "conftest inside": ["tasks/hello/conftest.py"],
    "folder inside": ["tasks/hello/tests"],
    "function inside": ["tasks/hello/tests/test_outputs.py::oracle"],
    "trial": ["tasks/hello/task.toml::oracle"],
    "trial of the folder": ["tasks/hello::oracle"],
    "several": ["tasks/hello", "tasks/hello/tests", "test_ordinary.py"],
    "rootdir": ["--rootdir=tasks/hello", "tasks/hello"],
    "confcutdir": ["--confcutdir=.", "tasks/hello/tests"],
    "argument file": ["@arguments.txt"],
    "doctest of modules": ["--doctest-modules", "tasks"],
    "doctest of files": ["--doctest-glob=*.md", "--doctest-glob=*.py", "tasks"],
    "every python file": ["-o", "python_files=*.py", "tasks/hello"],
    "module": ["--pyargs", "tasks.hello.tests.test_outputs"],
    "path as module": ["--pyargs", "tasks/hello/tests/test_outputs.py"],
    "importlib": ["--import-mode=importlib", "tasks/hello/tests/test_outputs.py"],
    "append": ["--import-mode=append", "tasks/hello"],
    "ignored siblings": ["--ignore=tasks/other", "tasks"],
}


@pytest.fixture
def hostile(project):
    """A project with a task full of traps, beside an ordinary test."""
    project.hostile_task()
    project.pytester.makepyfile(test_ordinary="def test_ordinary(): pass")
    (project.path / "arguments.txt").write_text("tasks/hello/tests/test_outputs.py\n")
    return project


@pytest.mark.parametrize("arguments", CALLS.values(), ids=CALLS.keys())
def test_nothing_inside_a_task_is_imported(hostile, arguments):
    hostile.pytester.syspathinsert()
    result = hostile.run(*arguments)
    hostile.assert_nothing_was_imported()
    outcomes = result.parseoutcomes()
    assert outcomes.pop("skipped") == 1
    assert outcomes in ({}, {"passed": 1})


def test_a_task_named_twice_runs_twice_only_on_request(hostile):
    hostile.run("tasks/hello", "tasks/hello/tests").assert_outcomes(skipped=1)
    twice = hostile.run("--keep-duplicates", "tasks/hello", "tasks/hello/tests")
    twice.assert_outcomes(skipped=2)
    hostile.assert_nothing_was_imported()


@pytest.mark.parametrize(
    "arguments", [[], ["."], ["tests"], ["tests/test_outputs.py"], ["::oracle"]]
)
def test_the_current_folder_may_be_the_task(hostile, monkeypatch, arguments):
    monkeypatch.chdir(hostile.path / "tasks/hello")
    result = hostile.run(*arguments)
    hostile.assert_nothing_was_imported()
    result.assert_outcomes(skipped=1)


@pytest.mark.parametrize("folder", ["tests", "environment", "solution"])
def test_the_current_folder_may_be_below_the_task(hostile, monkeypatch, folder):
    monkeypatch.chdir(hostile.path / "tasks/hello" / folder)
    result = hostile.run()
    hostile.assert_nothing_was_imported()
    result.assert_outcomes(skipped=1)


@pytest.mark.parametrize("inside", ["", "tests"])
def test_without_an_ini_file_the_task_becomes_the_root_folder(hostile, monkeypatch, inside):
    (hostile.path / "tox.ini").unlink()
    monkeypatch.chdir(hostile.path / "tasks/hello" / inside)
    assert hostile.ids() == ["task.toml::oracle"]
    hostile.assert_nothing_was_imported()


def test_a_repository_may_be_one_task(project):
    project.hostile_task("../repository")
    root = project.path / "repository"
    assert project.ids("--rootdir", root, "-c", os.devnull, root) == ["task.toml::oracle"]
    nodeid = f"{root}/task.toml::oracle"
    assert project.ids("--rootdir", root, "-c", os.devnull, nodeid) == ["task.toml::oracle"]
    project.assert_nothing_was_imported()


@pytest.mark.parametrize(
    "arguments",
    [
        ["tasks"],
        pytest.param(["tasks/hello/tests"], marks=pytest.mark.long),
        pytest.param([], marks=pytest.mark.long),
    ],
)
def test_workers_import_nothing_either(hostile, arguments):
    result = hostile.run_process("-n2", *arguments)
    hostile.assert_nothing_was_imported()
    assert result.parseoutcomes()["skipped"] == 1
    assert result.ret == 0


def test_pytest_as_its_own_process_imports_nothing(hostile, monkeypatch):
    monkeypatch.chdir(hostile.path / "tasks/hello/tests")
    result = hostile.pytester.run(sys.executable, "-P", "-m", "pytest")
    hostile.assert_nothing_was_imported()
    result.assert_outcomes(skipped=1)


@pytest.mark.parametrize("testpaths", ["tasks", "tasks/hello", "tasks/hello/tests", "tasks/*"])
def test_testpaths_may_name_tasks(hostile, testpaths):
    hostile.ini(f"testpaths = {testpaths}")
    result = hostile.run()
    hostile.assert_nothing_was_imported()
    result.assert_outcomes(skipped=1)


def test_testpaths_beside_tasks_keep_their_conftest_files(hostile):
    hostile.ini("testpaths = checks tasks")
    hostile.conftest("def pytest_addoption(parser): parser.addoption('--mine')", "checks")
    (hostile.path / "checks/test_x.py").write_text("def test_x(): pass")
    result = hostile.run("--mine=1")
    result.assert_outcomes(passed=1, skipped=1)
    hostile.assert_nothing_was_imported()


@pytest.mark.parametrize("arguments", [[], ["."], ["--pyargs", "test_ordinary"]])
def test_a_task_named_like_a_folder_of_tests_keeps_its_conftest(project, arguments):
    # pytest imports conftest.py of each test* folder below an argument.
    project.hostile_task("../test_task")
    project.pytester.makepyfile(test_ordinary="def test_ordinary(): pass")
    project.conftest("def pytest_addoption(parser): parser.addoption('--mine')", "tests")
    project.pytester.syspathinsert()
    result = project.run("--mine=1", *arguments)
    project.assert_nothing_was_imported()
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] == 1


def test_conftest_files_above_the_task_are_loaded_before_collection(hostile):
    hostile.conftest("def pytest_addoption(parser): parser.addoption('--mine')", "tasks")
    hostile.run("--mine=1", "tasks/hello/tests").assert_outcomes(skipped=1)
    hostile.assert_nothing_was_imported()


def test_a_link_as_conftest_inside_the_task_is_not_followed(project):
    folder = project.task("hello")
    (folder / "trap.txt").write_text(project.trap("link"))
    for name in ("conftest.py", "tests/conftest.py", "tests/test_x.py"):
        (folder / name).symlink_to(folder / "trap.txt")
    project.run("tasks/hello").assert_outcomes(skipped=1)
    project.run().assert_outcomes(skipped=1)
    project.assert_nothing_was_imported()


def test_compiled_files_inside_the_task_are_not_loaded(project):
    import py_compile

    folder = project.task("hello")
    source = project.path / "trap.py"
    source.write_text(project.trap("compiled"))
    for name in (
        "conftest.pyc",
        "tests/__pycache__/conftest.cpython-311.pyc",
        "tests/conftest.pyc",
    ):
        py_compile.compile(str(source), cfile=str(folder / name))
    source.unlink()
    project.run("tasks/hello").assert_outcomes(skipped=1)
    project.assert_nothing_was_imported()


def test_a_link_to_a_task_is_a_task_of_its_own(hostile):
    (hostile.path / "tasks/linked").symlink_to("hello")
    both = ["tasks/hello/task.toml::oracle", "tasks/linked/task.toml::oracle"]
    assert hostile.ids("tasks") == both
    assert hostile.ids("tasks/linked") == both[1:]
    assert hostile.ids("tasks/linked/tests/test_outputs.py") == both[1:]
    hostile.assert_nothing_was_imported()


@pytest.mark.parametrize("target", ["tasks/hello/tests", "tasks/hello/tests/test_outputs.py"])
def test_a_link_into_a_task_is_named_and_not_followed(hostile, target):
    link = hostile.path / ("test_link.py" if target.endswith(".py") else "test_link")
    link.symlink_to(target)
    result = hostile.run()
    hostile.assert_nothing_was_imported()
    result.assert_outcomes(passed=1, skipped=1, warnings=1)
    result.stdout.fnmatch_lines([f"*{link.name}: a link into the task 'hello': not collected*"])
    hostile.run("-W", "error").stdout.fnmatch_lines(["*a link into the task 'hello'*"])
    assert hostile.ids(link.name) == ["tasks/hello/task.toml::oracle"]
    hostile.assert_nothing_was_imported()


def test_what_agents_left_in_a_jobs_folder_is_not_collected(project):
    left = project.path / "jobs/2026-01-01__00-00-00"
    (left / "hello__abc/artifacts").mkdir(parents=True)
    (left / "config.json").write_text("{}")
    for name in ("conftest.py", "test_x.py"):
        (left / "hello__abc/artifacts" / name).write_text(project.trap(name))
    (project.path / "jobs/test_mine.py").write_text("def test_mine(): pass")
    project.run().assert_outcomes(passed=1)
    project.assert_nothing_was_imported()


INI_FILES = {
    "pytest.ini": "[pytest]\naddopts = -v\n",
    "tox.ini": "[pytest]\npythonpath = .\n",
    "setup.cfg": "[tool:pytest]\naddopts = -v\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-v'\n",
    "pytest.toml": "[pytest]\npythonpath = ['.']\n",
}


@pytest.mark.parametrize("name", INI_FILES)
@pytest.mark.parametrize("argument", ["tasks/hello", "tasks/hello/tests", "tasks/hello::oracle"])
def test_an_ini_file_inside_a_task_is_refused(hostile, name, argument):
    (hostile.path / "tasks/hello" / name).write_text(INI_FILES[name])
    result = hostile.run(argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            f"*tasks/hello/{name}: pytest would take its configuration from inside the task*",
            "*pytest -c *",
        ]
    )
    hostile.assert_nothing_was_imported()


def test_a_refused_ini_file_comes_with_a_command_that_works(hostile):
    (hostile.path / "tasks/hello/pytest.ini").write_text(INI_FILES["pytest.ini"])
    (hostile.path / "pytest.ini").write_text("[pytest]\n")
    result = hostile.run("tasks/hello")
    result.stderr.fnmatch_lines([f"*pytest -c {hostile.path}/pytest.ini *"])
    hostile.run("-c", hostile.path / "pytest.ini", "tasks/hello").assert_outcomes(skipped=1)
    hostile.assert_nothing_was_imported()


def test_an_ini_file_inside_a_task_may_be_named_on_purpose(hostile):
    ini = hostile.path / "tasks/hello/pytest.ini"
    ini.write_text(INI_FILES["pytest.ini"])
    result = hostile.run("--collect-only", "-c", ini, "tasks/hello")
    result.stdout.fnmatch_lines(["configfile: pytest.ini", "*<TrialItem oracle>"])
    hostile.assert_nothing_was_imported()


def test_ini_files_of_tasks_are_not_read_when_the_folder_above_is_named(hostile):
    for name, content in INI_FILES.items():
        (hostile.path / "tasks/hello" / name).write_text(content)
    hostile.run("tasks").assert_outcomes(skipped=1)
    hostile.assert_nothing_was_imported()


def test_a_pyproject_without_settings_of_pytest_does_no_harm(hostile):
    (hostile.path / "tasks/hello/pyproject.toml").write_text("[project]\nname = 'x'\n")
    hostile.run("tasks/hello").assert_outcomes(skipped=1)


def test_a_plugin_named_in_a_tasks_ini_file_stops_the_run(hostile):
    # pytest obeys it before an installed plugin exists; it finds none to import.
    ini = "[pytest]\naddopts = -p only_in_the_container\n"
    (hostile.path / "tasks/hello/pytest.ini").write_text(ini)
    result = hostile.run("tasks/hello")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    hostile.assert_nothing_was_imported()


def test_a_plugin_that_a_tasks_ini_file_did_load_is_admitted(hostile):
    (hostile.path / "tasks/hello/loaded.py").write_text("")
    ini = "[pytest]\npythonpath = .\naddopts = -p loaded\n"
    (hostile.path / "tasks/hello/pytest.ini").write_text(ini)
    result = hostile.run("tasks/hello")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*Its addopts have -p: pytest imported that plugin before*"])


def test_arguments_elsewhere_stay_as_they_are(hostile):
    (hostile.path / "checks").mkdir()
    (hostile.path / "checks/test_x.py").write_text("class TestX:\n    def test_x(self): pass\n")
    assert hostile.ids("checks/test_x.py::TestX::test_x") == ["checks/test_x.py::TestX::test_x"]
    result = hostile.run("nowhere/test_x.py")
    result.stderr.fnmatch_lines(["*file or directory not found: nowhere/test_x.py*"])


def test_an_unknown_trial_is_an_error_that_names_it(hostile):
    result = hostile.run("tasks/hello::unknown")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*not found: *tasks/hello/task.toml::unknown*"])
