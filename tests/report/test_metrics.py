"""Numbers of each reward key, and Harbor's own figures of the same trials."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.report.harbor_figures import aggregated, harbor_figures, pass_at_k
from pytest_harbor.report.job import read_job
from pytest_harbor.report.metrics import METRICS
from pytest_harbor.report.numbers import group_numbers
from pytest_harbor.report.trial import Trial, trial_of_properties

# What Harbor 0.26's own code gave for these trials.
CASES = json.loads((Path(__file__).parent / "golden/harbor-figures.json").read_text())


def trial(task: str = "a", rewards: dict[str, float] | None = None, **more: Any) -> Trial:
    found = {"reward": 1.0} if rewards is None else rewards
    known = {
        "name": f"{task}__x",
        "task": task,
        "category": "reward",
        "reward": min(found.values(), default=None),
        "rewards": found,
        "harbor_rewards": found or None,
    }
    return Trial(**(known | more))


def only(*trials: Trial) -> Any:
    (group,) = group_numbers(trials)
    return group


def values(group: Any, key: str) -> list[float]:
    return [group.metrics[key][name].value for name in METRICS]


def test_each_key_has_its_mean_sum_least_and_greatest() -> None:
    group = only(
        trial("a", {"reward": 1.0, "style": 0.5}),
        trial("b", {"reward": 0.0, "style": 2.0}),
        trial("c", {"reward": 0.5, "style": -1.0}),
    )
    assert values(group, "reward") == [0.5, 1.5, 0.0, 1.0]
    assert values(group, "style") == [0.5, 1.5, -1.0, 2.0]
    total = group.metrics["style"]["sum"]
    assert (total.numerator, total.denominator, total.unit) == (1.5, 3, "trials")


def test_a_key_that_a_trial_lacks_is_left_out_there_and_a_zero_in_harbors_figure() -> None:
    group = only(
        trial("a", {"reward": 1.0, "style": 0.5}),
        trial("b", {"reward": 1.0}),
        trial("c", {}, category="environment"),
    )
    style = group.metrics["style"]["mean"]
    assert (style.value, style.denominator) == (0.5, 1)
    assert style.left_out == {"environment faults": 1, "a reward without the key 'style'": 1}
    (harbor,) = group.harbor.values()
    assert harbor.metrics["mean"] == {"reward": 1.0, "style": 0.25}


def test_tampering_lifts_no_number_of_ours_and_harbors_stands_beside_it() -> None:
    group = only(
        trial("a", {"reward": 1.0}, untrusted=True),
        trial("b", {}, suspicious=1),
        trial("c", {"reward": 1.0}),
    )
    mean = group.metrics["reward"]["mean"]
    assert (mean.numerator, mean.denominator) == (1.0, 3)
    (harbor,) = group.harbor.values()
    assert (harbor.n_trials, harbor.metrics["mean"]) == (2, {"mean": 1.0})
    assert (harbor.counted_only_here, harbor.counted_only_there, harbor.other_reward) == (1, 0, 1)
    (careful,) = harbor_figures([trial("a", untrusted=True)], believes=False).values()
    assert careful.metrics["mean"] == {"mean": 0.0}


def test_a_group_without_a_valid_reward_has_no_metrics() -> None:
    group = only(trial("a", {}, category="task"))
    assert group.metrics == {}
    assert group.harbor["unknown agent__adhoc"].metrics == {}


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_harbors_figures_are_those_of_its_own_code(case: dict[str, Any]) -> None:
    rewards = [one for _, one in case["trials"]]
    for name in METRICS:
        assert aggregated(rewards, name) == pytest.approx(case["metrics"][name])
    tasks: dict[str, list[Any]] = {}
    for task, one in case["trials"]:
        tasks.setdefault(task, []).append(one)
    found = {str(k): value for k, value in pass_at_k(tasks).items()}
    assert found == pytest.approx(case["pass_at_k"])


def test_harbors_groups_are_those_of_its_result_file() -> None:
    trials = [
        trial(agent="codex", model="openai/gpt-5"),
        trial(agent="codex", model="openai/gpt-5", dataset="bench"),
        trial(agent="oracle"),
    ]
    names = [key for group in group_numbers(trials) for key in group.harbor]
    assert names == ["codex__gpt-5__adhoc", "codex__gpt-5__bench", "oracle__adhoc"]


def test_steps_that_never_ran_are_0_here_and_left_out_by_harbor(job: Any) -> None:
    job.trial(reward=0.5, own={"harbor_rewards": {"reward": 1.0}, "passed": False})
    (group,) = group_numbers(read_job(job.path).trials)
    assert group.metrics["reward"]["mean"].value == 0.5
    assert group.harbor["oracle__adhoc"].metrics["mean"] == {"mean": 1.0}
    assert group.harbor["oracle__adhoc"].other_reward == 1


@pytest.mark.parametrize(
    ("fault", "counted"),
    [("AgentTimeoutError", 1), ("VerifierTimeoutError", 0), ("OfNobody", 1)],
)
def test_an_error_keeps_a_reward_from_harbors_figures_by_its_name(
    job: Any, fault: str, counted: int
) -> None:
    job.trial(reward=1.0, exception_info={"exception_type": fault})
    (trial_read,) = read_job(job.path).trials
    assert (harbor_figures([trial_read])["oracle__adhoc"].n_trials) == counted
    told = {"reward.reward": 1.0, "reward": 1.0, "category": "reward", "fault": fault}
    as_item = trial_of_properties("t/task.toml::oracle", told | {"agent": "oracle"})
    assert (harbor_figures([as_item])["oracle__adhoc"].n_trials) == counted


def test_a_run_that_was_superseded_is_in_no_figure() -> None:
    figures = harbor_figures([trial("a", superseded=True), trial("a", {"reward": 0.0})])
    assert figures["unknown agent__adhoc"].metrics["mean"] == {"mean": 0.0}


def test_an_error_of_a_later_step_is_harbors_reason_not_to_count_it_at_a_runs_end_too() -> None:
    both = {"fault": "AgentTimeoutError", "faults": "AgentTimeoutError, RewardFileNotFoundError"}
    told = {"category": "reward", "agent": "oracle", "reward": 0.5, "reward.reward": 0.5}
    item = "t/task.toml::oracle"
    assert trial_of_properties(item, told | both).harbor_rewards is None
    assert trial_of_properties(item, told | {"fault": "AgentTimeoutError"}).harbor_rewards == {
        "reward": 0.5
    }
