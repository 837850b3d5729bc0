"""Plugins that choose, order, repeat or cut off tests do so with trials."""

import json


def ids(*tasks: str) -> list[str]:
    return [f"tasks/{task}/task.toml::oracle" for task in tasks]


def test_randomly_reorders_trials_and_runs_each_once(project):
    names = [f"good{number}" for number in range(6)]
    for name in names:
        project.task(name)
    orders = []
    for seed in (1, 2):
        project.run("randomly", f"--randomly-seed={seed}")
        orders.append(project.ran())
    assert [sorted(order) for order in orders] == [ids(*names)] * 2
    assert orders[0] != orders[1]


def test_split_gives_each_trial_to_one_group(project):
    names = [f"good{number}" for number in range(5)]
    for name in names:
        project.task(name)
    groups = []
    for group in (1, 2):
        project.run("pytest-split", "--splits=2", f"--group={group}")
        groups.append(project.ran())
    assert all(groups)
    assert sorted(groups[0] + groups[1]) == ids(*names)


def test_split_stores_how_long_trials_took(project):
    project.task("good")
    project.run("pytest-split", "--store-durations", "--durations-path=times.json")
    assert list(json.loads((project.path / "times.json").read_text())) == ids("good")


def test_timeout_ends_a_trial_and_the_run_goes_on(project):
    project.task("good")
    project.task("slow")
    # What is imported in the first trial's time may take longer than this limit.
    project.conftest("\nimport pytest_harbor.environment.docker.backend\n")
    result = project.run((), "--timeout=4", "-rA", "tasks/slow", "tasks/good")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"ERROR {ids('slow')[0]} - Failed: Timeout (>4.0s)*"])
    assert project.ran() == ids("slow", "good")


def test_rerunfailures_runs_the_trial_again_and_reports_its_last_reward(project):
    project.task("good")
    project.task("later")
    project.task("poor")
    result = project.run((), "--reruns=2", "--report-log=log.jsonl")
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["failed"], outcomes["rerun"]) == (2, 1, 3)
    assert project.ran() == ids("good", "later", "later", "poor", "poor", "poor")
    calls = [line for line in project.json_lines("log.jsonl") if line.get("when") == "call"]
    last = {line["nodeid"]: line["user_properties"] for line in calls}
    rewards = [pair[1] for pair in last[ids("later")[0]] if pair[0] == "reward"]
    assert rewards == [1.0]
