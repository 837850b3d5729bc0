"""Answers of this plugin to its own hooks; tried last, so that anybody may answer first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin.option_table import COMMAND_AGENT
from pytest_harbor.plugin.options import settings

if TYPE_CHECKING:
    from pytest_harbor.agent.base import Agent
    from pytest_harbor.environment.base import Environment, EnvironmentRequest
    from pytest_harbor.task.reader import Task
    from pytest_harbor.verifier.base import Verifier


@pytest.hookimpl(trylast=True)
def pytest_harbor_agent(
    config: pytest.Config, name: str, model: str | None, kwargs: Mapping[str, Any]
) -> Agent:
    """An agent by name or import path."""
    if name == COMMAND_AGENT:
        from pytest_harbor.agent.command import CommandAgent

        return CommandAgent(model_name=model, **kwargs)
    from pytest_harbor.registry import make_agent

    return make_agent(name, model=model, kwargs=kwargs, import_root=config.invocation_params.dir)


@pytest.hookimpl(trylast=True)
def pytest_harbor_make_environment(request: EnvironmentRequest) -> Environment:
    """A container on the engine at hand."""
    from pytest_harbor.registry import find_backend

    environment: Environment = find_backend("docker")(request)
    return environment


def check_verifier(config: pytest.Config) -> None:
    """See that the verifier that the run names can be had, before any agent works for it.

    Raises:
        pytest.UsageError: It cannot.
    """
    from pytest_harbor.errors import OptionError

    wanted = settings(config).benchmark
    if wanted.verifier and not hasattr(config, "workerinput"):
        from pytest_harbor.registry import make_verifier

        root = config.invocation_params.dir
        try:
            make_verifier(wanted.verifier, kwargs=wanted.verifier_kwargs, import_root=root)
        except OptionError as error:
            raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(trylast=True)
def pytest_harbor_make_verifier(config: pytest.Config, task: Task) -> Verifier:
    """The verifier that the run names, else the task's own test script."""
    wanted = settings(config).benchmark
    if wanted.verifier:
        from pytest_harbor.registry import make_verifier

        return make_verifier(
            wanted.verifier,
            kwargs=wanted.verifier_kwargs,
            import_root=config.invocation_params.dir,
        )
    from pytest_harbor.verifier.script import ScriptVerifier

    return ScriptVerifier()
