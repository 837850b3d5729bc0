"""A job against an earlier one."""

import itertools
import random
from typing import Any

import pytest

from pytest_harbor.report.comparison import compare, comparison_lines
from pytest_harbor.report.job import read_job
from pytest_harbor.report.significance import fisher_exact, holm, sign_flip


@pytest.mark.parametrize(
    ("table", "p"),
    [
        # Fisher's tea: 3 of 4 against 1 of 4; and R's fisher.test on others.
        ((3, 4, 1, 4), 0.4857142857142857),
        ((1, 10, 11, 14), 0.0027594561852200840),
        ((0, 3, 3, 3), 0.1),
        ((5, 5, 5, 5), 1.0),
        ((0, 0, 1, 4), 1.0),
    ],
)
def test_fisher_gives_the_known_values(table: Any, p: float) -> None:
    assert fisher_exact(*table) == pytest.approx(p, rel=1e-9)


def brute_force(differences: list[float]) -> float:
    signs = itertools.product((1, -1), repeat=len(differences))
    sums = [abs(sum(s * d for s, d in zip(row, differences, strict=True))) for row in signs]
    return sum(one >= sums[0] - 1e-9 for one in sums) / len(sums)


def test_sign_flips_are_those_of_all_choices() -> None:
    drawn = random.Random(1)
    for size in range(1, 10):
        differences = [drawn.choice((-1.0, -0.5, 1 / 3, 0.2, 1.0)) for _ in range(size)]
        assert sign_flip(differences) == pytest.approx(brute_force(differences))


def test_sign_flips_of_single_attempts_are_the_sign_test() -> None:
    # 8 better, 1 worse: 2 * (1 + 9) / 2**9; tasks that did not change say nothing.
    assert sign_flip([1.0] * 8 + [-1.0] + [0.0] * 50) == pytest.approx(20 / 512)
    assert sign_flip([]) == 1.0
    assert sign_flip([0.0]) == 1.0


def test_sign_flips_of_many_uneven_differences_are_near_the_exact_ones() -> None:
    few = [0.1 * (number % 7) - 0.2 for number in range(120)]
    finer = [one + 1e-4 * (number % 3) for number, one in enumerate(few)]
    assert sign_flip(finer) == pytest.approx(sign_flip(few), abs=0.02)
    assert 0 < sign_flip([0.001 * number for number in range(1, 900)]) < 1e-6


def test_holm_raises_the_least_of_many() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def fill(job: Any, task: str, *rewards: float | None, **more: Any) -> None:
    for number, reward in enumerate(rewards, 1):
        job.trial(f"{task}__{more.get('agent', 'oracle')}{number}", reward, attempt=number, **more)


@pytest.fixture
def two(make_job: Any) -> Any:
    return make_job("now"), make_job("before")


def compared(now: Any, before: Any) -> Any:
    return compare(read_job(now.path), read_job(before.path))


def test_tasks_are_better_worse_flaky_or_the_same(two: Any) -> None:
    now, before = two
    for task, then, here in (
        ("better", [0.0], [1.0]),
        ("worse", [1.0, 1.0], [0.0, 0.0]),
        ("flaky", [1.0, 1.0, 1.0], [1.0, 0.0, 1.0]),
        ("same", [0.5], [0.75]),
        ("clear", [0.0] * 8, [1.0] * 8),
    ):
        fill(before, task, *then)
        fill(now, task, *here)
    (group,) = compared(now, before).groups
    assert {task.task: task.change for task in group.tasks} == {
        "org/worse": "worse",
        "org/flaky": "flaky",
        "org/clear": "better",
        "org/better": "better",
        "org/same": "same",
    }
    assert [task.task for task in group.tasks if task.is_significant] == ["org/clear"]
    assert next(iter(group.tasks)).change == "worse"
    lines = list(comparison_lines(compared(now, before)))
    assert lines[0] == "oracle: of 5 tasks 1 worse, 1 flaky, 2 better, 1 same"
    assert lines[1] == "oracle: passed 40.0% -> 53.3%, p=1"
    assert "  better org/clear: 0/8 -> 8/8 (p=0.00016, significant)" in lines


def test_what_has_no_valid_reward_is_compared_with_nothing(two: Any) -> None:
    now, before = two
    fill(now, "a", None)
    fill(before, "a", 1.0)
    fill(now, "b", 1.0)
    fill(before, "c", 1.0)
    (group,) = compared(now, before).groups
    assert group.tasks == []
    assert (group.only_now, group.only_then) == (["org/b"], ["org/a", "org/c"])
    assert list(comparison_lines(compared(now, before))) == [
        "oracle: no task has a valid reward in both jobs"
    ]


def test_tasks_of_another_machine_are_matched_by_their_names(two: Any) -> None:
    now, before = two
    fill(now, "a", 1.0)
    fill(before, "a", 0.0, task_id={"path": "/elsewhere/a"})
    (group,) = compared(now, before).groups
    assert [(task.task, task.change) for task in group.tasks] == [("org/a", "better")]


def test_tasks_of_the_same_name_are_not_mixed(two: Any) -> None:
    now, before = two
    for job, place in ((now, "/here"), (before, "/there")):
        for folder in ("x", "y"):
            fill(job, folder, 1.0, task_name="org/same", task_id={"path": f"{place}/{folder}"})
        fill(job, "z", 1.0, task_name="org/same", task_id={"path": f"{place}/deep/x"})
    (group,) = compared(now, before).groups
    assert [task.task for task in group.tasks] == ["/here/y"]


def test_agents_are_compared_with_themselves(two: Any) -> None:
    now, before = two
    for agent, reward in (("a", 1.0), ("b", 0.0)):
        fill(now, "t", reward, agent=agent)
    fill(before, "t", 1.0, agent="b")
    found = compared(now, before)
    assert [(group.name, group.then_name) for group in found.groups] == [("b", "")]
    assert found.unmatched == ["a"]


def test_one_agent_is_compared_with_another_where_each_is_alone(two: Any) -> None:
    now, before = two
    fill(now, "t", 1.0, agent="a", model=("m", "2"))
    fill(before, "t", 0.0, agent="a", model=("m", "1"))
    (group,) = compared(now, before).groups
    assert (group.name, group.then_name) == ("a[m/2]", "a[m/1]")
    assert next(comparison_lines(compared(now, before))).startswith("a[m/2] against a[m/1]: of 1")


def test_rewards_beyond_all_bounds_are_compared(two: Any) -> None:
    now, before = two
    now.trial("t__a", verifier_result={"rewards": {"reward": 10**400}})
    before.trial("t__a", 1.0)
    (group,) = compared(now, before).groups
    assert group.p_reward == 1.0


def test_versions_of_a_dataset_are_compared_apart(two: Any) -> None:
    for job, rewards in zip(two, ((1.0, 0.0), (0.0, 0.0)), strict=True):
        for version, reward in enumerate(rewards, 1):
            item = f"tb@{version}/hello/task.toml::oracle"
            job.trial(f"hello__{version}", reward, item=item, task_id={"path": "/cache/hello"})
    (group,) = compared(*two).groups
    assert [(task.task, task.change) for task in group.tasks] == [
        ("tb@1/hello", "better"),
        ("tb@2/hello", "same"),
    ]
