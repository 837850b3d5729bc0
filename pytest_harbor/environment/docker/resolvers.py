"""The name servers that a container of this engine asks where nothing else is said.

A container that names its servers has them asked from within its own network; of the
engine's own choice that is not so everywhere: a name would leave from the engine's machine
for a container that is on no network.
"""

from __future__ import annotations

import ipaddress
import secrets
import tarfile
from collections.abc import Iterator
from io import BytesIO

from docker.errors import APIError

from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.errors import EnvironmentStartError

_WAIT = "read -r _"


def engine_resolvers(engine: Engine, image: str) -> tuple[str, ...]:
    """Addresses of the name servers, as a container that lives a moment has them.

    Args:
        engine: Asked once; the answer is kept.
        image: One that is there, with ``sh`` or ``bash``.

    Raises:
        EnvironmentStartError: No container of the image starts, or it has no such server.
    """
    if engine.cache.resolvers is not None:
        return engine.cache.resolvers
    text, is_engines = _resolv_conf(engine, image)
    servers = tuple(_servers(text))
    if not servers:
        raise EnvironmentStartError(
            "the engine gives its containers no name server of IPv4 that they could ask "
            'themselves; name one in its daemon.json under "dns"'
        )
    if is_engines:
        engine.cache.resolvers = servers
    return servers


def _resolv_conf(engine: Engine, image: str) -> tuple[str, bool]:
    """The file, and whether it is the engine's for certain, not one of the image's choice."""
    known = engine.cache.shells.get(image)
    doing = "asking for the engine's name servers"
    with engine.errors(doing, EnvironmentStartError, EnvironmentStartError):
        try:
            return _seen_by_container(engine, image, known or "sh")
        except APIError:
            if known:
                raise
        return _seen_by_container(engine, image, "bash")


def _seen_by_container(engine: Engine, image: str, shell: str) -> tuple[str, bool]:
    name = f"pytest-harbor-names-{secrets.token_hex(6)}"
    config = {
        "Image": image,
        "Entrypoint": [shell, "-c", _WAIT],
        "OpenStdin": True,
        "Labels": engine.labels(),
        # The image's own program runs: it must not write what other trials will believe.
        "User": "65534",
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
        },
    }
    engine.api.create_from(config, name)
    try:
        engine.api.start(name)
        chunks, _ = engine.api.get_archive(name, "/etc/resolv.conf")
        packed = BytesIO(b"".join(chunks))
        # A volume of the image may lie over the engine's file.
        has_volumes = bool(engine.api.inspect_container(name)["Config"].get("Volumes"))
    finally:
        engine.api.remove_container(name, force=True, v=True)
    with tarfile.open(fileobj=packed) as archive:
        member = archive.getmembers()[0]
        file = archive.extractfile(member) if member.isfile() else None
        return file.read().decode(errors="replace") if file else "", not has_volumes


def _servers(resolv_conf: str) -> Iterator[str]:
    """Those that mean the same in another network namespace."""
    for line in resolv_conf.splitlines():
        words = line.split()
        if words[:1] != ["nameserver"] or len(words) < 2:
            continue
        try:
            address = ipaddress.IPv4Address(words[1])
        except ValueError:
            continue
        if not address.is_loopback:
            yield words[1]
