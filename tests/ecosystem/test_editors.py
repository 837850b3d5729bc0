"""What editors build their trees of tests from is there for tasks and trials."""

import json
import re

TELL_NODES = """
import json
from pathlib import Path

def pytest_collection_finish(session):
    told = []
    for item in session.items:
        told.append({
            "id": item.nodeid,
            "path": str(item.path),
            "paths": [isinstance(node.path, Path) for node in item.listchain()],
            "top": type(item.listchain()[0]).__name__,
            "line": item.location[1],
            "parametrized": hasattr(item, "callspec"),
        })
    Path("nodes.json").write_text(json.dumps(told))
"""


def test_nodes_have_what_vs_code_asks_of_them(project):
    """Its tree is made from paths, the parts of ids, and lines.

    Every node up to the session has a path; an item's path lies in its task; its id has a part
    after the file's; its line is a number. An item with parameters of pytest's is taken for one
    in a ``.py`` file, so models and attempts must not be such.
    """
    project.task("good")
    project.task("of two words")
    project.conftest(TELL_NODES)
    project.run(
        (),
        "--collect-only",
        "--harbor-agent=codex",
        "--harbor-model=a/b.py",
        "--harbor-attempts=2",
    )
    nodes = json.loads((project.path / "nodes.json").read_text())
    assert len(nodes) == 4
    for node in nodes:
        file, *parts = node["id"].split("::")
        assert parts == [f"codex[a/b.py-{1 if node['id'].endswith('-1]') else 2}]"]
        assert node["path"] == str(project.path / file)
        assert all(node["paths"])
        assert node["top"] == "Session"
        assert isinstance(node["line"], int)
        assert not node["parametrized"]


TELL_FAILURES = """
def pytest_exception_interact(call, report):
    with open("raised.txt", "a") as file:
        file.write(f"{report.when}:{isinstance(call.excinfo.value, AssertionError)} ")
"""


def test_a_trial_below_the_threshold_failed_and_is_no_error(project):
    """VS Code tells the two apart by the exception: failed is an AssertionError."""
    project.task("poor")
    project.conftest(TELL_FAILURES)
    result = project.run((), "-rf")
    result.assert_outcomes(failed=1)
    assert (project.path / "raised.txt").read_text() == "call:True "
    result.stdout.fnmatch_lines(["FAILED tasks/poor/task.toml::oracle - Failed: *reward 0.25*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*AssertionError*")


def test_steps_fail_likewise(project):
    project.task("poor steps")
    project.conftest(TELL_FAILURES)
    result = project.run((), "-rA")
    assert (project.path / "raised.txt").read_text() == "call:True call:True "
    result.stdout.fnmatch_lines(
        ["SUBFAILED[[]second[]] tasks/poor steps/task.toml::oracle - Failed: step second: *"]
    )


def test_checks_fail_likewise(project):
    project.task("good", toml="memroy = 1\n")
    project.conftest(TELL_FAILURES)
    result = project.run((), "--harbor-check=static", "-rf")
    result.assert_outcomes(failed=1)
    assert (project.path / "raised.txt").read_text() == "call:True "
    result.stdout.fnmatch_lines(["FAILED tasks/good/task.toml::check - Failed: *memroy*"])
    result.stdout.no_fnmatch_line("*AssertionError*")


def test_the_messages_that_pycharm_reads_name_the_trials(project):
    project.task("good")
    project.task("poor")
    result = project.run("pytest-teamcity", "--teamcity", "--harbor-attempts=2")
    text = result.stdout.str()
    started = re.findall(r"##teamcity\[testStarted .*?name='([^']*)'", text)
    failed = re.findall(r"##teamcity\[testFailed .*?name='([^']*)'", text)
    assert started == [
        f"tasks.{task}.task_toml.oracle({n})" for task in ("good", "poor") for n in (1, 2)
    ]
    assert failed == started[2:]
