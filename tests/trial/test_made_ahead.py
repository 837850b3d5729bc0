"""What a first trial would wait for is begun before it, and goes with the run."""

import json

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.slow]

NO_NETWORK = "+[environment]\nnetwork_mode = 'no-network'\n"

TELL = """
import json, pathlib, pytest
from pytest_harbor.environment.docker.backend import engine_of_run
from pytest_harbor.environment.docker.network import await_run_network
from pytest_harbor.plugin.job import job

def pytest_sessionfinish(session):
    run_id = job(session.config).run_id
    engine = engine_of_run(run_id)
    await_run_network(engine)
    found = engine.api.networks(filters={"label": f"pytest-harbor.run={run_id}"})
    told = {"run_id": run_id, "networks": [each["Name"] for each in found]}
    worker = getattr(session.config, "workerinput", {}).get("workerid", "main")
    pathlib.Path(session.config.rootpath, f"told-{worker}.json").write_text(json.dumps(told))
"""
MARKED = """
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.skip(reason="not today"))
"""
LATE = """
def pytest_runtest_setup(item):
    pytest.skip("not today")
"""


def told_by(folder):
    """What each process said at its end, before anything was removed."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob("told-*.json"))]


@pytest.mark.parametrize(
    ("toml", "hook", "args"),
    [("", MARKED, []), ("", MARKED, ["-n2"]), ("", "", ["--setup-plan"]), (NO_NETWORK, LATE, [])],
    ids=["skipped", "skipped-by-workers", "planned", "no-network"],
)
@pytest.mark.long
def test_no_network_is_made_for_a_trial_that_does_not_come(
    make_task, run_tasks, pytester, toml, hook, args
):
    make_task("hello", toml=toml)
    pytester.makeconftest(TELL + hook)
    run_tasks("tasks", *args, subprocess=True)
    processes = 3 if "-n2" in args else 1
    assert [told["networks"] for told in told_by(pytester.path)] == [[]] * processes


@pytest.mark.parametrize("args", [[], ["-n2"]], ids=["alone", "workers"])
def test_a_network_made_ahead_goes_where_no_trial_took_it(
    make_task, run_tasks, pytester, engine, args
):
    make_task("hello")
    pytester.makeconftest(TELL + LATE)
    run_tasks("tasks", *args, subprocess=True).run.assert_outcomes(skipped=1)
    told = told_by(pytester.path)
    run_id = told[0]["run_id"]
    assert [f"pytest-harbor-{run_id}"] in [one["networks"] for one in told]
    assert engine.api.networks(filters={"label": f"pytest-harbor.run={run_id}"}) == []


@pytest.mark.long
def test_workers_beyond_the_number_of_trials_load_nothing_for_them(
    make_task, run_tasks, pytester
):
    make_task("hello")
    pytester.makeconftest("""
import pathlib, sys

def pytest_runtest_logreport(report):
    ran.add(getattr(report, "worker_id", None))

def pytest_sessionfinish(session):
    worker = getattr(session.config, "workerinput", {}).get("workerid", "main")
    told = " ".join(["docker" * ("docker" in sys.modules), "ran" * bool(ran)])
    pathlib.Path(session.config.rootpath, worker).write_text(told)

ran = set()
""")
    run_tasks("tasks", "-n3", subprocess=True).run.assert_outcomes(passed=1)
    told = {name: (pytester.path / name).read_text().split() for name in ("gw0", "gw1", "gw2")}
    assert [name for name, words in told.items() if words == ["docker", "ran"]] != []
    others = [words for name, words in told.items() if name != "gw0" and "ran" not in words]
    assert [words for words in others if words] == []
