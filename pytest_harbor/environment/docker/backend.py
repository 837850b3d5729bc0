"""A trial's request becomes a container: the entry point of this backend."""

from __future__ import annotations

from functools import lru_cache

from pytest_harbor.environment.base import EnvironmentRequest
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.container import DockerEnvironment
from pytest_harbor.environment.docker.spec import ContainerSpec


@lru_cache(maxsize=1)
def engine_of_run(run_id: str) -> Engine:
    """This process's connection for a run; opening one takes a round trip to the engine.

    Raises:
        EngineUnavailableError: No engine answers.
    """
    return Engine.connect(run_id)


def make_environment(request: EnvironmentRequest) -> DockerEnvironment:
    """A container for a trial, not yet started.

    Raises:
        EngineUnavailableError: No engine answers.
    """
    task = request.task
    has_dockerfile, environment = task.has_dockerfile, task.config.environment
    uploads = not has_dockerfile and task.environment_dir.is_dir()
    spec = ContainerSpec(
        name_hint=task.short_name,
        context_dir=task.environment_dir if has_dockerfile else None,
        docker_image=environment.docker_image,
        env=request.env,
        workdir=environment.workdir,
        cpus=request.cpus,
        memory_mb=request.memory_mb,
        storage_mb=request.storage_mb,
        gpus=environment.gpus or 0,
        network=request.network,
        upload_dir=task.environment_dir if uploads else None,
        rebuild=request.rebuild,
        labels={**request.labels, "pytest-harbor.trial": request.trial_name},
        log_path=request.build_log,
    )
    return DockerEnvironment(spec, engine_of_run(request.run_id))
