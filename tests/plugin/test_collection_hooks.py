"""Fixtures and hooks of ``conftest.py`` files above the tasks reach them."""

import pytest


@pytest.fixture
def two_groups(project):
    """Tasks in two folders, of which one has a conftest.py of its own."""
    project.task("near/hello")
    project.task("near/world")
    project.task("far/hello")
    return project


@pytest.mark.parametrize(
    "arguments", [[], ["tasks/near/hello"], ["tasks/near/hello::oracle"], ["-n2"]]
)
def test_hooks_of_the_folder_above_hear_its_tasks_only(two_groups, arguments):
    two_groups.conftest(
        """
def pytest_runtest_setup(item):
    with open(item.config.rootpath / "heard.txt", "a") as heard:
        heard.write(f"{item.nodeid}\\n")
""",
        "tasks/near",
    )
    two_groups.run_process(*arguments)
    heard = (two_groups.path / "heard.txt").read_text().splitlines()
    tasks = ["hello"] if "hello" in "".join(arguments) else ["hello", "world"]
    assert sorted(heard) == [f"tasks/near/{name}/task.toml::oracle" for name in tasks]


def test_overrides_of_the_folder_above_reach_its_tasks_only(two_groups):
    two_groups.conftest(
        """
@pytest.fixture
def harbor_task(harbor_task):
    pytest.skip("overridden")
""",
        "tasks/near",
    )
    far = two_groups.run("-rs", "tasks/far")
    far.stdout.fnmatch_lines(["SKIPPED * trial of hello by oracle"])
    near = two_groups.run("-rs", "tasks/near")
    near.stdout.fnmatch_lines(["SKIPPED * overridden"])
    assert "trial of" not in near.stdout.str()


@pytest.mark.parametrize(("scope", "times"), [("function", 6), ("module", 3), ("session", 1)])
def test_autouse_fixtures_of_every_scope(two_groups, scope, times):
    two_groups.conftest(f"""
@pytest.fixture(autouse=True, scope={scope!r})
def counted(request):
    print("set", "up")
    yield
    print("torn", "down")
""")
    shown = two_groups.run("-s", "--harbor-attempts=2").stdout.str()
    assert shown.count("set up") == shown.count("torn down") == times


def test_module_scope_is_the_task(two_groups):
    two_groups.conftest("""
@pytest.fixture(autouse=True, scope="module")
def shown(request):
    print("module of", request.module.__file__, request.path.parent.name)
""")
    result = two_groups.run("-s", "tasks/far")
    result.stdout.fnmatch_lines(["*module of */tasks/far/hello/task.toml hello*"])


def test_parametrized_fixtures_multiply_trials(two_groups):
    two_groups.conftest(
        """
@pytest.fixture(autouse=True, params=["x", "y"])
def letter(request):
    return request.param
""",
        "tasks/near",
    )
    ids = two_groups.ids()
    assert ids == [
        "tasks/far/hello/task.toml::oracle",
        *(
            f"tasks/near/{name}/task.toml::oracle[{letter}]"
            for name in ("hello", "world")
            for letter in "xy"
        ),
    ]
    two_groups.run("tasks/near").assert_outcomes(skipped=4)
    assert two_groups.ids(ids[-1]) == [ids[-1]]


def test_generated_parameters_may_differ_between_tasks(two_groups):
    two_groups.conftest("""
@pytest.fixture
def letter(request):
    return request.param

def pytest_generate_tests(metafunc):
    if metafunc.definition.path.parent.name == "world":
        metafunc.fixturenames.append("letter")
        metafunc.parametrize("letter", ["x", "y"], indirect=True)
""")
    assert two_groups.ids("tasks/near") == [
        "tasks/near/hello/task.toml::oracle",
        "tasks/near/world/task.toml::oracle[x]",
        "tasks/near/world/task.toml::oracle[y]",
    ]


def test_a_fixture_asked_for_on_one_item_stays_with_it(two_groups):
    two_groups.conftest("""
@pytest.fixture
def loud(request):
    print("loud for", request.node.nodeid)

def pytest_collection_modifyitems(items):
    items[0].fixturenames.insert(0, "loud")
""")
    assert two_groups.run("-s").stdout.str().count("loud for") == 1


class TestTaskCollected:
    """``pytest_harbor_task_collected``"""

    @pytest.mark.parametrize(
        ("answer", "outcomes"),
        [
            ("None", {"skipped": 3}),
            ("True", {"skipped": 3}),
            ("False", {"skipped": 1}),
            ("'too slow here'", {"skipped": 3}),
        ],
    )
    def test_keeps_drops_or_skips(self, two_groups, answer, outcomes):
        two_groups.conftest(
            f"def pytest_harbor_task_collected(config, task): return {answer}", "tasks/near"
        )
        result = two_groups.run("-rs")
        result.assert_outcomes(**outcomes)
        shown = result.stdout.str().count("too slow here")
        assert (shown > 0) == answer.startswith("'")

    def test_is_given_the_task(self, two_groups):
        two_groups.conftest(
            "def pytest_harbor_task_collected(task): return task.path.name != 'world'"
        )
        assert "tasks/near/world/task.toml::oracle" not in two_groups.ids()

    def test_shows_every_reason(self, two_groups):
        two_groups.conftest("def pytest_harbor_task_collected(): return 'because'")
        two_groups.conftest("def pytest_harbor_task_collected(): return 'also'", "tasks/far")
        two_groups.run("tasks/far", "-rs").stdout.fnmatch_lines(["SKIPPED * also; because"])


class TestCheckTask:
    """``pytest_harbor_check_task``"""

    CHECK = """
from pytest_harbor.errors import Problem

def pytest_harbor_check_task(config, task):
    if task.path.name == "world":
        return [Problem(task.config_file, "lacks a canary", line=2, severity={severity!r})]
"""

    def test_an_error_is_that_tasks_error(self, two_groups):
        two_groups.conftest(self.CHECK.format(severity="error"))
        result = two_groups.run("tasks/near")
        result.assert_outcomes(skipped=1, errors=1)
        result.stdout.fnmatch_lines(["tasks/near/world/task.toml:2: lacks a canary"])

    def test_a_warning_is_shown_and_counts_under_strict(self, two_groups):
        two_groups.conftest(self.CHECK.format(severity="warning"))
        result = two_groups.run("tasks/near")
        result.assert_outcomes(skipped=2, warnings=1)
        result.stdout.fnmatch_lines(["*task.toml:2: HarborWarning: lacks a canary"])
        two_groups.run("tasks/near", "--harbor-strict").assert_outcomes(skipped=1, errors=1)


def test_every_hook_says_when_it_is_called():
    from pytest_harbor.plugin import hookspecs

    hooks = [value for name, value in vars(hookspecs).items() if name.startswith("pytest_harbor_")]
    assert len(hooks) == 9
    assert [hook.__name__ for hook in hooks if ":param" not in (hook.__doc__ or "")] == []


def test_a_misspelt_hook_is_refused(project):
    project.conftest("def pytest_harbor_trail_result(item, result): pass")
    result = project.run()
    assert result.ret != 0
    assert "unknown hook 'pytest_harbor_trail_result'" in (
        result.stdout.str() + result.stderr.str()
    )
