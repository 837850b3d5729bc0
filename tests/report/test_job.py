"""A job's folder is read in whatever state it is."""

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.errors import OptionError
from pytest_harbor.report.job import check_job, read_job
from pytest_harbor.report.numbers import group_numbers


def names(job: Any) -> dict[str, Any]:
    return {trial.name: trial for trial in read_job(job.path).trials}


def test_a_finished_job_is_read_whole(job: Any) -> None:
    job.trial("hello__aaaaaaa", 1.0, agent="codex", model=("openai", "gpt/5"), attempt=2)
    job.trial("other__bbbbbbb", 0.25, start=20)
    reading = read_job(job.path)
    assert (reading.name, reading.problems) == ("now", [])
    assert reading.finished is not None
    first, second = reading.trials
    assert (first.task, first.agent, first.model) == ("org/hello", "codex", "openai/gpt/5")
    assert (first.attempt, first.passed, first.reward) == (2, True, 1.0)
    assert {span.phase: span.seconds for span in first.spans} == {
        "environment": 2.0,
        "agent_setup": 1.0,
        "agent": 5.0,
        "verifier": 2.0,
    }
    assert first.spans[2].start == 3.0
    assert first.usage == {"input_tokens": 100, "output_tokens": 20, "cost_usd": 0.01}
    assert (second.passed, second.reward) == (False, 0.25)


def test_a_trial_that_runs_shows_how_far_it_came(job: Any) -> None:
    folder = job.trial()
    (folder / "result.json").unlink()
    (folder / "trial.log").write_text("2026-01-05T10:00:00Z environment begins\nx agent begins\n")
    trial = names(job)["hello__aaaaaaa"]
    assert (trial.state, trial.category, trial.agent) == ("unfinished", "", "oracle")
    assert "agent begins" in trial.fault_message
    assert trial.started is not None


def test_harbors_own_results_are_read_without_our_fields(job: Any) -> None:
    job.trial("a__aaaaaaa", 1.0)
    for name, reward, fault in (
        ("b__bbbbbbb", None, "RewardFileNotFoundError"),
        ("c__ccccccc", None, "HealthcheckError"),
        ("d__ddddddd", None, "AgentSetupTimeoutError"),
        ("e__eeeeeee", None, "CancelledError"),
        ("f__fffffff", 0.0, "AgentTimeoutError"),
    ):
        job.trial(name, reward, exception_info={"exception_type": fault})
    for folder in job.path.glob("*__*"):
        result = (folder / "result.json").read_text().replace('"pytest_harbor"', '"other"')
        (folder / "result.json").write_text(result)
    found = {trial.name[0]: trial for trial in read_job(job.path).trials}
    assert {key: trial.category for key, trial in found.items()} == {
        "a": "reward",
        "b": "task",
        "c": "environment",
        "d": "agent",
        "e": "",
        "f": "reward",
    }
    assert found["a"].passed
    assert not found["f"].passed
    assert found["f"].fault == "AgentTimeoutError"


def test_of_an_attempt_that_was_run_again_the_last_counts(job: Any) -> None:
    job.trial("a__zzzzzzz", 0.0, start=0)
    job.trial("a__bbbbbbb", 1.0, start=20)
    job.trial("a__ccccccc", 1.0, start=10, attempt=2)
    marked = {trial.name: trial.superseded for trial in read_job(job.path).trials}
    assert marked == {"a__zzzzzzz": True, "a__bbbbbbb": False, "a__ccccccc": False}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b'{"a": NaN}',
        b"[" * 200_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    ],
)
def test_a_broken_result_is_a_row_that_says_so(job: Any, content: bytes) -> None:
    job.trial("good__aaaaaaa")
    job.trial("bad__bbbbbbb", files={"result.json": content})
    trial = names(job)["bad__bbbbbbb"]
    assert (trial.state, trial.category) == ("unreadable", "")
    assert trial.fault_message.startswith("result.json: ")
    assert trial.task == "bad"
    assert names(job)["good__aaaaaaa"].passed


@pytest.mark.parametrize(
    "key",
    [
        "task_name",
        "task_id",
        "config",
        "agent_info",
        "agent_result",
        "verifier_result",
        "exception_info",
        "started_at",
        "environment_setup",
        "step_results",
        "reward_valid",
        "pytest_harbor",
    ],
)
def test_fields_of_any_kind_are_read_or_left_out(job: Any, key: str) -> None:
    odd = (None, True, -1, 1e308, "x" * 10_000, [], [[]], {}, {"a": {}}, "\ud800\u202e</script>")
    for value in odd:
        job.trial(**{key: value})
        (trial,) = read_job(job.path).trials
        assert trial.agent
        assert len(trial.task) < 400


def test_a_result_that_is_no_file_is_not_followed(job: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"task_name": "secret"}')
    folder = job.trial()
    (folder / "result.json").unlink()
    (folder / "result.json").symlink_to(secret)
    assert names(job)["hello__aaaaaaa"].state == "unreadable"
    (folder / "result.json").unlink()
    os.mkfifo(folder / "result.json")
    assert names(job)["hello__aaaaaaa"].state == "unreadable"


def test_a_link_to_a_trial_is_no_trial_of_the_job(job: Any, make_job: Any) -> None:
    job.trial()
    elsewhere = make_job("other").trial("far__bbbbbbb")
    (job.path / "far__bbbbbbb").symlink_to(elsewhere)
    assert set(names(job)) == {"hello__aaaaaaa"}


def test_files_of_an_agent_named_like_ours_make_no_job_of_a_trial(job: Any) -> None:
    folder = job.trial(files={"agent/result.json": "{}", "artifacts/config.json": "{}"})
    (folder / "trial.log").unlink()
    assert set(names(job)) == {"hello__aaaaaaa"}


def test_what_is_no_job_is_refused_with_what_it_is(job: Any, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="found nothing"):
        read_job(tmp_path / "nowhere")
    with pytest.raises(OptionError, match="without trials"):
        read_job(job.path)
    job.trial()
    with pytest.raises(OptionError, match=r"it holds jobs, name one of them, as .*now"):
        read_job(job.path.parent)
    check_job(job.path)
    job.write("hello__aaaaaaa/result.json", "{")
    with pytest.raises(OptionError, match="no trial of this job has a result"):
        check_job(job.path)


def test_the_same_task_of_two_versions_is_two_tasks(job: Any) -> None:
    shared = {"task_id": {"path": "/cache/0a1b/hello"}, "source": "tb"}
    for version, reward in (("1.0", 0.0), ("2.0", 1.0)):
        item = f"tb@{version}/hello/task.toml::oracle"
        job.trial(f"hello__{version[0]}aaaaaa", reward, item=item, **shared)
    (group,) = group_numbers(read_job(job.path).trials)
    assert (group.trials, group.tasks, group.passed) == (2, 2, 1)


def test_parameters_of_a_trial_make_attempts_of_their_own(job: Any) -> None:
    for name in ("a", "b"):
        job.trial(f"hello__{name}aaaaaa", 1.0, item=f"tasks/hello/task.toml::oracle[{name}]")
    (group,) = group_numbers(read_job(job.path).trials)
    assert (group.trials, group.tasks) == (2, 1)


def test_of_two_runs_of_an_item_the_last_counts(job: Any) -> None:
    for number in (0, 1):
        item = "tasks/hello/task.toml::oracle"
        job.trial(f"hello__{number}aaaaaa", float(number), item=item, start=20 * number)
    assert [trial.superseded for trial in read_job(job.path).trials] == [True, False]
