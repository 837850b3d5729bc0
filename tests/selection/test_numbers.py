"""What chosen attempts earned: exact, and with denominators that can be defended."""

import itertools
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.errors import OptionError
from pytest_harbor.report.job import JobReading
from pytest_harbor.report.numbers import group_numbers
from pytest_harbor.report.trial import Trial
from pytest_harbor.selection.candidate import INTERRUPTED, Choice, Group
from pytest_harbor.selection.choose import Selection, select
from pytest_harbor.selection.find import FunctionSelector
from pytest_harbor.selection.lines import lines
from pytest_harbor.selection.numbers import figures
from pytest_harbor.selection.reward import RewardSelector, expected_best


def trial(task: str, attempt: int, reward: float | None = 1.0, **more: Any) -> Trial:
    known = {
        "name": f"{task}__{attempt}",
        "task": task,
        "agent": "codex",
        "attempt": attempt,
        "category": "reward",
        "reward": reward,
        "rewards": {} if reward is None else {"reward": reward},
        "passed": reward is not None and reward >= 1,
        "folder": Path("nowhere"),
    }
    return Trial(**(known | more))


def attempts(task: str, *rewards: float) -> list[Trial]:
    return [trial(task, number, reward) for number, reward in enumerate(rewards, 1)]


def chosen(*trials: Trial, selector: Any = None, n: int = 0) -> Selection:
    job = JobReading(path=Path("job"), name="job", trials=trials, config={"n_attempts": n})
    return select(job, selector or RewardSelector())


def only(selection: Selection) -> Any:
    (found,) = figures(selection)
    return found


def names(selection: Selection) -> list[str | None]:
    return [one.choice.candidate.trial if one.choice else None for one in selection.tasks]


REWARDS = st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=6)


@given(REWARDS)
def test_the_expected_best_of_k_is_the_mean_over_all_sets(rewards: list[float]) -> None:
    ranked = sorted(rewards, reverse=True)
    for k in range(1, len(rewards) + 1):
        every = [max(subset) for subset in itertools.combinations(rewards, k)]
        assert expected_best(ranked, k) == pytest.approx(fmean(every))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5))
def test_selection_by_a_key_earns_the_mean_of_what_it_would_choose(
    pairs: list[tuple[int, int]],
) -> None:
    trials = [
        trial("a", place, float(reward), rewards={"reward": float(reward), "style": float(style)})
        for place, (reward, style) in enumerate(pairs, 1)
    ]
    found = only(chosen(*trials, selector=RewardSelector("style")))
    for k, figure in found.best_of.items():
        sets = itertools.combinations(enumerate(pairs), k)
        every = [max(subset, key=lambda one: (one[1][1], -one[0]))[1][0] for subset in sets]
        assert figure.mean_reward.value == pytest.approx(fmean(every))


@given(st.lists(REWARDS, min_size=1, max_size=4))
def test_the_best_of_k_passes_as_often_as_pass_at_k_says(tasks: list[list[float]]) -> None:
    trials = [one for place, task in enumerate(tasks) for one in attempts(str(place), *task)]
    (group,) = group_numbers(trials)
    found = only(chosen(*trials))
    assert {k: one.pass_rate.value for k, one in found.best_of.items()} == pytest.approx(
        {k: one.value for k, one in group.pass_at.items()}
    )


def test_more_than_were_made_is_refused() -> None:
    with pytest.raises(ValueError, match="k <= attempts"):
        expected_best([1.0], 2)


def test_an_infinite_reward_breaks_nothing() -> None:
    assert expected_best([1.0, float("-inf")], 2) == 1.0


def test_the_highest_reward_is_chosen_and_told_beside_the_others() -> None:
    found = chosen(*attempts("a", 0, 1, 0.5), *attempts("b", 0.5, 0, 0))
    assert names(found) == ["a__2", "b__1"]
    one = only(found)
    rewards = {name: getattr(one, name).mean_reward.value for name in ("selected", "first", "mean")}
    assert rewards == pytest.approx({"selected": 0.75, "first": 0.25, "mean": 1 / 3})
    assert one.best_possible == one.selected
    rate = one.selected.pass_rate
    assert (rate.numerator, rate.denominator, rate.unit) == (1, 2, "tasks")
    assert one.best_of[1].mean_reward.value == pytest.approx(1 / 3)
    assert one.best_of[3].mean_reward.value == pytest.approx(0.75)


def test_the_cheapest_of_equals_is_chosen_then_the_first() -> None:
    costs = [{"cost_usd": 2.0}, {"cost_usd": 1.0}, {}]
    trials = [trial("a", number, usage=usage) for number, usage in enumerate(costs, 1)]
    assert names(chosen(*trials)) == ["a__2"]
    tokens = [trial("a", 1, usage={"input_tokens": 9}), trial("a", 2, usage={"input_tokens": 5})]
    assert names(chosen(*tokens)) == ["a__2"]
    assert names(chosen(*attempts("a", 1, 1))) == ["a__1"]
    forged = [trial("a", 1, usage={"cost_usd": 1.0}), trial("a", 2, usage={"cost_usd": -1.0})]
    assert names(chosen(*forged)) == ["a__1"]


def test_who_is_no_candidate_is_counted_with_the_reason() -> None:
    found = chosen(
        trial("a", 1, None, category="environment"),
        trial("a", 2, None, category="task"),
        trial("a", 3, 1.0, untrusted=True, passed=False),
        trial("a", 4, None),
        trial("a", 5, 0.5),
        trial("a", 6, 1.0, superseded=True),
        trial("a", 6, 0.25),
        trial("a", 7, None, category="agent"),
    )
    assert names(found) == ["a__5"]
    assert found.tasks[0].attempts.left_out == {
        "environment faults": 1,
        "no valid reward (the task's fault)": 1,
        "no verdict that can be trusted, after tampering": 2,
        "the agent could not work": 1,
        "an earlier run of the attempt": 1,
    }


