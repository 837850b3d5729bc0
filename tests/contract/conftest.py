"""The backends that the contract is held against; a new one adds itself here."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.environment.base import Environment
from pytest_harbor.task.network import NetworkPolicy

BASE_IMAGE = "debian:bookworm-slim"


def make_docker(engine: Any) -> Environment:
    from pytest_harbor.environment.docker import ContainerSpec, DockerEnvironment

    spec = ContainerSpec(
        name_hint="contract",
        docker_image=BASE_IMAGE,
        network=(NetworkPolicy("no-network"),),
        env={"FROM_SPEC": "1"},
        workdir="/work dir",
    )
    return DockerEnvironment(spec, engine)


def make_compose(engine: Any) -> Environment:
    from pytest_harbor.environment.docker import ContainerSpec
    from pytest_harbor.environment.docker.compose import ComposeEnvironment, ComposeSource

    folder = Path(__file__).parent / "compose"
    file = folder / "docker-compose.yaml"
    spec = ContainerSpec(
        name_hint="contract",
        docker_image=BASE_IMAGE,
        network=(NetworkPolicy("no-network"),),
        env={"FROM_SPEC": "1"},
        workdir="/work dir",
    )
    return ComposeEnvironment(spec, ComposeSource(file, folder, folder), engine)


BACKENDS = {"compose": make_compose, "docker": make_docker}

PODMAN_SOCKET = os.environ.get("PYTEST_HARBOR_PODMAN_SOCKET", "")
if PODMAN_SOCKET:
    BACKENDS |= {"podman": make_docker, "podman-compose": make_compose}


@contextmanager
def podman_engine() -> Iterator[Any]:
    """A connection to Podman's service; the docker CLI goes there, too, while it lasts."""
    from pytest_harbor.environment.docker import Engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", PODMAN_SOCKET)
        connected = Engine.connect()
        assert connected.is_podman
        yield connected
        connected.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "[docker" in item.nodeid or "[compose" in item.nodeid:
            item.add_marker(pytest.mark.docker)


@pytest.fixture(scope="module", params=sorted(BACKENDS))
def make_environment(request: pytest.FixtureRequest) -> Iterator[Callable[[], Environment]]:
    if not request.param.startswith("podman"):
        engine = request.getfixturevalue("engine")
        yield lambda: BACKENDS[request.param](engine)
        return
    with podman_engine() as engine:
        yield lambda: BACKENDS[request.param](engine)


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[], Environment]) -> Iterator[Environment]:
    """One started environment for all: no test takes it away from the others."""
    made = make_environment()
    try:
        made.start(timeout_sec=300)
        yield made
    finally:
        made.stop()


_numbers = itertools.count()


@pytest.fixture
def folder(environment: Environment) -> str:
    """A path in the environment that no other test uses; not made yet."""
    return f"/contract/{next(_numbers)}"
