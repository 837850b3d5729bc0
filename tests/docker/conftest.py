"""Boxes and images for the tests of the Docker backend."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from docker.errors import APIError
from filelock import FileLock

from pytest_harbor.environment.docker import (
    ContainerSpec,
    DockerEnvironment,
    Engine,
    remove_run,
)
from pytest_harbor.errors import ImageBuildError
from pytest_harbor.task.network import NetworkPolicy

BASE_IMAGE = "debian:bookworm-slim"
CLOSED = (NetworkPolicy("no-network"),)

# The programs named, with the libraries that they need and nothing else.
SCRATCH_WITH = """\
FROM debian:bookworm-slim AS parts
RUN set -e; for file in {programs} $(ldd {programs} | grep -o '/[^ ]*' | grep -v ':$'); do \\
      mkdir -p "/out$(dirname "$file")"; cp -L "$file" "/out$file"; done; mkdir -p /out/tmp
FROM scratch
COPY --from=parts /out/ /
"""

BUSYBOX = """\
FROM debian:bookworm-slim AS parts
RUN apt-get update && apt-get install -y --no-install-recommends busybox-static
RUN mkdir -p /out/bin /out/tmp && cp /bin/busybox /out/bin/ && \\
    for name in sh ls cat echo sleep id env mkdir; do ln -s busybox "/out/bin/$name"; done
FROM scratch
COPY --from=parts /out/ /
"""

MakeBox = Callable[..., DockerEnvironment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and "engine" in item.fixturenames:
            item.add_marker(pytest.mark.docker)


@pytest.fixture(scope="session")
def engine(engine: Engine) -> Iterator[Engine]:
    """The engine, rid of everything of this run at the end; images for all runs stay."""
    yield engine
    remove_run(engine, engine.run_id, kept=True)
    for image in engine.api.images(filters={"label": "pytest-harbor.test-only"}):
        with suppress(APIError):  # another process of the suite removes it, or still uses it
            engine.api.remove_image(image["Id"], force=True)


@contextmanager
def _box(engine: Engine, **spec: object) -> Iterator[DockerEnvironment]:
    values: dict[str, object] = {
        "name_hint": "box",
        "network": CLOSED,
        **spec,
    }
    if "context_dir" not in values:
        values.setdefault("docker_image", BASE_IMAGE)
    environment = DockerEnvironment(ContainerSpec(**values), engine)  # type: ignore[arg-type]
    try:
        yield environment
    finally:
        environment.stop()


@pytest.fixture
def make_box(engine: Engine) -> Iterator[MakeBox]:
    """Makes boxes that are not started; removes them at the test's end."""
    with ExitStack() as stack:
        yield lambda **spec: stack.enter_context(_box(engine, **spec))


@pytest.fixture(scope="module")
def box(engine: Engine) -> Iterator[DockerEnvironment]:
    """A started box that the tests of a module share."""
    with _box(engine) as environment:
        environment.start()
        yield environment


@pytest.fixture
def make_context(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a folder with a Dockerfile."""

    def write(dockerfile: str, name: str = "context") -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "Dockerfile").write_text(dockerfile)
        return folder

    return write


@pytest.fixture
def bash_only_box(make_box: MakeBox, make_context: Callable[[str], Path]) -> DockerEnvironment:
    context = make_context(SCRATCH_WITH.format(programs="/bin/bash /bin/ls"))
    box = make_box(context_dir=context, name_hint="bash-only")
    box.start()
    return box


@pytest.fixture
def sh_only_box(make_box: MakeBox, make_context: Callable[[str], Path]) -> DockerEnvironment:
    """Neither bash nor sleep."""
    context = make_context(SCRATCH_WITH.format(programs="/bin/sh /bin/ls"))
    box = make_box(context_dir=context, name_hint="sh-only")
    box.start()
    return box


@pytest.fixture
def busybox_box(make_box: MakeBox, make_context: Callable[[str], Path]) -> DockerEnvironment:
    box = make_box(context_dir=make_context(BUSYBOX), name_hint="busybox")
    try:
        box.start()
    except ImageBuildError as error:
        if os.environ.get("PYTEST_HARBOR_REQUIRE_DOCKER") == "1":
            raise
        pytest.skip(f"busybox cannot be installed here: {error}")
    return box


@pytest.fixture(scope="module")
def one_at_a_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """For a module whose networks have fixed addresses: one worker after the other has them."""
    name = f"pytest-harbor-tests-{request.path.stem}.lock"
    with FileLock(Path(tempfile.gettempdir()) / name):
        yield
