"""Datasets as collection roots: ids, selection, and what is downloaded when."""

import json
from pathlib import Path

import pytest

from pytest_harbor.dataset.digest import task_digest
from pytest_harbor.plugin.options import settings
from pytest_harbor.plugin.resume import shaping_options
from tests.dataset.conftest import HubData, git
from tests.plugin.conftest import Project

DATASET = "--harbor-dataset=bench@1.0"
REGISTRY = "--harbor-registry=registry.json"
BENCH = (DATASET, REGISTRY)
HELLO = "bench@1.0/hello/task.toml::oracle"
OTHER = "bench@1.0/other/task.toml::oracle"


@pytest.fixture
def project(pytester: pytest.Pytester, make_task) -> Project:
    return Project(pytester, make_task)


@pytest.fixture
def bench(project, repositories, make_task, tmp_path, monkeypatch):
    """A registry of this project whose tasks lie in a repository."""
    monkeypatch.setattr(make_task, "root", tmp_path / "source/tasks")
    make_task("hello")
    make_task("other", toml='[task]\nname = "acme/last"\n')
    source = tmp_path / "source"
    commit = repositories.make("bench.git", source)
    tasks = [
        {
            "name": name,
            "path": f"tasks/{name}",
            "git_url": repositories.url("bench.git"),
            "git_commit_id": commit,
        }
        for name in ("hello", "other")
    ]
    row = {"name": "bench", "version": "1.0", "description": "", "tasks": tasks}
    (project.path / "registry.json").write_text(json.dumps([row]))
    monkeypatch.setattr(make_task, "root", project.path / "tasks")
    return source


def _names(cache) -> set[str]:
    return {one.source.rpartition("/")[2] for one in cache.entries()}


def test_ids_name_the_dataset_and_select_its_trials(project, bench):
    assert project.ids(*BENCH) == [HELLO, OTHER]
    for asked in (HELLO, "bench@1.0/hello::oracle", "bench@1.0/hello", "bench@1.0/hello/task.toml"):
        assert project.ids(*BENCH, asked) == [HELLO]
    agents = ("--harbor-agent=oracle", "--harbor-agent=nop", "--harbor-attempts=2")
    assert project.ids(*BENCH, *agents, "bench@1.0/other::nop[2]") == [
        "bench@1.0/other/task.toml::nop[2]"
    ]
    assert len(project.ids(*BENCH, *agents, "bench@1.0/other::nop")) == 2


def test_pytests_own_selection_works_on_them(project, bench):
    assert project.ids(*BENCH, "-k", "hello") == [HELLO]
    assert project.ids(*BENCH, "-k", "last") == [OTHER]
    assert project.ids(*BENCH, f"--deselect={HELLO}") == [OTHER]
    assert project.ids(*BENCH, "-m", "harbor(name='acme/last')") == [OTHER]


def test_only_what_was_asked_for_is_downloaded(project, bench, cache):
    assert project.ids(*BENCH, "--harbor-tasks=hel*") == [HELLO]
    assert _names(cache) == {"hello"}
    assert project.ids(*BENCH, "--harbor-exclude-tasks=bench@1.0/h*") == [OTHER]
    assert _names(cache) == {"hello", "other"}


@pytest.mark.parametrize("exclude", ["other", "acme/*"])
def test_what_is_left_out_may_be_among_what_was_not_kept(project, bench, cache, exclude):
    options = ("--harbor-tasks=hello", f"--harbor-exclude-tasks={exclude}")
    assert project.ids(*BENCH, *options) == [HELLO]
    if exclude == "other":
        assert _names(cache) == {"hello"}


