"""A result that is graded again is held to what is read of it."""

import json
from typing import Any

import pytest

from pytest_harbor.plugin.regrade import agents_of
from pytest_harbor.trial.earlier_result import artifact_rows, require_readable

TIMES = {"started_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-01T00:00:01Z"}
SOUND: dict[str, Any] = {
    "agent_info": {"version": "1"},
    "agent_execution": TIMES,
    "agent_setup": None,
    "agent_result": {"n_input_tokens": 1, "cost_usd": None},
    "verifier_result": {"rewards": {"reward": 0.5}},
    "pytest_harbor": {
        "category": "reward",
        "agent_exit_code": 0,
        "faults": [{"phase": "agent", "type": "AgentCrashError", "message": "x"}],
        "integrity": {
            "findings": [{"code": "removed", "level": "suspicious", "message": "gone"}],
            "left_running": ["sleep 9"],
        },
    },
    "step_results": [{"step_name": "one", "agent_execution": TIMES}],
}


def test_what_a_run_writes_is_readable() -> None:
    require_readable(SOUND)
    require_readable({})  # of Harbor's own runner, with nothing of all that


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"agent_execution": {**TIMES, "finished_at": None}}, "agent_execution.finished_at"),
        ({"agent_execution": "x"}, "agent_execution: expected an object"),
        ({"pytest_harbor": [1]}, "pytest_harbor: expected an object"),
        ({"verifier_result": {"rewards": {"reward": "NaN"}}}, "rewards.reward: expected a number"),
        ({"verifier_result": {"rewards": {"reward": 10**400}}}, "rewards.reward"),
        ({"verifier_result": {"rewards": [1]}}, "verifier_result.rewards: expected an object"),
        ({"pytest_harbor": {"faults": [{"phase": "agent"}]}}, "faults[0].type: expected text"),
        ({"pytest_harbor": {"integrity": {"findings": [{"code": 1}]}}}, "findings[0].code"),
        ({"pytest_harbor": {"integrity": {"left_running": [1]}}}, "left_running"),
        ({"agent_result": {"n_input_tokens": "x"}}, "agent_result.n_input_tokens"),
        ({"agent_info": "x"}, "agent_info"),
        ({"step_results": 5}, "step_results: expected a list, found 5"),
        ({"step_results": [{"pytest_harbor": 1}]}, "step_results[0].pytest_harbor"),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        require_readable({**SOUND, **changed})
    assert words in str(caught.value)


def test_rows_of_a_manifest_that_name_nothing_are_left_out() -> None:
    row = {"source": "/app/out", "status": "ok"}
    assert list(artifact_rows([row, 1, {}, {"source": 1, "status": "ok"}, {"source": "/a"}])) == [
        row
    ]


@pytest.mark.parametrize(
    "config",
    [
        "[" * 100_000,
        "[]",
        {"agents": [{"name": "oracle"}], "n_attempts": 0},
        {"agents": [{"name": "oracle"}], "n_attempts": 10**9},
        {"agents": [], "n_attempts": 1},
        {"agents": ["oracle"], "n_attempts": 1},
    ],
)
def test_a_folder_that_is_no_jobs_is_refused(tmp_path: Any, config: Any) -> None:
    text = config if isinstance(config, str) else json.dumps(config)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(pytest.UsageError, match="expected the folder of a job"):
        agents_of(tmp_path)
