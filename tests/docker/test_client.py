"""Finding the engine, and what is said where there is none."""

import json
from pathlib import Path

import pytest
from docker.context.config import get_context_id

from pytest_harbor.environment.docker import Engine
from pytest_harbor.environment.docker.client import find_endpoint
from pytest_harbor.errors import EngineUnavailableError


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))


def write_context(folder: Path, name: str, host: str) -> None:
    place = folder / "docker" / "contexts" / "meta" / get_context_id(name)
    place.mkdir(parents=True)
    meta = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host}}}
    (place / "meta.json").write_text(json.dumps(meta))
    (folder / "docker" / "config.json").write_text(json.dumps({"currentContext": name}))


def test_the_default_is_the_usual_socket():
    endpoint = find_endpoint()
    assert endpoint.address == "unix:///var/run/docker.sock"
    assert endpoint.cli_environment() == {}


def test_docker_host_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    write_context(tmp_path, "mine", "unix:///nowhere/context.sock")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/host.sock")
    assert find_endpoint().address == "unix:///nowhere/host.sock"


def test_then_the_current_context(tmp_path: Path):
    write_context(tmp_path, "mine", "unix:///nowhere/context.sock")
    endpoint = find_endpoint()
    assert endpoint.address == "unix:///nowhere/context.sock"
    assert endpoint.cli_environment() == {"DOCKER_CONTEXT": "mine"}


def test_a_context_that_is_not_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCKER_CONTEXT", "gone")
    with pytest.raises(EngineUnavailableError, match="'gone'"):
        find_endpoint()


@pytest.mark.parametrize(
    "host", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:1", "nonsense://x", "ssh://"]
)
def test_no_engine_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, host: str):
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(EngineUnavailableError) as caught:
        Engine.connect()
    message = str(caught.value)
    assert f"no container engine answers at {host} (from DOCKER_HOST)" in message
    assert "Start Docker" in message
    assert "\n" not in message


def test_runs_have_ids_of_their_own(engine: Engine):
    other = Engine.connect()
    same = Engine.connect(engine.run_id)
    try:
        assert other.run_id != engine.run_id == same.run_id
        assert same.labels({"a": "b", "pytest-harbor.run": "forged"})["pytest-harbor.run"] == (
            engine.run_id
        )
    finally:
        other.close()
        same.close()
