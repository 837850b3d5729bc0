"""The image that gateways run in: tools only, built here, or a ready one."""

from __future__ import annotations

from pathlib import Path

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.image import ensure_image, ensure_pulled
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.errors import ImageError

TOOLS = "dnsmasq, haproxy (2.6 or newer), nft, ip, conntrack and python3"

_CONTEXT = Path(__file__).parent / "image_context"


def ensure_gateway_image(engine: Engine, deadline: Deadline, image: str | None = None) -> str:
    """The id of an image with the gateway's tools; built where the engine lacks it.

    Args:
        engine: Where it is wanted.
        deadline: For a build or a pull.
        image: A ready image to use instead.

    Raises:
        ImageError: It cannot be had; says what would help.
    """
    try:
        if image:
            return ensure_pulled(engine, image, deadline).id
        spec = ContainerSpec(name_hint="gateway", context_dir=_CONTEXT)
        return ensure_image(engine, spec, deadline).id
    except ImageError as error:
        raise type(error)(
            "a restricted network needs the gateway's image, which is built once and needs "
            "the base image debian:bookworm-slim and Debian's package servers for that; where "
            f"they are out of reach, name a ready image that has {TOOLS} with "
            f"--harbor-gateway-image. {error}"
        ) from error