def test_a_key_that_a_reward_lacks_is_no_candidate() -> None:
    styled = trial("a", 2, 0.0, rewards={"style": 0.5})
    found = chosen(trial("a", 1), styled, selector=RewardSelector("style"))
    assert names(found) == ["a__2"]
    assert found.tasks[0].attempts.left_out == {"a reward without the key 'style'": 1}


def test_an_attempt_without_the_key_is_none_that_earned_nothing() -> None:
    styled = [trial("a", place, 0.5, rewards={"style": 1.0}) for place in (1, 2)]
    found = only(chosen(*styled, trial("a", 3, 0.0), selector=RewardSelector("style")))
    values = {k: one.mean_reward.value for k, one in found.best_of.items()}
    assert values == pytest.approx({1: 0.5, 2: 0.5})


def test_a_key_that_no_reward_has_is_refused_with_near_names() -> None:
    with pytest.raises(OptionError, match=r"'styel' \(did you mean style\?\).* 'style'$"):
        chosen(trial("a", 1, rewards={"style": 0.5}), selector=RewardSelector("styel"))
    nothing = chosen(trial("a", 1, None, category="environment"), selector=RewardSelector("style"))
    assert only(nothing).best_of == {}


def test_tampering_does_not_take_a_task_out_of_the_mean() -> None:
    tampered = [trial("a", number, 1.0, untrusted=True, passed=False) for number in (1, 2)]
    found = only(chosen(*tampered, *attempts("b", 1, 1)))
    assert (found.selected.mean_reward.value, found.selected.mean_reward.denominator) == (0.5, 2)
    assert found.selected.pass_rate.numerator == 1


def test_a_task_with_attempts_to_come_is_chosen_from_and_not_counted() -> None:
    runs = trial("b", 2, None, category="")
    cut_off = trial("c", 2, None, category="environment", fault="KeyboardInterrupt")
    found = chosen(*attempts("a", 1, 0), trial("b", 1), runs, trial("c", 1), cut_off, n=2)
    assert names(found) == ["a__1", "b__1", "c__1"]
    one = only(found)
    assert one.left_out == {"tasks with fewer than 2 attempts that have ended": 2}
    assert one.selected.pass_rate.denominator == 1
    assert [task.attempts.missing for task in found.tasks] == [0, 1, 1]


def test_figures_stand_beside_each_other_over_the_same_tasks() -> None:
    def choose(group: Group) -> Choice:
        if group.task == "b":
            raise RuntimeError("no idea")
        return Choice(group.candidates[-1])

    mine = FunctionSelector("mine", choose, {})
    found = chosen(*attempts("a", 1, 0), *attempts("b", 1, 1), selector=mine)
    one = only(found)
    assert [problem.problem for problem in found.problems] == ["RuntimeError: no idea"]
    assert one.left_out == {"tasks of which nothing was chosen": 1}
    assert (one.selected.mean_reward.value, one.best_possible.mean_reward.value) == (0.0, 1.0)
    assert one.best_possible.mean_reward.denominator == 1
    assert one.best_of == {}


def test_a_chosen_attempt_without_a_verdict_has_no_place_in_the_mean() -> None:
    last = FunctionSelector("last", lambda group: Choice(group.candidates[-1]), {})
    trials = [trial("a", 1), trial("a", 2, None, category="task"), *attempts("b", 1, 0)]
    one = only(chosen(*trials, selector=last))
    assert one.left_out == {"chosen: no valid reward (the task's fault)": 1}
    assert one.selected.mean_reward.denominator == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda group: group.candidates[0], "expected a Choice"),
        (lambda group: None, "expected a Choice"),
    ],
)
def test_an_answer_that_is_no_choice_chooses_nothing(answer: Any, words: str) -> None:
    (one,) = chosen(*attempts("a", 1, 0), selector=FunctionSelector("own", answer, {})).tasks
    assert one.choice is None
    assert words in one.problem


def test_an_interrupt_ends_the_asking_and_keeps_what_was_chosen() -> None:
    def choose(group: Group) -> Choice:
        if group.task == "b":
            raise KeyboardInterrupt
        return Choice(group.candidates[0])

    trials = [one for name in "abc" for one in attempts(name, 1, 0)]
    found = chosen(*trials, selector=FunctionSelector("own", choose, {}))
    assert names(found) == ["a__1", None, None]
    assert {one.problem for one in found.problems} == {INTERRUPTED}
    assert found.is_interrupted


def test_datasets_have_figures_of_their_own() -> None:
    easy = [replace(one, dataset="easy", dataset_label="easy@1") for one in attempts("a", 0, 1)]
    hard = [replace(one, dataset="hard", dataset_label="hard@2") for one in attempts("b", 0, 0)]
    selection = chosen(*easy, *hard, *attempts("c", 1, 1))

    found = figures(selection)

    assert [one.dataset_label for one in found] == ["easy@1", "hard@2", None]
    assert [one.selected.mean_reward.value for one in found if one.selected] == [1, 0, 1]
    assert [one.tasks for one in found] == [1, 1, 1]
    assert [line.partition(":")[0] for line in lines(selection)] == [
        "codex on easy@1",
        "codex on hard@2",
        "codex on tasks by path",
    ]
    assert [line.partition(":")[0] for line in lines(chosen(*easy))] == ["codex"]
