"""Tools on top of a task's image: installed once per image, used by every trial after that.

A layer's script runs in a build, with the network of builds and outside of any policy. The
image that comes of it is named by its content: the image below, the script and the layer's
key. Workers that want the same one wait for whoever builds it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_harbor.environment.base import ImageLayer
from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.build import BuildRequest, build_image
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.image import CONTENT_LABEL, Image, find_image
from pytest_harbor.environment.docker.locks import locked
from pytest_harbor.environment.docker.naming import slug
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.errors import (
    AgentSetupError,
    AgentSetupTimeoutError,
    EnvironmentStartTimeoutError,
    ImageBuildError,
)

CONTEXT = "/tmp/pytest-harbor-install"
"""Where a build has the script, and the certificates; gone when it ends."""

_FORM = "1"
_HASH_LENGTH = 20
# What names a file of certificates on a machine whose network has an authority of its own.
_CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")


def with_layers(engine: Engine, image: Image, spec: ContainerSpec) -> Image:
    """The image with the spec's layers on it, built where the engine lacks it.

    Raises:
        AgentSetupError: A layer's script failed; ends with the log's last lines.
        AgentSetupTimeoutError: It took longer than the layer may take.
    """
    for layer in spec.layers:
        image = _with_layer(engine, image, layer, spec)
    return image


def _with_layer(engine: Engine, image: Image, layer: ImageLayer, spec: ContainerSpec) -> Image:
    digest = layer_digest(image.id, layer)
    tag = f"pytest-harbor/{slug(layer.name)}:{digest}"
    if found := find_image(engine, tag):
        return found
    deadline = Deadline(layer.timeout_sec)
    try:
        with spec.image_work.waiting(layer.name), locked(f"build-{tag}", deadline):
            # Whoever held the lock before has built it.
            if found := find_image(engine, tag):
                return found
            with spec.image_work.doing("install", layer.name):
                _build(engine, image, layer, tag, digest, spec.log_path, deadline)
    except EnvironmentStartTimeoutError as error:
        raise AgentSetupTimeoutError(
            f"{layer.name} was not installed within {layer.timeout_sec:g} s; raise "
            f"--harbor-setup-timeout-multiplier\n{_after_first_line(error)}"
        ) from error
    except ImageBuildError as error:
        raise AgentSetupError(f"{layer.name} cannot be installed: {error}") from error
    if found := find_image(engine, tag):
        return found
    raise AgentSetupError(f"{layer.name} was installed, and its image is not there")


def layer_digest(image_id: str, layer: ImageLayer) -> str:
    """Digest of all that can make a difference to what a layer becomes."""
    parts = [_FORM, image_id, layer.name, layer.key, layer.script, layer.folder]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_HASH_LENGTH]


def _build(
    engine: Engine,
    image: Image,
    layer: ImageLayer,
    tag: str,
    digest: str,
    log: Path | None,
    deadline: Deadline,
) -> None:
    with _context(image, layer) as folder:
        labels = {**engine.labels(), CONTENT_LABEL: digest}
        place = log.with_name(f"install-{slug(layer.name)}.log") if log else None
        source = Path(f"install of {layer.name}")
        build_image(engine, BuildRequest(folder, tag, labels, place, False, source), deadline)


@contextmanager
def _context(image: Image, layer: ImageLayer) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pytest-harbor-") as name:
        folder = Path(name)
        (folder / "install.sh").write_text(layer.script, encoding="utf-8")
        certificates = _certificates()
        if certificates is not None:
            shutil.copyfile(certificates, folder / "certificates.pem")
        text = dockerfile(image, layer, with_certificates=certificates is not None)
        (folder / "Dockerfile").write_text(text, encoding="utf-8")
        yield folder


def dockerfile(image: Image, layer: ImageLayer, *, with_certificates: bool = False) -> str:
    """The Dockerfile of a layer.

    Where a layer says which folder its tool is in, only that gets into the image: whatever
    else the script needed, as a compiler, is no part of the agent's environment.
    """
    run = _run_line(with_certificates=with_certificates)
    first = ["USER root", f"COPY . {CONTEXT}", run]
    if layer.folder:
        lines = [f"FROM {image.reference} AS installer", *first, f"FROM {image.reference}"]
        lines.append(f"COPY --from=installer {layer.folder} {layer.folder}")
    else:
        lines = [f"FROM {image.reference}", *first, f"USER {image.user}"]
    return "\n".join(lines) + "\n"


def _run_line(*, with_certificates: bool) -> str:
    file = f"{CONTEXT}/certificates.pem"
    settings = [f"{name}={file}" for name in _CERTIFICATES] if with_certificates else []
    # Through env, and not the image's own variables: nothing of it is to stay in the image.
    command = f"env {' '.join(settings)} /bin/sh {CONTEXT}/install.sh && rm -rf {CONTEXT}"
    return f"RUN {json.dumps(['/bin/sh', '-c', command])}"


def _certificates() -> Path | None:
    """The file of certificates that this machine's own clients are told to use."""
    named = (Path(os.environ[name]) for name in _CERTIFICATES if os.environ.get(name))
    return next((path for path in named if path.is_file()), None)


def _after_first_line(error: Exception) -> str:
    return str(error).partition("\n")[2]
