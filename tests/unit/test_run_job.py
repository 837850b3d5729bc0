"""A run's job: one id and one folder, and the run's settings as trials take them."""

import re

import pytest

from pytest_harbor.plugin.job import job
from pytest_harbor.task.network import Endpoint, NetworkPolicy


def test_a_runs_job_is_begun_once(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig()
    first = job(config)
    assert job(config) is first
    assert first.owned
    assert re.fullmatch(r"[0-9a-f]{8}", first.run_id)
    assert first.path.parent == pytester.path / "jobs"
    assert first.path.name.endswith(f"__{first.run_id}")
    assert not first.path.exists()


def test_two_runs_have_two_jobs(pytester: pytest.Pytester) -> None:
    first, second = job(pytester.parseconfig()), job(pytester.parseconfig())
    assert first.run_id != second.run_id
    assert first.path != second.path


def test_a_worker_has_the_job_of_its_controller(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig()
    handed = {"pytest_harbor_job": {"run_id": "1a2b3c4d", "path": "/data/jobs/job"}}
    config.workerinput = handed  # type: ignore[attr-defined]
    received = job(config)
    assert (received.run_id, str(received.path)) == ("1a2b3c4d", "/data/jobs/job")
    assert not received.owned


def test_settings_reach_the_trials(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig(
        "--harbor-threshold=0.5",
        "--harbor-reward-key=style",
        "--harbor-timeout-multiplier=2",
        "--harbor-agent-timeout-multiplier=3",
        "--harbor-resource-multiplier=0.5",
        "--harbor-rebuild",
        "--harbor-agent-env=A=1",
        "--harbor-allow-host=*.example",
        "--harbor-deny-host=b.example",
        "--harbor-endpoint=https://model.example/v1",
        "--harbor-uplink=outside",
        "--harbor-gateway-image=gateway:1",
        "--harbor-runtime=runsc",
        "--harbor-hardened",
    )
    options = job(config).options
    assert (options.threshold, options.reward_key) == (0.5, "style")
    assert options.multipliers.scaled(10, options.multipliers.agent) == 30
    assert options.multipliers.scaled(10, options.multipliers.verifier) == 20
    assert options.multipliers.scaled(10, options.multipliers.build) == 20
    assert options.multipliers.scaled(10, options.multipliers.setup) == 20
    assert options.resource_multiplier == 0.5
    assert options.rebuild
    assert options.agent_env == {"A": "1"}
    assert options.job_dir == job(config).path
    endpoints = (Endpoint("model.example", 443),)
    denied = ("b.example",)
    assert options.network == NetworkPolicy("allowlist", ("*.example",), denied, endpoints)
    assert (options.uplink, options.gateway_image) == ("outside", "gateway:1")
    assert (options.runtime, options.hardened) == ("runsc", True)


def test_a_run_that_says_nothing_leaves_networks_to_the_tasks(pytester: pytest.Pytester) -> None:
    options = job(pytester.parseconfig()).options
    assert options.network == NetworkPolicy()
    assert (options.uplink, options.gateway_image, options.runtime) == (None, None, None)
    assert not options.hardened
