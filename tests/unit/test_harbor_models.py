"""What Harbor 0.26 needs to read our files, written down from its models.

Harbor drops a trial that its model does not take: its viewer then shows an empty one.
"""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, ConfigDict

from tests.unit.test_trial_result import CASES


class Model(BaseModel):
    """Harbor's models ignore what they do not know; strictness tells null from missing."""

    model_config = ConfigDict(extra="ignore")


class Timing(Model):
    started_at: datetime | None = None
    finished_at: datetime | None = None


class AgentInfo(Model):
    name: str
    version: str
    model_info: dict[str, str | None] | None = None


class AgentContext(Model):
    n_input_tokens: int | None = None
    n_cache_tokens: int | None = None
    n_output_tokens: int | None = None
    cost_usd: float | None = None
    metadata: dict[str, Any] | None = None


class VerifierResult(Model):
    rewards: dict[str, float | int] | None = None


class ExceptionInfo(Model):
    exception_type: str
    exception_message: str
    exception_traceback: str
    occurred_at: datetime


class Step(Model):
    step_name: str
    agent_result: AgentContext | None = None
    verifier_result: VerifierResult | None = None
    exception_info: ExceptionInfo | None = None
    agent_execution: Timing | None = None
    verifier: Timing | None = None


class TaskConfig(Model):
    path: str
    source: str | None = None


class AgentConfig(Model):
    name: str | None = None
    model_name: str | None = None
    env: dict[str, str] = {}


class TrialConfig(Model):
    task: TaskConfig
    trial_name: str = ""
    trials_dir: str = "trials"
    timeout_multiplier: float = 1.0
    agent: AgentConfig = AgentConfig()


class HarborTrial(Model):
    schema_version: Literal[1] = 1
    id: UUID
    task_name: str
    trial_name: str
    trial_uri: str
    task_id: dict[str, str | None]
    source: str | None = None
    task_checksum: str
    config: TrialConfig
    agent_info: AgentInfo
    agent_result: AgentContext | None = None
    verifier_result: VerifierResult | None = None
    verifier_environment_mode: Literal["shared", "separate"] | None = None
    exception_info: ExceptionInfo | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    environment_setup: Timing | None = None
    agent_setup: Timing | None = None
    agent_execution: Timing | None = None
    verifier: Timing | None = None
    step_results: list[Step] | None = None


@pytest.mark.parametrize("name", CASES)
def test_harbors_model_takes_a_trials_result(name: str) -> None:
    config = {"id": str(uuid4()), "task": {"path": "/t"}, "task_digest": "sha256:c0ffee"}
    read = HarborTrial.model_validate(CASES[name]().to_json(config))
    assert read.task_checksum == "c0ffee"


def test_a_task_without_a_digest_has_an_empty_checksum() -> None:
    config = {"id": str(uuid4()), "task": {"path": "/t"}, "task_digest": ""}
    assert HarborTrial.model_validate(CASES["trial"]().to_json(config)).task_checksum == ""
