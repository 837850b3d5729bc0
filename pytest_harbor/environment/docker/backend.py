"""A trial's request becomes a container: the entry point of this backend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pytest_harbor.environment.base import Environment, EnvironmentRequest
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.container import DockerEnvironment
from pytest_harbor.environment.docker.network import (
    await_run_network,
    begin_run_network,
    remove_network,
    run_network_name,
)
from pytest_harbor.environment.docker.policies import means_for
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.errors import EnvironmentFault
from pytest_harbor.task import layout
from pytest_harbor.task.layout import DOCKERFILE
from pytest_harbor.task.network import NetworkPolicy


@lru_cache(maxsize=1)
def engine_of_run(run_id: str) -> Engine:
    """This process's connection for a run; opening one takes a round trip to the engine.

    Raises:
        EngineUnavailableError: No engine answers.
    """
    return Engine.connect(run_id)


def close_engine(run_id: str) -> None:
    """Close this process's connection for a run, if it has one."""
    if engine_of_run.cache_info().currsize:
        engine_of_run(run_id).close()
        engine_of_run.cache_clear()


def _definition(request: EnvironmentRequest) -> Path | None:
    """The ``Apptainer.def`` that the image is built from; a prebuilt image wins."""
    if request.config.docker_image:
        return None
    return layout.existing_file(request.build_folder, layout.APPTAINER_FILE)


def begin_gateway(
    run_id: str, policies: Sequence[NetworkPolicy], uplink: str | None, image: str | None
) -> bool:
    """Whether a box of these policies has a gateway; if so, one is made while others work.

    Args:
        run_id: The run.
        policies: All that the box is asked for.
        uplink: The user's network to reach the outside through.
        image: A ready image for gateways.

    Raises:
        UnsupportedError: The engine cannot have gateways.
        EngineUnavailableError: No engine answers.
    """
    if means_for(policies) != "gateway":
        return False
    from pytest_harbor.environment.docker.gateway.pool import gateways

    gateways(engine_of_run(run_id), uplink, image).warm()
    return True


def begin_network(run_id: str, policies: Sequence[NetworkPolicy], uplink: str | None) -> bool:
    """Whether a box of these policies is on the run's network; if so, it is made while others work.

    Args:
        run_id: The run.
        policies: All that the box is asked for.
        uplink: The user's network to be used in place of the run's.

    Raises:
        EngineUnavailableError: No engine answers.
    """
    if uplink is not None or means_for(policies) not in ("public", "switched"):
        return False
    begin_run_network(engine_of_run(run_id))
    return True


def end_network(run_id: str, *, remove: bool) -> None:
    """Wait for the network that this process makes, if it does.

    Args:
        run_id: The run.
        remove: Nobody has a use for it.

    Raises:
        EnvironmentFault: The engine stopped answering.
    """
    engine = engine_of_run(run_id)
    await_run_network(engine)
    if remove:
        with engine.errors("removing the run's network", EnvironmentFault):
            remove_network(engine, run_network_name(run_id))


def make_environment(request: EnvironmentRequest) -> Environment:
    """A container for a trial, or the containers of its compose file; not yet started.

    Raises:
        EngineUnavailableError: No engine answers.
    """
    context = request.build_folder if (request.build_folder / DOCKERFILE).is_file() else None
    definition = None if context else _definition(request)
    context = definition.parent if definition else context
    uploads = context is None and request.build_folder.is_dir()
    spec = ContainerSpec(
        name_hint=request.task.short_name,
        context_dir=context,
        definition=definition,
        docker_image=request.config.docker_image,
        env=request.env,
        workdir=request.config.workdir,
        cpus=request.cpus,
        memory_mb=request.memory_mb,
        storage_mb=request.storage_mb,
        gpus=request.config.gpus or 0,
        gpu_types=request.config.gpu_types or (),
        network=request.network,
        uplink=request.uplink,
        gateway_image=request.gateway_image,
        runtime=request.runtime,
        hardened=request.hardened,
        upload_dir=request.build_folder if uploads else None,
        rebuild=request.rebuild,
        layers=request.layers,
        labels={**request.labels, "pytest-harbor.trial": request.trial_name},
        log_path=request.build_log,
        image_work=request.image_work,
    )
    engine = engine_of_run(request.run_id)
    file = layout.find_compose_file(request.build_folder)
    if file is None:
        return DockerEnvironment(spec, engine)
    # Here, since most tasks have no compose file and need none of what it takes.
    from pytest_harbor.environment.docker.compose import ComposeEnvironment, ComposeSource

    source = ComposeSource(
        file=file,
        build_folder=request.build_folder,
        task_folder=request.task.path,
        allow_privileged=request.allow_privileged,
        services_dir=request.services_dir,
        filter_data=request.filter_data,
    )
    return ComposeEnvironment(spec, source, engine)
