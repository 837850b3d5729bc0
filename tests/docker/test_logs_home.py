"""What comes home from a box is that box's alone."""

import pytest

from pytest_harbor.environment.docker import ContainerSpec, DockerEnvironment
from pytest_harbor.environment.logs import bring_logs_home
from pytest_harbor.task.network import NetworkPolicy

pytestmark = pytest.mark.docker

CLOSED = (NetworkPolicy("no-network"),)


def test_what_another_box_left_half_way_is_not_taken(engine, tmp_path):
    box = DockerEnvironment(
        ContainerSpec("logs", docker_image="debian:bookworm-slim", network=CLOSED),
        engine,
    )
    landing, home = tmp_path / ".logs", tmp_path / "verifier"
    (landing / "verifier").mkdir(parents=True)
    (landing / "verifier" / "reward.json").write_text('{"reward": 1}')
    try:
        box.start()
        box.exec("echo 0 > /logs/verifier/reward.txt")
        bring_logs_home(box, {"verifier": home}, landing, lambda file: file)
    finally:
        box.stop()
    assert [path.name for path in home.iterdir()] == ["reward.txt"]
    assert not landing.exists()
