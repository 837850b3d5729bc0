"""Names of items: stable, selectable, readable back from what pytest prints."""

import xml.etree.ElementTree as ElementTree

import pytest

MODEL = "open-router/meta.x:free-2"
AGENTS = ("--harbor-agent=oracle", "--harbor-agent=nop", "--harbor-agent=my_pkg.mod:Agent")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], ["oracle"]),
        (["--harbor-agent=nop", "--harbor-agent=oracle"], ["nop", "oracle"]),
        (["--harbor-agent=nop", "--harbor-agent=nop"], ["nop"]),
        (["--harbor-attempts=2"], ["oracle[1]", "oracle[2]"]),
        (["--harbor-agent=codex", "--harbor-model=openai/gpt-5"], ["codex[openai/gpt-5]"]),
        (
            [
                "--harbor-agent=codex",
                "--harbor-model=a/b",
                "--harbor-model=c",
                "--harbor-attempts=2",
            ],
            ["codex[a/b-1]", "codex[a/b-2]", "codex[c-1]", "codex[c-2]"],
        ),
        (["--harbor-agent=oracle", "--harbor-model=a/b"], ["oracle"]),
        (["--harbor-agent-command=true"], ["command"]),
        (["--harbor-agent=nop", "--harbor-agent-command=true"], ["nop", "command"]),
    ],
)
def test_items_are_named_by_agent_model_and_attempt(project, options, names):
    project.task("hello")
    assert project.ids(*options) == [f"tasks/hello/task.toml::{name}" for name in names]


def test_every_printed_id_selects_exactly_that_item(project):
    project.task("hello")
    project.task("my task")
    options = [*AGENTS, f"--harbor-model={MODEL}", "--harbor-attempts=2"]
    ids = project.ids(*options)
    assert len(ids) == 12
    for nodeid in ids:
        assert project.ids(*options, nodeid) == [nodeid]
        assert project.ids(*options, project.path / nodeid) == [nodeid]


def test_the_agents_name_alone_selects_all_of_its_trials(project):
    project.task("hello")
    options = [*AGENTS, f"--harbor-model={MODEL}", "--harbor-attempts=2"]
    ids = project.ids(*options, "tasks/hello/task.toml::my_pkg.mod:Agent")
    assert ids == [f"tasks/hello/task.toml::my_pkg.mod:Agent[{MODEL}-{n}]" for n in (1, 2)]


def test_ids_are_the_same_in_workers(project):
    project.task("hello")
    project.task("other")
    options = [*AGENTS, f"--harbor-model={MODEL}"]
    result = project.run_process(*options, "-n2", "-v")
    for nodeid in project.ids(*options):
        assert f"SKIPPED {nodeid}" in result.stdout.str()


def test_items_have_no_parameters_which_editors_cannot_place(project):
    project.task("hello")
    items, _ = project.pytester.inline_genitems(*AGENTS, f"--harbor-model={MODEL}")
    assert len(items) == 3
    assert not [item for item in items if hasattr(item, "callspec")]


@pytest.mark.parametrize("option", ["--lf", "--ff", "--sw"])
@pytest.mark.long
def test_reruns_find_items_with_models_again(project, option):
    project.task("hello")
    project.task("other")
    project.conftest("""
@pytest.fixture(autouse=True)
def fail_one(request):
    if request.node.name == "codex[x/y-2]" and "other" in request.node.nodeid:
        pytest.fail("on purpose")
""")
    options = ["--harbor-agent=codex", "--harbor-model=x/y", "--harbor-attempts=2"]
    first_run = ["--sw"] if option == "--sw" else []
    project.run(*options, *first_run).assert_outcomes(skipped=3, errors=1)
    result = project.run(*options, option, "-v")
    first = next(line for line in result.outlines if line.startswith("tasks/"))
    assert first.startswith("tasks/other/task.toml::codex[x/y-2] ")
    assert result.parseoutcomes().get("skipped", 0) == (3 if option == "--ff" else 0)


def test_deselect_takes_one_item(project):
    project.task("hello")
    nodeid = "tasks/hello/task.toml::codex[x/y-2]"
    options = ["--harbor-agent=codex", "--harbor-model=x/y", "--harbor-attempts=2"]
    assert project.ids(*options, "--deselect", nodeid) == ["tasks/hello/task.toml::codex[x/y-1]"]


@pytest.mark.parametrize("name", ["CapsTask", "v1.0-x", "my task", "tâche", "t" * 80])
def test_awkward_names_keep_their_ids(project, name):
    project.task(name)
    nodeid = f"tasks/{name}/task.toml::oracle"
    assert project.ids() == [nodeid]
    assert project.ids(nodeid) == [nodeid]


@pytest.mark.parametrize("name", ["a[1]", "a::b"])
def test_a_name_that_pytest_cannot_read_back_is_warned_of(project, name):
    project.task(name)
    result = project.run("--collect-only", "-q")
    result.stdout.fnmatch_lines(["*HarborWarning: the path*cannot be named on the command line*"])
    assert f"tasks/{name}/task.toml::oracle" in result.outlines


def test_control_characters_stay_out_of_ids_and_reports(project):
    project.task("bell\x07")
    project.task("set\x1b[31m/hello")
    result = project.run("-v", "--junitxml=report.xml")
    result.assert_outcomes(skipped=2)
    cases = ElementTree.parse(project.path / "report.xml").getroot().iter("testcase")
    assert [case.get("classname") for case in cases] == [
        "tasks.bell\\x07.task.toml",
        "tasks.set\\x1b[31m.hello.task.toml",
    ]


def test_reports_point_at_the_task(project):
    project.task("hello")
    items, _ = project.pytester.inline_genitems()
    assert items[0].location == ("tasks/hello/task.toml", 0, "hello::oracle")
