"""Numbers where a run is of more than one dataset: each has its own, and its own denominator."""

import csv
import json
from typing import Any

import pytest

from pytest_harbor.plugin.summary import summary_lines
from pytest_harbor.report.comparison import compare, comparison_lines
from pytest_harbor.report.data import report_data
from pytest_harbor.report.job import read_job
from pytest_harbor.report.numbers import group_numbers
from pytest_harbor.report.numbers_file import json_lines
from pytest_harbor.report.tables import csv_lines


def fill(job: Any, dataset: str, task: str, *rewards: float | None, agent: str = "oracle") -> None:
    """Attempts at a task of a dataset; an empty name: of none."""
    for number, reward in enumerate(rewards, 1):
        label = dataset.replace("@", "-").replace("/", "-")
        job.trial(
            f"{task}__{label}{agent}{number}",
            reward,
            task=task,
            agent=agent,
            attempt=number,
            dataset=dataset,
            item=f"{dataset or 'tasks'}/{task}/task.toml::{agent}",
        )


@pytest.fixture
def two(job: Any) -> Any:
    """Two datasets whose tasks have the same names, and a task that is of none."""
    fill(job, "easy@1.0", "a", 1.0, 1.0)
    fill(job, "easy@1.0", "b", 1.0, 0.0)
    fill(job, "hard@2.0", "a", 0.0, None)
    fill(job, "", "mine", 1.0)
    return job


def content(job: Any) -> dict[str, Any]:
    reading = read_job(job.path)
    found: dict[str, Any] = json.loads("".join(json_lines(reading, reading.trials)))
    return found


def test_each_dataset_has_a_group_with_its_own_denominators(two: Any) -> None:
    groups = group_numbers(read_job(two.path).trials, by_dataset=True)
    found = {
        one.full_name: (one.trials, one.tasks, one.valid, one.passed, one.mean_reward.value)
        for one in groups
        if one.mean_reward
    }
    assert found == {
        "oracle on easy@1.0": (4, 2, 4, 3, 0.75),
        "oracle on hard@2.0": (2, 1, 1, 0, 0.0),
        "oracle on tasks by path": (1, 1, 1, 1, 1.0),
    }
    hard = groups[1]
    assert hard.left_out == {"no valid reward (the task's fault)": 1}
    # a: 1 of 1; b: 1 - C(1, 1)/C(2, 1) = 1/2.
    assert groups[0].pass_at[1].value == 0.75
    assert (groups[0].pass_at[1].denominator, hard.pass_at[1].denominator) == (2, 1)


def test_the_file_has_both_and_says_which_is_pooled(two: Any) -> None:
    found = content(two)
    (pooled,) = found["groups"]
    assert (pooled["name"], pooled["pooled"], pooled["dataset_label"]) == ("oracle", True, None)
    assert [pooled["pass_rate"][one] for one in ("numerator", "denominator")] == [4, 6]
    by_dataset = {one["dataset_label"]: one for one in found["by_dataset"]}
    assert list(by_dataset) == ["easy@1.0", "hard@2.0", None]
    assert not any(one["pooled"] for one in found["by_dataset"])
    assert by_dataset["easy@1.0"]["pass_rate"]["denominator"] == 4
    assert list(by_dataset["hard@2.0"]["harbor"]) == ["oracle__hard"]
    rows = {(row["dataset"], row["dataset_label"]) for row in found["trials"]}
    assert rows == {("easy", "easy@1.0"), ("hard", "hard@2.0"), (None, None)}


def test_of_one_dataset_both_are_the_same_and_nothing_is_pooled(job: Any) -> None:
    fill(job, "easy@1.0", "a", 1.0, 0.0)
    found = content(job)
    assert found["groups"] == found["by_dataset"]
    assert (found["groups"][0]["dataset_label"], found["groups"][0]["pooled"]) == (
        "easy@1.0",
        False,
    )


def test_versions_of_a_dataset_are_two(job: Any) -> None:
    fill(job, "easy@1.0", "a", 1.0)
    fill(job, "easy@2.0", "a", 0.0)
    labels = [one["dataset_label"] for one in content(job)["by_dataset"]]
    assert labels == ["easy@1.0", "easy@2.0"]


def test_a_job_of_harbors_own_tells_them_by_their_sources(job: Any) -> None:
    job.trial("a__x", 1.0, source="first", config={"task": {"path": "/x/a"}}, attempt=0)
    job.trial("a__y", 0.0, source="second", config={"task": {"path": "/y/a"}}, attempt=0)
    labels = [one["dataset_label"] for one in content(job)["by_dataset"]]
    assert labels == ["first", "second"]


