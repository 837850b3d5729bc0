"""The summary's words and table: a rate names what it counts, and what it does not (case 40)."""

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.plugin.summary import duration, summary_lines
from pytest_harbor.plugin.terminal import TrialReporter

GOLDEN = Path(__file__).parent / "golden" / "summary"


def trial(reward: float | None = None, category: str = "reward", **more: Any) -> dict[str, Any]:
    found = {"agent": "oracle", "category": category, **more}
    if reward is None:
        return found
    return {"reward": reward, "passed": reward >= 1, **found}


NONE_OF_THE_TASK = trial(category="task")


def lines(*trials: dict[str, Any], **options: Any) -> list[str]:
    """The summary of trials of one task each."""
    found = {f"tasks/t{n}/task.toml::{one.get('agent')}": one for n, one in enumerate(trials)}
    return list(summary_lines(found, **{"width": 120, **options}))


# --- sentences


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
        (
            [trial(1), trial()],
            "1 of 2 valid rewards passed; mean reward 0.5 (1 without a verdict after tampering:"
            " not passed, 0 in the mean)",
        ),
        ([trial(0)], "0 of 1 valid rewards passed; mean reward 0"),
        ([trial(1), trial(0), trial(0)], "1 of 3 valid rewards passed; mean reward 0.333"),
        (
            [NONE_OF_THE_TASK],
            "no valid reward; not counted: 1 no valid reward (the task's fault)",
        ),
        (
            [trial(category=kind) for kind in ("agent", "environment", "skipped", "skipped")],
            "no valid reward; not counted: 1 the agent could not work, 1 environment fault,"
            " 2 skipped",
        ),
        (
            [trial(10**400), trial(-5)],
            "1 of 2 valid rewards passed; mean reward inf",
        ),
    ],
)
def test_a_rate_says_what_it_counts(trials: list[dict[str, Any]], words: str) -> None:
    assert lines(*trials, short=True) == [f"oracle: {words}"]


def test_a_trial_without_a_result_has_no_place_in_a_rate() -> None:
    assert lines({"outcome": "error"}) == [
        "unknown agent: no valid reward; not counted: 1 without a result"
    ]


def test_one_trial_an_agent_is_told_in_a_sentence_each() -> None:
    assert lines(trial(1), trial(0, agent="nop")) == [
        "oracle: 1 of 1 valid rewards passed; mean reward 1",
        "nop: 0 of 1 valid rewards passed; mean reward 0",
    ]


def test_tokens_and_cost_are_summed_where_they_are_known() -> None:
    counted = trial(
        1, input_tokens=1500, cache_tokens=500, output_tokens=20, cost_usd=0.25, agent="a"
    )
    assert lines(counted, counted, short=True)[1:] == [
        "3,000 tokens read; 1,000 of them cached; 40 tokens written; 0.5000 USD"
    ]
    partly = lines(counted, trial(1, agent="a"), short=True)[1]
    assert partly.startswith("1,500 tokens read (known of 1 of 2 trials); ")
    assert len(lines(trial(1))) == 1


def test_a_check_is_about_no_rewards() -> None:
    told = lines(trial(1), trial(0), trial(1), rates=False)
    assert told == []


# --- the table


def many() -> dict[str, dict[str, Any]]:
    """Two models on ten tasks, four attempts each."""
    found: dict[str, dict[str, Any]] = {}
    for number in range(10):
        for attempt in range(1, 5):
            nodeid = f"tasks/t{number}/task.toml::codex[openai/gpt-5-{attempt}]"
            odd = {} if number else {"category": "environment", "fault": "ImageBuildError"}
            found[nodeid] = {
                **trial(float(number * attempt % 3 == 0), agent="codex", model="openai/gpt-5"),
                "attempt": attempt,
                "seconds.environment": 0.3,
                "seconds.agent": 100.0 * number + attempt,
                "seconds.verifier": 1.25,
                "input_tokens": 1_234_567,
                "output_tokens": 890,
                **({"cost_usd": 1.5} if attempt > 1 else {}),
                **odd,
            }
            found[f"tasks/t{number}/task.toml::nop[{attempt}]"] = trial(
                0, agent="nop", attempt=attempt
            )
    found["tasks/t7/task.toml::codex[openai/gpt-5-1]"] |= {
        "fault": "AgentTimeoutError",
        "integrity": 2,
        "integrity.codes": "startup, packages",
        "untrusted": 1,
        "passed": False,
    }
    for number, seconds in enumerate((3, 83, 4000, 12, 20)):
        found[f"tasks/t{number}/task.toml::nop[1]"]["seconds.images"] = seconds
    return found


@pytest.mark.parametrize(("name", "width"), [("wide", 140), ("narrow", 80), ("tiny", 30)])
def test_the_whole_summary(name: str, width: int) -> None:
    text = "\n".join(summary_lines(many(), width=width)) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("PYTEST_HARBOR_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_what_took_long_is_left_out_of_a_short_summary() -> None:
    told = list(summary_lines(many(), width=140, short=True))
    assert any(line.startswith("codex[openai/gpt-5]: errors: ") for line in told)
    assert not any(line.startswith(("slowest", "image", "agent ")) for line in told)


def test_an_image_that_an_earlier_run_made_took_no_time_of_this_one() -> None:
    assert lines(trial(1, **{"seconds.images": 60.0})) == [
        "oracle: 1 of 1 valid rewards passed; mean reward 1",
        "image made: 1 m 00 s for tasks/t0",
    ]
    assert len(lines(trial(1, resumed=1, **{"seconds.images": 60.0}))) == 1


def test_of_many_findings_the_first_are_shown() -> None:
    odd = trial(1, integrity=1, **{"integrity.codes": "startup"})
    told = [line for line in lines(*[odd] * 23) if line.startswith("integrity")]
    assert told[0] == "integrity: tasks/t0/task.toml::oracle: 1 sign of tampering (startup)"
    assert len(told) == 21
    assert told[-1] == "integrity: 3 trials more with signs of tampering"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (185, "3 m 05 s"), (7_261, "2 h 01 m")],
)
def test_lengths_of_time(seconds: float, said: str) -> None:
    assert duration(seconds) == said


# --- what the reports tell


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
        report("call", category="reward", reward=1.0, agent="oracle"),
        report("teardown", "failed"),
    )
    assert done["outcome"] == "error"
    assert lines(done)[0].startswith("oracle: 1 of 1 valid rewards passed")


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
