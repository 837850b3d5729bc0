"""Boxes as a trial has them, made by the package's own interface."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_harbor.environment.base import Environment, EnvironmentRequest
from pytest_harbor.environment.docker.backend import make_environment
from pytest_harbor.task.network import NetworkPolicy
from pytest_harbor.task.reader import read_task

from .lab import INSIDE, Lab

START_SEC = 120.0
PROBE_SEC = 90.0
COMPOSE = """\
services:
  main:
    image: {image}
    command: [sleep, infinity]
  side:
    image: {image}
    command: [sleep, infinity]
"""


def write_task(folder: Path, image: str, *, compose: bool) -> Path:
    """A task whose image has the probe's programs."""
    (folder / "environment").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "task.toml").write_text(f'[environment]\ndocker_image = "{image}"\n')
    (folder / "instruction.md").write_text("Get out.\n")
    (folder / "tests/test.sh").write_text("#!/bin/bash\n")
    if compose:
        (folder / "environment/docker-compose.yaml").write_text(COMPOSE.format(image=image))
    return folder


@contextmanager
def trial_box(
    lab: Lab,
    run_id: str,
    folder: Path,
    policies: tuple[NetworkPolicy, ...],
    *,
    compose: bool = False,
) -> Iterator[Environment]:
    """A started environment; its first policy holds."""
    task = read_task(write_task(folder, lab.image, compose=compose))
    request = EnvironmentRequest(
        task=task,
        config=task.config.environment,
        build_folder=folder / "environment",
        trial_name=folder.name,
        run_id=run_id,
        env={},
        network=policies,
        uplink=lab.outside,
        services_dir=folder,
    )
    environment = make_environment(request)
    try:
        environment.start(timeout_sec=START_SEC)
        yield environment
    finally:
        environment.stop()


def serve(box: Environment) -> None:
    """Start the servers of a neighbour in a box; :func:`served` tells who came."""
    box.write("/servers.py", (INSIDE / "servers.py").read_bytes())
    box.exec(
        "setsid python3 -u /servers.py neighbour >/tmp/served 2>/tmp/served.err &", user="root"
    )
    ready = box.exec(
        "for i in $(seq 100); do grep -q ready /tmp/served && exit; sleep 0.05; done; exit 1"
    )
    assert ready.exit_code == 0, box.exec("cat /tmp/served /tmp/served.err").output


def served(box: Environment) -> str:
    """Log of the servers of :func:`serve`."""
    return box.read("/tmp/served", max_bytes=10**7).decode()


def probe(box: Environment, table: Mapping[str, Any], mode: str = "run") -> dict[str, str]:
    """Run the probe as root."""
    box.write("/tmp/probe.py", (INSIDE / "probe.py").read_bytes())
    box.write("/tmp/table.json", json.dumps(table))
    done = box.exec(
        ["sh", "-c", f"python3 /tmp/probe.py {mode} /tmp/table.json >/tmp/said.json"],
        user="root",
        timeout_sec=PROBE_SEC,
    )
    assert done.exit_code == 0, done.output
    return dict(json.loads(box.read("/tmp/said.json", max_bytes=10**7)))