def test_the_table_has_a_row_for_each_and_no_mean_over_both(summary: Any) -> None:
    told = summary(width=120)
    assert [line.split("  ")[0] for line in told[:4]] == [
        "agent",
        "oracle on easy@1.0",
        "oracle on hard@2.0",
        "oracle, pooled",
    ]
    easy, hard, pooled = (line.split() for line in told[1:4])
    assert easy[3:8] == ["4", "3", "of", "4", "0.75"]
    assert hard[3:8] == ["2", "0", "of", "1", "0.00"]
    assert pooled[2:] == ["6", "3", "of", "5", "-", "-", "-"]
    assert (
        "oracle on hard@2.0: not counted: 1 no valid reward (the task's fault)" in told
    )
    assert not any(line.startswith("oracle, pooled: not counted") for line in told)


def test_sentences_name_the_dataset_and_pooled_ones_have_no_mean(summary: Any) -> None:
    assert summary(width=120, short=True)[:3] == [
        "oracle on easy@1.0: 3 of 4 valid rewards passed; mean reward 0.75; pass@2 1",
        "oracle on hard@2.0: 0 of 1 valid rewards passed; mean reward 0;"
        " not counted: 1 no valid reward (the task's fault)",
        "oracle, pooled: 3 of 5 valid rewards passed;"
        " not counted: 1 no valid reward (the task's fault)",
    ]


@pytest.fixture
def summary() -> Any:
    """The summary of trials on two datasets, as reporters have them."""
    rewards = {
        "easy@1.0": {"a": (1.0, 1.0), "b": (1.0, 0.0)},
        "hard@2.0": {"a": (0.0, None)},
    }
    found: dict[str, dict[str, Any]] = {}
    for label, tasks in rewards.items():
        for task, attempts in tasks.items():
            for number, reward in enumerate(attempts, 1):
                found[f"{label}/{task}/task.toml::oracle[{number}]"] = {
                    "agent": "oracle",
                    "attempt": number,
                    "dataset": label.partition("@")[0],
                    "dataset.label": label,
                    "category": "task" if reward is None else "reward",
                    **({} if reward is None else {"reward": reward, "passed": reward >= 1}),
                }
    return lambda **options: list(summary_lines(found, **options))


def test_the_page_has_a_group_for_each_that_its_rows_name(two: Any) -> None:
    reading = read_job(two.path)
    data = report_data(reading, reading.trials)
    names = [one["name"] for one in data["groups"]]
    assert names == ["oracle on easy@1.0", "oracle on hard@2.0", "oracle on tasks by path"]
    assert {row["group"] for row in data["trials"]} == set(names)


def test_the_table_of_trials_tells_the_dataset(two: Any) -> None:
    rows = list(csv.DictReader("".join(csv_lines(read_job(two.path).trials)).splitlines()))
    assert {(row["dataset"], row["dataset_label"]) for row in rows} == {
        ("easy", "easy@1.0"),
        ("hard", "hard@2.0"),
        ("", ""),
    }


def test_jobs_of_two_datasets_are_compared_dataset_by_dataset(make_job: Any) -> None:
    now, before = make_job("now"), make_job("before")
    fill(before, "easy@1.0", "a", 0.0)
    fill(before, "hard@1.0", "a", 1.0)
    fill(now, "easy@1.0", "a", 1.0)
    fill(now, "hard@2.0", "a", 1.0)
    found = compare(read_job(now.path), read_job(before.path))
    assert [(one.name, one.number("better"), one.number("same")) for one in found.groups] == [
        ("oracle on easy", 1, 0),
        ("oracle on hard", 0, 1),
    ]
    assert any(line.startswith("oracle on easy: of 1 task") for line in comparison_lines(found))


def test_a_dataset_that_the_baseline_lacks_is_said_to_be_new(make_job: Any) -> None:
    now, before = make_job("now"), make_job("before")
    fill(before, "easy@1.0", "a", 0.0)
    fill(now, "easy@1.0", "a", 1.0)
    fill(now, "hard@2.0", "a", 1.0)
    found = compare(read_job(now.path), read_job(before.path))
    assert [one.name for one in found.groups] == ["oracle on easy"]
    assert found.unmatched == ["oracle on hard"]


def test_two_versions_in_one_job_are_compared_apart(make_job: Any) -> None:
    now, before = make_job("now"), make_job("before")
    for job in (now, before):
        fill(job, "easy@1.0", "a", 1.0)
        fill(job, "easy@2.0", "a", 1.0)
    names = [one.name for one in compare(read_job(now.path), read_job(before.path)).groups]
    assert names == ["oracle on easy@1.0", "oracle on easy@2.0"]


def test_versions_of_the_one_dataset_of_each_job_are_compared(make_job: Any) -> None:
    now, before = make_job("now"), make_job("before")
    fill(before, "easy@1.0", "a", 0.0)
    fill(now, "easy@2.0", "a", 1.0)
    (group,) = compare(read_job(now.path), read_job(before.path)).groups
    assert (group.name, group.number("better")) == ("oracle", 1)
