"""What a ``task.toml`` says that Harbor accepts and that cannot be meant.

Each is a warning: the task runs as it would under Harbor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from pytest_harbor.task.config import (
    DEFAULT_VERIFIER_TIMEOUT_SEC,
    EnvironmentConfig,
    TaskConfig,
    VerifierConfig,
    is_package_name,
)
from pytest_harbor.task.finding import Finding, Location, shown
from pytest_harbor.task.network import is_impossible_ipv4

SCHEMA_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")

NEVER_NEGATIVE = {
    "AgentConfig": ("timeout_sec",),
    "CollectConfig": ("timeout_sec",),
    "EnvironmentConfig": ("build_timeout_sec", "cpus", "memory_mb", "storage_mb", "gpus"),
    "HealthcheckConfig": (
        "interval_sec",
        "timeout_sec",
        "start_period_sec",
        "start_interval_sec",
        "retries",
    ),
    "VerifierConfig": ("timeout_sec",),
}
"""Numbers that cannot be meant below 0, by the model of their table."""

_PLAIN = (str, int, float, dict, type(None))

_DOUBTFUL_FOR_VERIFIER = {
    "healthcheck": "awaited here, but never looked at by Harbor",
    "mcp_servers": "has no effect: a verifier has no MCP servers",
    "skills_dir": "has no effect: a verifier has no skills",
}


def check_config(config: TaskConfig, data: Mapping[str, Any]) -> list[Finding]:
    """Every doubtful value.

    Args:
        config: The file as read.
        data: The file as parsed, which tells what the author wrote.
    """
    return [
        *_check_version(data),
        *_check_package(config, data),
        *_check_numbers_and_hosts(config, ()),
        *_check_verifier_environments(config),
        *_check_steps(config),
        *_check_mcp_servers(config.environment),
    ]


def _check_version(data: Mapping[str, Any]) -> Iterator[Finding]:
    key = "schema_version" if "schema_version" in data else "version"
    if key in data and data[key] not in SCHEMA_VERSIONS:
        yield Finding(
            (key,),
            f"unknown version {shown(data[key])}, read as {SCHEMA_VERSIONS[-1]!r}; known are "
            f"{', '.join(SCHEMA_VERSIONS)}. A task's own version is [task].version",
        )


def _check_package(config: TaskConfig, data: Mapping[str, Any]) -> Iterator[Finding]:
    if config.task is None:
        return
    if not is_package_name(config.task.name):
        yield Finding(
            ("task", "name"),
            f"expected org/name of letters, digits and . _ -, got {shown(config.task.name)}; "
            "Harbor refuses the task",
        )
    for index, author in enumerate(data["task"].get("authors", ())):
        if isinstance(author, str):
            yield Finding(
                ("task", "authors", index),
                f"expected a table, got {shown(author)}; Harbor refuses the task. "
                'Write { name = "…", email = "…" }',
            )


def _check_numbers_and_hosts(table: BaseModel, at: Location) -> Iterator[Finding]:
    for key in NEVER_NEGATIVE.get(type(table).__name__, ()):
        value = getattr(table, key)
        if value is not None and value < 0:
            yield Finding((*at, key), f"expected 0 or more, got {value}")
    for index, host in enumerate(table.__dict__.get("allowed_hosts") or ()):
        if is_impossible_ipv4(host):
            yield Finding(
                (*at, "allowed_hosts", index),
                f"{host!r} is read as a host name, but looks like an IP address that cannot be",
            )
    for key in table.model_fields_set:
        value = getattr(table, key)
        if not isinstance(value, _PLAIN):  # nearly all are, of every task
            yield from _check_below(value, (*at, key))


def _check_below(value: Any, at: Location) -> Iterator[Finding]:
    if isinstance(value, BaseModel):
        yield from _check_numbers_and_hosts(value, at)
    elif isinstance(value, tuple):
        for index, entry in enumerate(value):
            if isinstance(entry, BaseModel):
                yield from _check_numbers_and_hosts(entry, (*at, index))


def _check_verifier_environments(config: TaskConfig) -> Iterator[Finding]:
    build_timeout_sec = config.environment.build_timeout_sec
    for verifier, at in _verifiers(config):
        if verifier.environment is not None:
            place = (*at, "environment")
            yield from _check_verifier_environment(verifier.environment, place, build_timeout_sec)


def _verifiers(config: TaskConfig) -> Iterator[tuple[VerifierConfig, Location]]:
    yield config.verifier, ("verifier",)
    for index, step in enumerate(config.steps):
        yield step.verifier, ("steps", index, "verifier")


def _check_verifier_environment(
    environment: EnvironmentConfig, at: Location, build_timeout_sec: float
) -> Iterator[Finding]:
    for key, message in _DOUBTFUL_FOR_VERIFIER.items():
        if getattr(environment, key):
            yield Finding((*at, key), message)
    own = environment.build_timeout_sec
    if "build_timeout_sec" in environment.model_fields_set and own != build_timeout_sec:
        yield Finding(
            (*at, "build_timeout_sec"),
            f"{own} has no effect: [environment].build_timeout_sec counts for both",
        )


def _check_steps(config: TaskConfig) -> Iterator[Finding]:
    if not config.steps:
        if config.multi_step_reward_strategy is not None:
            yield Finding(("multi_step_reward_strategy",), "has no effect without [[steps]]")
        return
    limit = config.verifier.timeout_sec
    unset = [s.name for s in config.steps if "timeout_sec" not in s.verifier.model_fields_set]
    if unset and limit != DEFAULT_VERIFIER_TIMEOUT_SEC:
        yield Finding(
            ("verifier", "timeout_sec"),
            f"{limit} does not reach the steps ({', '.join(unset[:5])}), which have "
            f"{DEFAULT_VERIFIER_TIMEOUT_SEC}; write it under [steps.verifier]",
        )


def _check_mcp_servers(environment: EnvironmentConfig) -> Iterator[Finding]:
    for index, server in enumerate(environment.mcp_servers):
        if server.transport == "stdio" and server.headers:
            place = ("environment", "mcp_servers", index, "headers")
            yield Finding(place, "has no effect: transport 'stdio' has no headers")
