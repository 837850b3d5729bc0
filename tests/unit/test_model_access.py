"""How an agent's way to its model is settled, before anything is built."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.agent.cli.named import ClaudeCode, Codex
from pytest_harbor.agent.reference import NopAgent
from pytest_harbor.errors import OptionError
from pytest_harbor.model_gateway.limits import SessionLimits
from pytest_harbor.task.network import HOST_MACHINE, Endpoint
from pytest_harbor.trial.model_access import (
    DirectAccess,
    ModelAccess,
    close_model_gateways,
    model_access,
)
from pytest_harbor.trial.plan import RunOptions

KEYS = {"OPENAI_API_KEY": "sk-host-key-1", "ANTHROPIC_API_KEY": "sk-host-key-2"}


@pytest.fixture(autouse=True)
def _no_gateway_stays() -> Iterator[None]:
    yield
    close_model_gateways()


def run_options(**changed: Any) -> RunOptions:
    return RunOptions(run_id="r", job_dir=Path("jobs"), **changed)


def codex(model: str = "openai/m", **kwargs: Any) -> Codex:
    return Codex(model_name=model, **kwargs)


def test_an_agent_that_calls_no_model_needs_nothing() -> None:
    access = model_access(NopAgent(), None, run_options(agent_env={"A": "b"}), {})
    assert type(access) is ModelAccess
    assert access.endpoints == ()
    assert access.agent_env == {"A": "b"}


class OnThisMachine(NopAgent):
    name = "own"
    uses_task_tools = True
    calls_model_from = "host"
    model_wires: tuple[str, ...] = ("openai",)


@pytest.mark.parametrize("gateway", ["auto", "off"])
def test_an_agent_that_calls_from_this_machine_opens_nothing_for_its_box(gateway: str) -> None:
    env = {"OPENAI_API_KEY": "sk-given-key", "MODE": "fast"}
    options = run_options(model_gateway=gateway, agent_env=env)
    access = model_access(OnThisMachine(), "openai/m", options, {})
    assert access.endpoints == ()
    assert access.agent_env == {"MODE": "fast"}
    assert "sk-given-key" in access.secrets


@pytest.mark.parametrize(
    "asked", [{"model_gateway": "on"}, {"model_limits": SessionLimits(max_calls=3)}]
)
def test_what_the_gateway_is_asked_for_is_refused_where_an_agent_goes_past_it(
    asked: dict[str, Any],
) -> None:
    agent = OnThisMachine()
    agent.model_wires = ()
    with pytest.raises(OptionError, match="agent own does not call openai/m through"):
        model_access(agent, "openai/m", run_options(**asked), KEYS)
    assert model_access(agent, "openai/m", run_options(), KEYS).secrets == tuple(KEYS.values())
    assert model_access(NopAgent(), "openai/m", run_options(**asked), KEYS).agent_env == {}


def test_the_gateway_is_the_one_endpoint_and_trials_share_it() -> None:
    one = model_access(codex(), "openai/m", run_options(), KEYS)
    other = model_access(codex(), "openai/m", run_options(), {**KEYS, "UNRELATED": "x"})
    (endpoint,) = one.endpoints
    assert endpoint.host == HOST_MACHINE
    assert other.endpoints == one.endpoints


def test_keys_that_are_meant_for_the_agent_are_kept_from_its_environment() -> None:
    options = run_options(agent_env={"OPENAI_API_KEY": "sk-given-key", "MODE": "fast"})
    access = model_access(codex(), "openai/m", options, {})
    assert access.agent_env == {"MODE": "fast"}
    assert "sk-given-key" in access.secrets


def test_without_the_gateway_the_provider_is_the_endpoint_and_the_key_goes_in() -> None:
    options = run_options(model_gateway="off")
    access = model_access(codex(), "openai/m", options, KEYS)
    assert isinstance(access, DirectAccess)
    assert access.endpoints == (Endpoint("api.openai.com", 443),)
    assert access.route is not None
    assert access.route.key == "sk-host-key-1"
    assert access.route.base_urls == {"openai": "https://api.openai.com/v1"}
    assert "sk-host-key-1" in access.secrets


def test_a_base_url_of_the_agents_takes_the_place_of_the_providers() -> None:
    agent = codex(base_url="https://models.example/v1")
    access = model_access(agent, "openai/m", run_options(model_gateway="off"), KEYS)
    assert access.endpoints == (Endpoint("models.example", 443),)


@pytest.mark.parametrize(
    ("model", "changed", "host", "message"),
    [
        ("openai/m", {}, {}, "OPENAI_API_KEY is not set"),
        ("gemini/m", {}, {"GEMINI_API_KEY": "k" * 20}, "choose another agent or model"),
        ("nobody/m", {}, {}, "names no provider that is known"),
        (
            "openai/m",
            {"model_gateway": "off", "model_limits": SessionLimits(max_calls=3)},
            KEYS,
            "limits on model calls are held by the model gateway",
        ),
        (
            "openai/m",
            {"model_gateway": "off"},
            {**KEYS, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
            "no container reaches the model's base URL",
        ),
        (None, {}, KEYS, "--harbor-model"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_built(
    model: str | None, changed: dict[str, Any], host: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        model_access(codex("m"), model, run_options(**changed), host)


def test_a_protocol_that_both_speak_is_used() -> None:
    host = {"OPENROUTER_API_KEY": "k" * 20}
    options = run_options(model_gateway="off")
    for agent in (codex("openrouter/a/b"), ClaudeCode(model_name="openrouter/a/b")):
        access = model_access(agent, "openrouter/a/b", options, host)
        assert access.route is not None
        assert access.route.name == "a/b"
        assert set(agent.model_wires) == set(access.route.base_urls)
