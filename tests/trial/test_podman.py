"""Whole trials on Podman, where ``PYTEST_HARBOR_PODMAN_SOCKET`` names its service."""

import os

import pytest

SOCKET = os.environ.get("PYTEST_HARBOR_PODMAN_SOCKET", "")

pytestmark = pytest.mark.skipif(not SOCKET, reason="PYTEST_HARBOR_PODMAN_SOCKET names no service")


@pytest.fixture(autouse=True)
def _on_podman(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", SOCKET)


def test_a_trial_on_podman(make_task, run_tasks):
    make_task(toml="cpus = 1\nmemory_mb = 256\n")
    for agent, outcome in {"oracle": {"passed": 1}, "nop": {"failed": 1}}.items():
        run_tasks("tasks", f"--harbor-agent={agent}").run.assert_outcomes(**outcome)


def test_steps_and_a_separate_verifier_on_podman(make_task, run_tasks):
    folder = make_task(
        toml="=artifacts = ['/app']\nversion = '1.0'\n[[steps]]\nname = 'one'\n"
        "[[steps]]\nname = 'two'\n[steps.verifier]\nenvironment_mode = 'separate'\n",
        remove=("instruction.md",),
        solve="#!/bin/bash\necho x >> /app/count\n",
        test="#!/bin/bash\nwc -l < /app/count\nls -d /solution 2>/dev/null\n"
        "echo 1 > /logs/verifier/reward.txt\n",
    )
    for name in ("one", "two"):
        make_task.write(folder, f"steps/{name}/instruction.md", "Count.\n")
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    outputs = [
        (ran.folder() / "steps" / name / "verifier" / "test-stdout.txt").read_text().split()
        for name in ("one", "two")
    ]
    assert outputs == [["1", "/solution"], ["2"]]


def test_boxes_on_podman_cannot_reach_each_other_and_leave_nothing(run_tasks):
    from pytest_harbor.environment.docker import ContainerSpec, DockerEnvironment, Engine
    from pytest_harbor.environment.docker.network import run_network_name

    engine = Engine.connect()
    boxes = [
        DockerEnvironment(ContainerSpec(name, docker_image="debian:bookworm-slim"), engine)
        for name in ("one", "two")
    ]
    try:
        for box in boxes:
            box.start()
        server = "use IO::Socket::INET; $s = IO::Socket::INET->new(LocalPort => 8099, Listen => 5);"
        server += "while ($c = $s->accept) { print $c 'hi'; close $c }"
        boxes[0].exec(f'setsid perl -e "{server}" >/dev/null 2>&1 &'.replace("$", "\\$"))
        networks = engine.api.inspect_container(boxes[0].name)["NetworkSettings"]["Networks"]
        (address,) = (network["IPAddress"] for network in networks.values())
        fetch = "for i in 1 2 3 4 5; do timeout 3 cat </dev/tcp/{}/8099 && break; sleep 0.2; done"
        assert boxes[0].exec(fetch.format("127.0.0.1")).stdout == "hi"
        assert boxes[1].exec(fetch.format(address).replace("1 2 3 4 5", "1")).stdout == ""
    finally:
        for box in boxes:
            box.stop()
        left = engine.api.networks(filters={"name": run_network_name(engine.run_id)})
        engine.close()
    assert left == []
