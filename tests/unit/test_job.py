"""A job's files: counts, means and names as Harbor has them."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.trial.job import JobRecord, job_name, job_stats


def trial(name: str = "a__1", category: str = "reward", **changes: Any) -> dict[str, Any]:
    rewards = {"reward": 1.0} if category == "reward" else {}
    usual = {"agent": "oracle", "model": None, "rewards": rewards, "usage": {}, "fault": None}
    return {"name": name, "category": category, **usual, **changes}


def group(*trials: dict[str, Any]) -> dict[str, Any]:
    (stats,) = job_stats(trials)["evals"].values()
    return dict(stats)


def test_names_of_jobs_are_a_time_and_the_run() -> None:
    moment = datetime(2026, 1, 5, 9, 8, 7)
    assert job_name("1a2b3c4d", moment) == "2026-01-05__09-08-07__1a2b3c4d"


def test_an_invalid_reward_is_left_out_and_never_a_zero() -> None:
    stats = group(
        trial("a__x"),
        trial("b__y"),
        trial("a__z", rewards={"reward": 0}),
        trial("b__w", "environment", fault="HealthcheckError"),
        trial("b__v", "agent", rewards={"reward": 0}, fault="AgentAuthenticationError"),
    )
    assert stats == {
        "n_trials": 3,
        "n_errors": 2,
        "metrics": [{"mean": 2 / 3}],
        "pass_at_k": {},
        "reward_stats": {"reward": {"1.0": ["a__x", "b__y"], "0": ["a__z"]}},
        "exception_stats": {
            "HealthcheckError": ["b__w"],
            "AgentAuthenticationError": ["b__v"],
        },
    }


@pytest.mark.parametrize(
    ("rewards", "metrics"),
    [
        ([], []),
        ([{"reward": 1}, {"reward": 0}], [{"mean": 0.5}]),
        ([{"score": 1}, {"score": 0.5}], [{"mean": 0.75}]),
        ([{"a": 1}, {"b": 1}], [{"a": 0.5, "b": 0.5}]),
        ([{"a": 1, "b": 0}, {"a": 0}], [{"a": 0.5, "b": 0}]),
        ([{"reward": -1}, {"reward": 3}], [{"mean": 1}]),
    ],
)
def test_means_count_a_missing_key_as_0(
    rewards: list[dict[str, float]], metrics: list[dict[str, float]]
) -> None:
    trials = [trial(f"t__{number}", rewards=values) for number, values in enumerate(rewards)]
    assert group(*trials, trial("none__1", "task"))["metrics"] == metrics


def test_a_reward_that_is_not_trusted_raises_no_mean() -> None:
    trials = [
        trial("a__x", rewards={"reward": 1, "style": -1}, untrusted=True),
        trial("a__y", rewards={"reward": 1, "style": 1}),
    ]
    stats = job_stats(trials)
    (found,) = stats["evals"].values()
    assert found["metrics"] == [{"reward": 0.5, "style": 0}]
    assert found["reward_stats"]["reward"] == {"0.0": ["a__x"], "1": ["a__y"]}
    assert found["n_trials"] == 2
    assert stats["pytest_harbor"]["untrusted"] == ["a__x"]


def test_a_fault_beside_a_valid_reward_is_counted_too() -> None:
    stats = job_stats([trial(fault="AgentTimeoutError")])
    assert (stats["n_completed_trials"], stats["n_errored_trials"]) == (1, 1)
    assert stats["evals"]["oracle__adhoc"]["n_trials"] == 1


def test_rewards_are_listed_by_value_as_it_was_written_first() -> None:
    values = {"a__x": 1, "a__y": 1.0, "a__z": 0.0, "a__v": 0, "a__w": -1, "a__u": 0.25}
    found = group(*(trial(name, rewards={"style": value}) for name, value in values.items()))
    assert found["reward_stats"]["style"] == {
        "1": ["a__x", "a__y"],
        "0.0": ["a__z", "a__v"],
        "-1": ["a__w"],
        "0.25": ["a__u"],
    }


def test_a_trial_whose_steps_broke_differently_is_one_trial_with_errors_of_both_names() -> None:
    both = ["AgentTimeoutError", "RewardFileNotFoundError"]
    stats = job_stats([trial(fault=both[0], faults=both), trial("b__y", fault=both[0], faults=[])])
    assert stats["n_errored_trials"] == 2
    found = stats["evals"]["oracle__adhoc"]
    assert found["n_errors"] == 2
    assert found["exception_stats"] == {both[0]: ["a__1", "b__y"], both[1]: ["a__1"]}


@pytest.mark.parametrize(
    ("agent", "model", "key"),
    [
        ("oracle", None, "oracle__adhoc"),
        ("codex", "openai/gpt-5", "codex__gpt-5__adhoc"),
        ("codex", "gpt-5", "codex__gpt-5__adhoc"),
        ("aider", "openrouter/qwen/qwen3", "aider__qwen/qwen3__adhoc"),
    ],
)
def test_groups_are_named_by_agent_and_model(agent: str, model: str | None, key: str) -> None:
    assert list(job_stats([trial(agent=agent, model=model)])["evals"]) == [key]


def test_counts_of_usage_are_summed_where_anybody_counted() -> None:
    stats = job_stats(
        [
            trial(usage={"n_input_tokens": 10, "cost_usd": 0.25}),
            trial(usage={"n_input_tokens": 5, "cost_usd": None}),
            trial(),
        ]
    )
    assert stats["n_input_tokens"] == 15
    assert stats["cost_usd"] == 0.25
    assert stats["n_output_tokens"] is None


def test_categories_are_kept_apart() -> None:
    kinds = ["reward", "task", "task", "skipped"]
    stats = job_stats([trial(category=kind) for kind in kinds])
    assert stats["pytest_harbor"]["categories"] == {"reward": 1, "task": 2, "skipped": 1}


# --- files


def read(path: Path) -> Any:
    return json.loads(path.read_text(), parse_constant=pytest.fail)


def test_a_job_without_trials_writes_nothing(tmp_path: Path) -> None:
    JobRecord(tmp_path / "job", {}).finish()
    assert list(tmp_path.iterdir()) == []


def test_the_files_are_there_from_the_first_trial_on(tmp_path: Path) -> None:
    record = JobRecord(tmp_path / "jobs" / "job", {"job_name": "job"})
    record.add("1", trial())
    folder = tmp_path / "jobs" / "job"
    assert read(folder / "config.json") == {"job_name": "job"}
    assert read(folder / "result.json")["finished_at"] is None
    record.add("2", trial("b__2"))
    record.finish()
    content = read(folder / "result.json")
    assert content["n_total_trials"] == content["stats"]["n_completed_trials"] == 2
    assert content["schema_version"] == 1
    started, finished = (
        datetime.fromisoformat(content[name]) for name in ("started_at", "finished_at")
    )
    assert started.tzinfo is None
    assert started <= finished
    files = sorted(path.name for path in folder.iterdir())
    assert files == ["config.json", "job.log", "result.json"]


def test_the_log_has_a_line_for_each_trial_and_for_the_jobs_begin_and_end(tmp_path: Path) -> None:
    record = JobRecord(tmp_path, {})
    record.begin(3)
    record.add("t::oracle", trial(rewards={"reward": 1, "size": 10**5000}))
    record.add("u\n::nop", trial("b__2", "task", fault="VerifierTimeoutError"))
    record.finish(pending=1)
    lines = (tmp_path / "job.log").read_text().splitlines()
    times, said = zip(*(line.split(" ", 1) for line in lines), strict=True)
    assert all(datetime.fromisoformat(time).tzinfo for time in times)
    assert said == (
        f"{tmp_path.name} begins: 3 trials",
        "a__1: t::oracle: reward reward=1 size=inf",
        "b__2: u ::nop: task (VerifierTimeoutError)",
        f"{tmp_path.name} ends: 2 trials with a result, 1 not begun",
    )


COUNTS = ("n_completed_trials", "n_running_trials", "n_pending_trials", "n_cancelled_trials")


def counts(content: Any) -> tuple[int, ...]:
    return tuple(content["stats"][name] for name in COUNTS)


def test_a_run_that_dies_leaves_a_job_that_can_be_read(tmp_path: Path) -> None:
    JobRecord(tmp_path, {"job_name": "job"}).begin(4)
    content = read(tmp_path / "result.json")
    assert read(tmp_path / "config.json") == {"job_name": "job"}
    assert (content["n_total_trials"], content["finished_at"]) == (4, None)
    assert counts(content) == (0, 1, 3, 0)


def test_an_interrupted_job_says_what_is_missing(tmp_path: Path) -> None:
    JobRecord(tmp_path, {}).begin(4)
    begun = read(tmp_path / "result.json")
    record = JobRecord(tmp_path, {})
    record.add("1", trial(), running=2, pending=1)
    assert counts(read(tmp_path / "result.json")) == (1, 2, 1, 0)
    record.finish(cancelled=2, pending=1)
    content = read(tmp_path / "result.json")
    assert counts(content) == (1, 0, 1, 2)
    assert (content["n_total_trials"], content["finished_at"]) == (4, None)
    assert all(content[name] == begun[name] for name in ("id", "started_at"))


def test_an_interrupt_in_the_first_trial_is_told(tmp_path: Path) -> None:
    JobRecord(tmp_path, {}).begin(1)
    JobRecord(tmp_path, {}).finish(cancelled=1)
    assert counts(read(tmp_path / "result.json")) == (0, 0, 0, 1)


def test_a_late_worker_begins_nothing_anew(tmp_path: Path) -> None:
    record = JobRecord(tmp_path, {"by": "the first"})
    record.add("1", trial())
    record.finish()
    JobRecord(tmp_path, {}).begin(1)
    assert read(tmp_path / "config.json") == {"by": "the first"}
    assert counts(read(tmp_path / "result.json")) == (1, 0, 0, 0)


def test_numbers_beyond_every_float_do_not_end_the_run(tmp_path: Path) -> None:
    record = JobRecord(tmp_path, {})
    record.add("3", trial(rewards={"reward": 10**400}))
    record.add("4", trial(rewards={"reward": 1e308}))
    record.add("5", trial(rewards={"reward": 1e308}))
    record.finish()
    stats = read(tmp_path / "result.json")["stats"]["evals"]["oracle__adhoc"]
    assert stats["metrics"] == [{"mean": None}]
    assert set(stats["reward_stats"]["reward"]) == {"inf", "1e+308"}


def test_a_place_that_cannot_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    record = JobRecord(tmp_path / "file" / "job", {})
    record.add("6", trial())
    record.finish()
    assert (tmp_path / "file").read_text() == ""