@pytest.mark.parametrize(
    ("option", "expected"),
    [("--harbor-tasks=acme/*", [OTHER]), ("--harbor-exclude-tasks=acme/*", [HELLO])],
)
def test_a_pattern_may_be_for_a_name_that_only_the_task_tells(project, bench, option, expected):
    assert project.ids(*BENCH, option) == expected


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--harbor-tasks=helo",), "*--harbor-tasks: no task fits 'helo'. Near: hello"),
        (
            ("--harbor-exclude-tasks=x*",),
            "*--harbor-exclude-tasks: no task fits 'x?'.*hello, other",
        ),
        (("bench@1.0/helo::oracle",), "*bench@1.0 has no task 'helo'. Near: hello"),
        (("--harbor-dataset=bensh",), "*has no dataset 'bensh'. Near: bench"),
        (("--harbor-dataset=a b",), "*argument --harbor-dataset: 'a b' names no dataset; *"),
    ],
)
def test_what_fits_nothing_is_a_usage_error(project, bench, args, said):
    result = project.run(*BENCH, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    assert "Traceback" not in result.stderr.str()


def test_a_trial_that_is_not_there_is_one_error(project, bench):
    result = project.run(*BENCH, "bench@1.0/hello::nop")
    result.stdout.fnmatch_lines(["*bench@1.0/hello/task.toml: no trial nop; it has: oracle"])


def test_beside_paths_datasets_add_up_and_alone_they_are_all_that_runs(project, bench):
    project.task("own")
    own = "tasks/own/task.toml::oracle"
    assert project.ids(*BENCH) == [HELLO, OTHER]
    assert project.ids(*BENCH, "tasks") == [own, HELLO, OTHER]
    assert project.ids(*BENCH, "tasks", "bench@1.0/hello") == [own, HELLO]
    assert project.ids(*BENCH, "tasks", "--harbor-tasks=own", "--harbor-tasks=hello") == [
        own,
        HELLO,
    ]
    project.ini("harbor_dataset = bench@1.0", "harbor_registry = registry.json")
    assert project.ids() == [own, HELLO, OTHER]
    assert project.ids(HELLO) == [HELLO]


def test_conftest_files_of_the_root_folder_are_above_them(project, bench):
    project.conftest("""
def pytest_runtest_setup(item):
    print("hook for", item.nodeid)

def pytest_harbor_task_collected(config, task):
    return "not today" if task.path.name == "other" else None

@pytest.fixture(autouse=True)
def loud(request):
    print("fixture for", request.node.nodeid)
""")
    result = project.run(*BENCH, "-s", "-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines([f"*hook for {HELLO}*", f"*fixture for {HELLO}*"])
    result.stdout.fnmatch_lines(["*not today*"])


def test_workers_take_what_was_downloaded_once(project, bench, cache):
    result = project.run_process(*BENCH, "--harbor-tasks=*", "-n2", "-v")
    result.assert_outcomes(skipped=2)
    text = result.stdout.str()
    assert text.count("2 to download") == 1
    assert HELLO in text
    assert ".cache" not in text


def test_last_failures_are_run_again_among_other_tests(project, bench):
    project.conftest("""
@pytest.fixture
def harbor_trial(request):
    pytest.fail("no") if "hello" in request.node.nodeid else pytest.skip("no")
""")
    (project.path / "test_x.py").write_text("def test_f(): assert 0\n")
    (project.path / "test_y.py").write_text("def test_g(): pass\n")
    project.run(*BENCH, ".")
    assert project.ids(*BENCH, ".", "--lf") == ["test_x.py::test_f", HELLO]


def test_a_task_that_cannot_be_had_is_one_error(project, bench, repositories):
    (bench / "tasks/other/tests/out").symlink_to("/etc/passwd")
    commit = repositories.commit(bench)
    git("push", "-q", "origin", "main", cwd=bench)
    url = f"{repositories.url('bench.git')}@{commit}"
    result = project.run(f"--harbor-dataset={url}", "--harbor-json=numbers.json")
    result.assert_outcomes(skipped=1, errors=1)
    said = "*the link 'tests/out' is not relative; replace it by the file*"
    result.stdout.fnmatch_lines([f"local/*@{commit[:12]}/other/task.toml: {said}"])
    # Both count as what they are, tasks of the dataset.
    written = json.loads((project.path / "numbers.json").read_text())
    (label,) = {one["dataset_label"] for one in written["trials"]}
    assert label.endswith(f"@{commit[:12]}")


def test_what_was_changed_in_the_cache_is_not_run(project, bench, cache):
    project.ids(*BENCH)
    for one in cache.entries():
        if one.source.endswith("hello"):
            (one.path / "files/hello/instruction.md").write_text("Another.\n")
    result = project.run(*BENCH)
    result.assert_outcomes(skipped=1, errors=1)
    result.stdout.fnmatch_lines(["*the cached task was changed since it was downloaded*"])


def test_static_checks_need_no_more_than_the_name(project, bench):
    result = project.run(*BENCH, "--harbor-check=static", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["bench@1.0/hello/task.toml::check PASSED*"])


def test_a_hub_and_a_folder_serve_too(project, make_task, serve):
    data = HubData()
    data.publish(make_task("hello"))
    server = serve(data.answer)
    (project.path / "tasks/dataset.toml").write_text('[dataset]\nname = "acme/set"\n')
    ids = project.ids(
        "--harbor-dataset=acme/bench", "--harbor-dataset=./tasks", f"--harbor-hub={server.url}"
    )
    assert ids == ["acme/bench@latest/hello/task.toml::oracle", "acme/set/hello/task.toml::oracle"]


def test_a_run_without_datasets_loads_nothing_for_them(project):
    project.pytester.makepyfile("""
        import sys

        def test_modules():
            assert "pytest_harbor.dataset.resolve" not in sys.modules
            assert "pytest_harbor.dataset.spec" not in sys.modules
    """)
    project.run_process().assert_outcomes(passed=1)


@pytest.mark.long
def test_a_thousand_tasks_are_collected(project, make_task, repositories, monkeypatch, tmp_path):
    monkeypatch.setattr(make_task, "root", tmp_path / "source/tasks")
    for number in range(1000):
        make_task(f"t{number:04}")
    repositories.make("bench.git", tmp_path / "source")
    assert len(project.ids(f"--harbor-dataset={repositories.url('bench.git')}")) == 1000


@pytest.mark.docker
def test_a_job_tells_where_its_tasks_came_from_and_can_be_had_again(
    pytester, bench, engine, repositories
):
    # Not the project of the other tests, whose trials never run.
    pytester.makeconftest("")

    def run(*args: object) -> pytest.RunResult:
        return pytester.runpytest_subprocess("-p", "no:hypothesispytest", *args)

    run(*BENCH, HELLO).assert_outcomes(passed=1)
    (path,) = Path(pytester.path, "jobs").glob("*/hello__*/result.json")
    found = json.loads(path.read_text())
    assert found["source"] == "bench"
    assert found["task_id"]["git_url"] == repositories.url("bench.git")
    assert found["task_id"]["path"] == "tasks/hello"
    job = path.parent.parent
    groups = json.loads((job / "result.json").read_text())["stats"]["evals"]
    assert list(groups) == ["oracle__bench"]

    resumed = run(*BENCH, HELLO, f"--harbor-resume={job}")
    resumed.assert_outcomes(passed=1)
    assert len(list(job.glob("hello__*"))) == 1

    Path(pytester.path, "registry.json").unlink()
    same = run(f"--harbor-locked={job}", HELLO)
    same.assert_outcomes(passed=1)
    same.stdout.fnmatch_lines(
        [
            f"*held against {job.name}*",
            "bench@1.0 is run as it was pinned; what it is by now is not known: *registry.json: *",
            "the same tasks, options, versions, agents and images",
        ]
    )
    other = run(f"--harbor-locked={job}", "--harbor-attempts=2", "bench@1.0/other")
    assert other.ret == pytest.ExitCode.USAGE_ERROR
    other.stdout.fnmatch_lines(
        [
            f"*this run is not the same as {job.name}:",
            "  option attempts: was 1, is 2",
            f"  not run now: {HELLO}",
            "  not run then: bench@1.0/other/task.toml::oracle?1?, bench@1.0/other/*",
        ]
    )


def test_a_lock_that_is_not_there_is_a_usage_error(project):
    result = project.run("--harbor-locked=jobs/none")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--harbor-locked: *jobs/none/lock.json: cannot be read: *"])


@pytest.mark.parametrize("changed", [False, True])
def test_a_job_of_a_dataset_is_gone_on_with(project, bench, cache, pytester, changed):
    job = project.path / "jobs/2026-01-05__10-00-00__1a2b3c4d"
    options = shaping_options(settings(pytester.parseconfig(*BENCH)))
    digest = "another" if changed else task_digest(bench / "tasks/hello")
    told = {"agent": "oracle", "category": "reward", "reward": 1}
    files = {
        "config.json": {"pytest_harbor": {"options": options}},
        "hello__aaaaaaa/result.json": {
            "config": {"item": HELLO, "task_digest": digest},
            "pytest_harbor": {"category": "reward"},
        },
        "hello__aaaaaaa/outcome.json": {"outcome": "passed", "properties": told},
    }
    for name, content in files.items():
        (job / name).parent.mkdir(parents=True, exist_ok=True)
        (job / name).write_text(json.dumps(content))
    result = project.run(*BENCH, HELLO, "--harbor-resume")
    if changed:
        result.stdout.fnmatch_lines(["*changed since * ran: *hello. *"])
    else:
        result.assert_outcomes(passed=1)


def test_how_much_a_dataset_may_take_can_be_said(project, bench, cache):
    run = project.run(*BENCH, "--harbor-dataset-max-size=1K", "--collect-only")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*--harbor-dataset: *a dataset may take 1 KiB. Choose fewer*"])
    project.pytester.makeini("[pytest]\nharbor_dataset_max_size = 1K\n")
    assert project.run(*BENCH, "--collect-only").ret == pytest.ExitCode.USAGE_ERROR
    assert project.ids(*BENCH, "--harbor-dataset-max-size=1M") == [HELLO, OTHER]


def test_a_size_that_is_none_is_told(project, bench):
    run = project.run(*BENCH, "--harbor-dataset-max-size=fifty", "--collect-only")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*expected a size such as 50G, 1.5T or 800M, got 'fifty'*"])
