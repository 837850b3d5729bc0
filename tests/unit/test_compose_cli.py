"""What becomes of a machine without compose v2."""

from pathlib import Path

import pytest

from pytest_harbor.environment.docker.compose_cli import require_compose
from pytest_harbor.errors import UnsupportedError


def docker_that(folder: Path, script: str) -> None:
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (None, "no docker command"),
        ("echo unknown command: compose >&2; exit 1", "no compose v2"),
        ("echo 1.29.2", "is 1.29.2, not 2 or later"),
        ("exit 0", "no compose v2"),
    ],
)
def test_without_compose_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, words: str
) -> None:
    if script is not None:
        docker_that(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match=words) as raised:
        require_compose()
    assert "docker-compose-plugin" in str(raised.value)


@pytest.mark.parametrize("version", ["2.26.1-4", "v2.40.0", "5.0.1"])
def test_compose_2_and_later_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    docker_that(tmp_path, f"echo {version}")
    monkeypatch.setenv("PATH", str(tmp_path))
    require_compose()
