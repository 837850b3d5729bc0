"""Rates: what they count, what they leave out, and how sure they are."""

import itertools
import math
from typing import Any

import pytest

from pytest_harbor.report.numbers import group_numbers, pass_at_k, wilson
from pytest_harbor.report.trial import Span, Trial, trial_of_properties


def trial(task: str = "a", reward: float | None = 1.0, **more: Any) -> Trial:
    known = {
        "name": f"{task}__x",
        "task": task,
        "task_path": f"tasks/{task}",
        "agent": "codex",
        "category": "reward",
        "reward": reward,
        "passed": reward is not None and reward >= 1,
    }
    return Trial(**(known | more))


def only(*trials: Trial) -> Any:
    (group,) = group_numbers(trials)
    return group


def attempts(task: str, *rewards: float) -> list[Trial]:
    return [trial(task, reward, attempt=number) for number, reward in enumerate(rewards, 1)]


@pytest.mark.parametrize("n", [1, 3, 5])
def test_pass_at_k_is_the_share_of_all_draws_with_a_pass(n: int) -> None:
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
        assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_of_more_attempts_than_were_made_is_refused() -> None:
    with pytest.raises(ValueError, match="k <= attempts"):
        pass_at_k(2, 1, 3)


@pytest.mark.parametrize(
    ("rate", "size", "low", "high"),
    [
        # Newcombe 1998, table I, method 3: 81/263, 15/148, 0/20, 1/29.
        (81 / 263, 263, 0.2553, 0.3662),
        (15 / 148, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1 / 29, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_intervals(
    rate: float, size: int, low: float, high: float
) -> None:
    assert wilson(rate, size) == pytest.approx((low, high), abs=5e-5)


def test_pass_at_1_of_one_attempt_a_task_has_the_plain_interval() -> None:
    rate = only(*(trial(str(number), float(number < 3)) for number in range(8))).pass_at[1]
    assert (rate.value, rate.numerator, rate.denominator, rate.unit) == (3 / 8, 3, 8, "tasks")
    assert (rate.low, rate.high) == pytest.approx(wilson(3 / 8, 8))


def test_attempts_that_tasks_decide_make_no_rate_surer() -> None:
    rate = only(*attempts("a", 1, 1, 1, 1), *attempts("b", 0, 0, 0, 0)).pass_rate
    assert rate.denominator == 8
    assert (rate.low, rate.high) == pytest.approx(wilson(0.5, 8 / 7))


def test_pass_at_1_is_by_task_as_the_others_are_and_the_pass_rate_by_trial() -> None:
    group = only(*attempts("a", *[1] * 10), *attempts("b", 0, 0))
    assert (group.pass_at[1].value, group.pass_at[2].value) == (0.5, 0.5)
    assert (group.pass_rate.numerator, group.pass_rate.denominator) == (10, 12)
    assert group.pass_rate.unit == "trials"


def test_tasks_that_agree_are_nearly_as_sure_as_tasks_that_nearly_do() -> None:
    half = [attempts(str(n), *[1] * 5, *[0] * 5) for n in range(10)]
    more = [*half[1:], attempts("0", *[1] * 6, *[0] * 4)]
    for rate in ("pass_rate", "pass_at"):
        same, other = (getattr(only(*itertools.chain(*tasks)), rate) for tasks in (half, more))
        same, other = (one[1] if rate == "pass_at" else one for one in (same, other))
        assert (same.low, same.high) == pytest.approx((other.low, other.high), abs=0.02)


def test_one_task_says_nothing_of_others_however_often_it_was_tried() -> None:
    rate = only(*attempts("a", 1, 0, 1, 0)).pass_at[1]
    assert (rate.low, rate.high) == pytest.approx(wilson(0.5, 1))


def test_pass_at_k_is_the_mean_over_tasks_with_enough_attempts() -> None:
    group = only(*attempts("a", 1, 0, 0), *attempts("b", 0, 0, 0), *attempts("c", 1, 1))
    assert list(group.pass_at) == [1, 2, 3]
    assert group.pass_at[2].value == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert group.pass_at[2].left_out == {}
    assert group.pass_at[3].value == pytest.approx(0.5)
    assert (group.pass_at[3].denominator, group.pass_at[3].unit) == (2, "tasks")
    assert group.pass_at[3].left_out == {"tasks with fewer than 3 valid attempts": 1}


def test_what_has_no_valid_reward_is_left_out_and_said_why() -> None:
    kinds = ("task", "agent", "environment", "environment", "skipped", "")
    group = only(trial("a", 1), trial("b", 0), *(trial("c", None, category=k) for k in kinds))
    assert (group.trials, group.valid, group.passed) == (8, 2, 1)
    assert group.mean_reward.value == 0.5
    assert group.mean_reward.denominator == 2
    assert group.left_out == {
        "no valid reward (the task's fault)": 1,
        "the agent could not work": 1,
        "environment faults": 2,
        "skipped": 1,
        "without a result": 1,
    }
    assert group.pass_rate.left_out == group.left_out
    assert group.pass_at[1].left_out == {"tasks with fewer than 1 valid attempts": 1}


def test_a_group_without_a_valid_reward_has_no_rate() -> None:
    group = only(trial("a", None, category="environment"))
    assert group.mean_reward is None
    assert group.pass_rate is None
    assert group.pass_at == {}


def test_a_box_that_evaded_its_verdict_counts_as_not_passed() -> None:
    group = only(trial("a", 1), trial("b", None, suspicious=2))
    assert group.evaded == 1
    assert group.mean_reward.value == 0.5
    assert group.pass_at[1].value == 0.5
    assert group.suspicious == 1


def test_a_reward_that_is_not_believed_raises_no_mean() -> None:
    group = only(trial("a", 1), trial("b", 1, passed=False, untrusted=True), trial("c", -1.0))
    assert (group.untrusted, group.passed) == (1, 1)
    assert group.mean_reward.value == 0.0
    assert only(trial("a", -1.0, untrusted=True)).mean_reward.value == -1.0


def test_a_run_that_was_superseded_is_nowhere_counted() -> None:
    group = only(trial("a", 0, superseded=True), trial("a", 1))
    assert (group.trials, group.pass_at[1].value, group.left_out) == (1, 1.0, {})


def test_rewards_beyond_every_float_break_nothing() -> None:
    group = only(trial("a", math.inf), trial("b", -math.inf), trial("c", 1e308), trial("d", 1e308))
    assert group.mean_reward.denominator == 4
    assert only(trial("a", math.inf), trial("b", 1)).mean_reward.value == math.inf


def test_groups_are_by_agent_and_model_in_their_order() -> None:
    names = [g.name for g in group_numbers([trial(), trial(agent="b", model="x/y"), trial()])]
    assert names == ["codex", "b[x/y]"]


def test_errors_usage_and_times_say_of_how_many_trials_they_are() -> None:
    spans = (Span("agent", "one", 0, 2.0), Span("agent", "two", 5, 4.0))
    group = only(
        trial("a", fault="AgentTimeoutError", usage={"cost_usd": 0.5}, spans=spans),
        trial("b", fault="AgentTimeoutError", usage={"cost_usd": 0.25}, spans=spans[:1]),
        trial("c", fault="Other"),
    )
    assert group.errors == {"AgentTimeoutError": 2, "Other": 1}
    assert group.usage == {"cost_usd": (0.75, 2, 3)}
    assert group.phases == {"agent": (2, 4.0, 4.0, 6.0)}


def test_an_items_properties_make_a_trial() -> None:
    found = trial_of_properties(
        "tasks/hello/task.toml::codex[m/n-2]",
        {
            "reward": 10**400,
            "reward.speed": 0.5,
            "category": "reward",
            "agent": "codex",
            "model": "m/n",
            "attempt": 2,
            "trial": "/jobs/j/hello__x",
            "passed": True,
            "seconds.agent": 3.0,
            "input_tokens": 5,
            "integrity": 1,
            "integrity.codes": "loader, git",
        },
    )
    assert (found.task_key, found.name, found.group) == (
        "tasks/hello",
        "hello__x",
        ("codex", "m/n"),
    )
    assert found.reward == math.inf
    assert found.rewards == {"speed": 0.5}
    assert found.counts
    assert found.usage == {"input_tokens": 5}
    assert found.codes == ("loader", "git")
    assert found.seconds("agent") == 3.0


def test_an_item_without_a_result_is_counted_apart() -> None:
    found = trial_of_properties("tasks/hello/task.toml::oracle", {"outcome": "error"})
    assert only(found).left_out == {"without a result": 1}
