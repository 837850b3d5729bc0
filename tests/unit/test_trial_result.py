"""A trial's result as Harbor writes it, and as reports carry it.

The whole JSON documents stand in ``golden/``.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.errors import AgentTimeoutError
from pytest_harbor.result.reward import Reward, judge
from pytest_harbor.result.trial import Fault, StepResult, Timing, TrialResult, model_parts

GOLDEN = Path(__file__).parent / "golden"
START = datetime(2026, 1, 5, 10, 0, 0, tzinfo=UTC)

HARBOR_FIELDS = {
    "schema_version",
    "id",
    "task_name",
    "trial_name",
    "trial_uri",
    "task_id",
    "source",
    "task_checksum",
    "config",
    "agent_info",
    "agent_result",
    "verifier_result",
    "verifier_environment_mode",
    "exception_info",
    "started_at",
    "finished_at",
    "environment_setup",
    "agent_setup",
    "agent_execution",
    "verifier",
    "step_results",
    "reward_valid",
}


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def result(**changes: Any) -> TrialResult:
    usual: dict[str, Any] = {
        "trial_name": "hello__a1B2c3D",
        "trial_dir": Path("/data/jobs/job/hello__a1B2c3D"),
        "task_name": "acme/hello",
        "task_path": Path("/data/tasks/hello"),
        "agent_name": "codex",
        "started_at": START,
        "finished_at": after(70),
    }
    return TrialResult(**{**usual, **changes})


def graded() -> TrialResult:
    values = {"reward": 0.5, "lines": 3}
    return result(
        agent_version="1.2.3",
        model="openai/gpt-5",
        attempt=2,
        category="reward",
        reward=Reward(values, "reward.json"),
        verdict=judge(values),
        timings={
            "environment": Timing(after(0), after(10)),
            "agent_setup": Timing(after(10), after(10.5)),
            "agent": Timing(after(10.5), after(60)),
            "verifier": Timing(after(60), after(70)),
        },
        faults=[
            Fault("agent", "AgentTimeoutError", "agent timed out after 49.5 s", "", after(60)),
            Fault("verifier", "VerifierTimeoutError", "late", "", after(70)),
        ],
        findings=["reward.json decides"],
        agent_exit_code=None,
        verifier_exit_code=3,
        verifier_sec=9.5,
        network={"environment": "public", "agent": "no-network", "verifier": "public"},
        usage={"n_input_tokens": 1200, "n_output_tokens": 34, "cost_usd": 0.0125},
    )


def stepped() -> TrialResult:
    steps = [
        StepResult(
            name="one",
            reward=Reward({"reward": 1.0}, "reward.txt"),
            verdict=judge({"reward": 1.0}),
            timings={"agent": Timing(after(1), after(3)), "verifier": Timing(after(3), after(4))},
            agent_exit_code=0,
            verifier_exit_code=0,
            usage={"n_input_tokens": 10},
        ),
        StepResult(
            name="two",
            timings={"agent": Timing(after(4), after(9))},
            faults=[Fault("verifier", "RewardFileNotFoundError", "no reward", "", after(9))],
            unmet=("reward is missing, at least 0.5 is needed",),
            usage={"n_input_tokens": 5},
        ),
    ]
    return result(
        category="reward",
        reward=Reward({"reward": 0.5}, "steps"),
        verdict=judge({"reward": 0.5}),
        step_names=("one", "two"),
        steps=steps,
        timings={"environment": Timing(after(0), after(1))},
        harbor_rewards={"reward": 1.0},
    )


def test_errors_of_other_steps_have_a_property_of_their_own() -> None:
    trial = stepped()
    found = dict(trial.properties())
    assert found["fault"] == "RewardFileNotFoundError"
    assert "faults" not in found
    trial.steps[0].faults.append(Fault("agent", "AgentTimeoutError", "too long", "", after(3)))
    trial.steps[1].faults.append(Fault("verifier", "OSError", "not the step's first", "", after(9)))
    found = dict(trial.properties())
    assert found["fault"] == "AgentTimeoutError"
    assert found["faults"] == "AgentTimeoutError, RewardFileNotFoundError"


CASES = {"trial": graded, "trial-steps": stepped, "trial-begun": result}


@pytest.mark.parametrize("name", CASES)
def test_the_whole_document(name: str) -> None:
    config = {"id": "5b0e", "task": {"path": "tasks/hello"}, "task_digest": "sha256:c0ffee"}
    document = CASES[name]().to_json(config)
    text = json.dumps(document, indent=4, allow_nan=False) + "\n"
    assert text == (GOLDEN / f"{name}.json").read_text()


@pytest.mark.parametrize("name", CASES)
def test_harbors_fields_are_all_there_and_ours_stand_apart(name: str) -> None:
    assert set(CASES[name]().to_json({})) == HARBOR_FIELDS | {"pytest_harbor"}


def test_properties_of_a_graded_trial() -> None:
    assert graded().properties() == [
        ("reward", 0.5),
        ("reward.reward", 0.5),
        ("reward.lines", 3),
        ("category", "reward"),
        ("agent", "codex"),
        ("model", "openai/gpt-5"),
        ("attempt", 2),
        ("trial", "/data/jobs/job/hello__a1B2c3D"),
        ("task", "acme/hello"),
        ("fault", "AgentTimeoutError"),
        ("seconds.environment", 10.0),
        ("seconds.agent", 49.5),
        ("seconds.verifier", 10.0),
        ("input_tokens", 1200),
        ("output_tokens", 34),
        ("cost_usd", 0.0125),
    ]


def test_properties_of_steps_are_named_after_them() -> None:
    properties = dict(stepped().properties())
    assert properties["reward"] == 0.5
    assert properties["step.one.reward.reward"] == 1.0
    assert properties["step.two.seconds.agent"] == 5.0
    assert properties["seconds.agent"] == 7.0
    assert properties["input_tokens"] == 15
    assert properties["fault"] == "RewardFileNotFoundError"


@pytest.mark.parametrize("name", CASES)
def test_properties_are_of_plain_types(name: str) -> None:
    for key, value in CASES[name]().properties():
        assert type(key) is str
        assert type(value) in (str, int, float)


@pytest.mark.parametrize("category", ["agent", "task", "environment", "skipped", None])
def test_a_missing_reward_is_no_property(category: Any) -> None:
    values = {"reward": 0.0}
    trial = result(category=category, reward=Reward(values, "reward.txt"), verdict=judge(values))
    assert "reward" not in dict(trial.properties())
    assert not trial.passed
    assert trial.to_json({})["reward_valid"] is False


@pytest.mark.parametrize(
    ("values", "threshold", "key", "passed", "reward"),
    [
        ({"reward": 1}, 1.0, None, True, 1),
        ({"a": 1, "b": 0.5}, 0.5, None, True, 0.5),
        ({"a": 1, "b": 0.5}, 1.0, None, False, 0.5),
        ({"a": 1, "b": 0.5}, 1.0, "a", True, 1),
    ],
)
def test_the_reward_of_reports_is_the_one_held_against_the_threshold(
    values: dict[str, float], threshold: float, key: str | None, passed: bool, reward: float
) -> None:
    verdict = judge(values, threshold, key)
    trial = result(category="reward", reward=Reward(values, "reward.json"), verdict=verdict)
    assert trial.passed is passed
    assert dict(trial.properties())["reward"] == reward


def test_the_first_fault_is_harbors_exception() -> None:
    document = graded().to_json({})
    assert document["exception_info"]["exception_type"] == "AgentTimeoutError"
    assert [fault["type"] for fault in document["pytest_harbor"]["faults"]] == [
        "AgentTimeoutError",
        "VerifierTimeoutError",
    ]


def test_a_fault_without_words_says_what_it_is() -> None:
    assert Fault.of("agent", AgentTimeoutError()).message == "AgentTimeoutError"


def test_a_phase_that_runs_has_no_length_yet() -> None:
    trial = result(timings={"agent": Timing(START)})
    assert trial.seconds("agent") == trial.seconds("verifier") == 0.0
    assert trial.to_json({})["agent_execution"] == {
        "started_at": "2026-01-05T10:00:00Z",
        "finished_at": None,
    }


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ("openai/gpt-5", ("openai", "gpt-5")),
        ("openrouter/qwen/qwen3:free", ("openrouter", "qwen/qwen3:free")),
        ("gpt-5", (None, "gpt-5")),
        (None, (None, "")),
    ],
)
def test_a_models_name_may_have_slashes(model: str | None, parts: tuple[str | None, str]) -> None:
    assert model_parts(model) == parts
