"""The summary's words: a rate names what it counts, and what it does not (case 40)."""

from typing import Any

import pytest

from pytest_harbor.plugin.terminal import TrialReporter, rate, usage


def trial(reward: float | None = None, category: str = "reward", **more: Any) -> dict[str, Any]:
    if reward is None:
        return {"category": category, **more}
    return {"category": "reward", "reward": reward, "passed": reward >= 1} | more


NONE_OF_THE_TASK = trial(category="task")


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        (
            [trial(1), trial(1), trial(0), NONE_OF_THE_TASK, trial(1)],
            "3 of 4 valid rewards passed; mean reward 0.75;"
            " not counted: 1 no valid reward (the task's fault)",
        ),
        ([trial(1)], "1 of 1 valid rewards passed; mean reward 1"),
        (
            [trial(1), trial(1, passed=False, untrusted=1), trial(-2, untrusted=1)],
            "1 of 3 valid rewards passed; mean reward -0.333 (2 failed for tampering: 0 in the"
            " mean)",
        ),
        ([trial(0)], "0 of 1 valid rewards passed; mean reward 0"),
        ([trial(1), trial(0), trial(0)], "1 of 3 valid rewards passed; mean reward 0.333"),
        (
            [NONE_OF_THE_TASK],
            "no valid reward; not counted: 1 no valid reward (the task's fault)",
        ),
        (
            [trial(category=kind) for kind in ("agent", "environment", "skipped", "skipped")],
            "no valid reward; not counted: 1 the agent could not work, 1 environment faults,"
            " 2 skipped",
        ),
        ([{"outcome": "error"}], "no valid reward; not counted: 1 without a result"),
        (
            [trial(10**400), trial(-5)],
            "1 of 2 valid rewards passed; mean reward inf",
        ),
    ],
)
def test_a_rate_says_what_it_counts(trials: list[dict[str, Any]], words: str) -> None:
    assert rate(trials) == words


def report(when: Any, outcome: Any = "passed", **properties: Any) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid="tasks/hello/task.toml::oracle",
        location=("tasks/hello/task.toml", None, "oracle"),
        keywords={},
        outcome=outcome,
        longrepr=None,
        when=when,
        user_properties=properties.items(),
    )


def known(pytestconfig: pytest.Config, *reports: pytest.TestReport) -> dict[str, Any]:
    reporter = TrialReporter(pytestconfig)
    for one in reports:
        reporter.pytest_runtest_logreport(one)
    (trial,) = reporter.trials.values()
    return trial


def test_what_breaks_after_the_trial_takes_nothing_from_its_reward(
    pytestconfig: pytest.Config,
) -> None:
    done = known(
        pytestconfig,
        report("setup"),
        report("call", category="reward", reward=1.0),
        report("teardown", "failed"),
    )
    assert done["outcome"] == "error"
    assert rate([done]).startswith("1 of 1 valid rewards passed")


def test_a_trial_that_is_run_again_reports_anew(pytestconfig: pytest.Config) -> None:
    done = known(
        pytestconfig,
        report("setup"),
        report("call", "rerun", category="reward", reward=0.0),
        report("setup"),
        report("call", category="task"),
        report("teardown"),
    )
    assert done == {"outcome": "passed", "passed": True, "category": "task"}


def test_a_worker_that_crashed_leaves_a_trial_without_a_result(
    pytestconfig: pytest.Config,
) -> None:
    done = known(pytestconfig, report("???", "failed"))
    assert done == {"outcome": "error"}


def test_an_interrupted_run_says_what_it_has_no_result_of(pytestconfig: pytest.Config) -> None:
    reporter = TrialReporter(pytestconfig)
    ids = [f"tasks/{name}/task.toml::oracle" for name in "abc"]
    reporter.pytest_xdist_node_collection_finished(ids)
    reporter.pytest_runtest_logstart("tasks/hello/task.toml::oracle")
    reporter.pytest_runtest_logreport(report("setup"))
    assert next(reporter._lines()) == "1 task, 1 trial; 1 cut off; 2 not begun"
    reporter.pytest_runtest_logreport(report("teardown"))
    assert next(reporter._lines()) == "1 task, 1 trial; 2 not begun"


def test_tokens_and_cost_are_summed_where_they_are_known() -> None:
    counted = {"input_tokens": 1500, "cache_tokens": 500, "output_tokens": 20, "cost_usd": 0.25}
    assert usage([counted, counted]) == (
        "3,000 tokens read; 1,000 of them cached; 40 tokens written; 0.5000 USD"
    )
    assert usage([counted, {}]).startswith("1,500 tokens read (known of 1 of 2 trials); ")
    assert usage([{}]) == ""
