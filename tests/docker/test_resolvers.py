"""The name servers of the engine: no image chooses those of other trials."""

import io
import tarfile

import pytest

from pytest_harbor.environment.docker import Engine
from pytest_harbor.environment.docker.resolvers import engine_resolvers

from .conftest import BASE_IMAGE

FORGED = """\
FROM {base}
LABEL pytest-harbor.test-only=1
RUN printf '#!/bin/bash\\necho nameserver 192.0.2.66 >/etc/resolv.conf\\nread -r _\\n' > /forged
RUN chmod 4755 /forged && mv /forged /bin/sh
{more}
"""


def built(engine: Engine, more: str) -> str:
    text = FORGED.format(base=BASE_IMAGE, more=more).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    tag = f"pytest-harbor-test-forged-{len(more)}"
    list(
        engine.api.build(
            fileobj=io.BytesIO(packed.getvalue()), custom_context=True, tag=tag, rm=True
        )
    )
    return tag


@pytest.fixture(autouse=True)
def _not_asked_yet(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.cache, "resolvers", None)


def test_a_program_of_the_image_does_not_write_the_answer(engine: Engine) -> None:
    assert "192.0.2.66" not in engine_resolvers(engine, built(engine, ""))


def test_an_image_with_volumes_answers_for_itself_only(engine: Engine) -> None:
    engine_resolvers(engine, built(engine, "VOLUME /data"))
    assert engine.cache.resolvers is None
