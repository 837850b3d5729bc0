"""Time limits that no trial can keep, or that no runner can wait for."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_harbor.check.finding import Check, Found
from pytest_harbor.check.rules import HouseRules
from pytest_harbor.check.subject import Subject
from pytest_harbor.task.config import StepConfig
from pytest_harbor.task.finding import field_path

CHECKS = (
    Check(
        "timeout-range",
        "trials are cut off before they begin, or hold a runner for a day",
        "write a limit in the range, in seconds",
    ),
    Check(
        "no-agent-timeout",
        "an agent that hangs is never stopped",
        "write timeout_sec under [agent]",
        "warning",
    ),
    Check(
        "gpu-type",
        "no machine of the house has it",
        "take one of harbor_check_gpu_types",
        house=True,
    ),
    Check(
        "network-mode",
        "the house allows only certain networks",
        "take one of harbor_check_network",
        house=True,
    ),
)

_BUILD_RANGE = (1.0, 86_400.0)


def find(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    """Limits out of range, missing ones, and resources that the house does not have."""
    config = subject.task.config
    yield from _agent(subject, rules, None, ("agent", "timeout_sec"))
    yield from _verifier(subject, rules, None, ("verifier", "timeout_sec"))
    for index, step in enumerate(config.steps):
        yield from _agent(subject, rules, step, ("steps", index, "agent", "timeout_sec"))
        yield from _verifier(subject, rules, step, ("steps", index, "verifier", "timeout_sec"))
    build = config.environment.build_timeout_sec
    if not _BUILD_RANGE[0] <= build <= _BUILD_RANGE[1]:
        yield _found(subject, ("environment", "build_timeout_sec"), build, _BUILD_RANGE)
    yield from _house(subject, rules)


def _agent(
    subject: Subject, rules: HouseRules, step: StepConfig | None, at: tuple[str | int, ...]
) -> Iterator[Found]:
    config = subject.task.config
    limit = config.agent_timeout_sec(step)
    if limit is None:
        if step is not None or not config.steps:
            line = subject.line_of(*at)
            yield Found(
                "no-agent-timeout", "no limit", subject.task.config_file, line, field_path(at)
            )
        return
    is_own = step is None or step.agent.timeout_sec is not None
    if is_own and not rules.agent_timeout[0] <= limit <= rules.agent_timeout[1]:
        yield _found(subject, at, limit, rules.agent_timeout)


def _verifier(
    subject: Subject, rules: HouseRules, step: StepConfig | None, at: tuple[str | int, ...]
) -> Iterator[Found]:
    limit = subject.task.config.verifier_timeout_sec(step)
    is_meant = step is not None or not subject.task.steps
    if is_meant and not rules.verifier_timeout[0] <= limit <= rules.verifier_timeout[1]:
        yield _found(subject, at, limit, rules.verifier_timeout)


def _found(
    subject: Subject, at: tuple[str | int, ...], limit: float, bounds: tuple[float, float]
) -> Found:
    message = f"{limit:g} s is not between {bounds[0]:g} and {bounds[1]:g}"
    line = subject.line_of(*at)
    return Found("timeout-range", message, subject.task.config_file, line, field_path(at))


def _house(subject: Subject, rules: HouseRules) -> Iterator[Found]:
    environment = subject.task.config.environment
    path = subject.task.config_file
    if rules.network and environment.network_mode not in rules.network:
        line = subject.line_of("environment", "network_mode")
        message = f"{environment.network_mode} is none of {', '.join(rules.network)}"
        yield Found("network-mode", message, path, line, "environment.network_mode")
    for gpu in environment.gpu_types or ():
        if rules.gpu_types and gpu not in rules.gpu_types:
            line = subject.line_of("environment", "gpu_types")
            message = f"{gpu} is none of {', '.join(rules.gpu_types)}"
            yield Found("gpu-type", message, path, line, "environment.gpu_types")
