"""What a dead run left is removed; what anybody still needs is not."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pytest_harbor.environment.docker import (
    ContainerSpec,
    DockerEnvironment,
    Engine,
    remove_owner,
    remove_run,
    sweep_dead,
)
from pytest_harbor.environment.docker.client import OWNER_LABEL
from pytest_harbor.environment.docker.naming import guard_name
from pytest_harbor.environment.docker.owner import Owner
from pytest_harbor.task.network import NetworkPolicy

BASE_IMAGE = "debian:bookworm-slim"
CLOSED = (NetworkPolicy("no-network"),)

LEAVE = """
import os
from pytest_harbor.environment.docker import ContainerSpec, DockerEnvironment, Engine
spec = ContainerSpec("left", docker_image="debian:bookworm-slim")
box = DockerEnvironment(spec, Engine.connect())
box.start()
print(box.name, box._engine.run_id, flush=True)
os._exit(0)
"""


@pytest.fixture
def own_engine() -> Iterator[Engine]:
    """A run of its own."""
    own = Engine.connect()
    yield own
    remove_run(own, own.run_id, kept=True)
    own.close()


LIVE = """
from pytest_harbor.environment.docker.naming import guard_name
from pytest_harbor.environment.docker.owner import Owner
print(Owner.current().label(), flush=True)
input()
"""


class Mortal:
    """Another process. Who dies before a box is made may lose it at once: any run sweeps."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", LIVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        owner = Owner.parse(self.process.stdout.readline())
        assert owner
        self.owner = owner

    def die(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def mortal() -> Iterator[Mortal]:
    mortal = Mortal()
    yield mortal
    mortal.die()
    mortal.process.communicate()


Leave = Callable[[Owner], DockerEnvironment]


@pytest.fixture
def leave(own_engine: Engine) -> Leave:
    """Starts a box as if another process had."""

    def start(owner: Owner) -> DockerEnvironment:
        own_engine.owner = owner
        spec = ContainerSpec(
            "owned", docker_image=BASE_IMAGE, network=(NetworkPolicy("no-network"),)
        )
        box = DockerEnvironment(spec, own_engine)
        box.start()
        return box

    return start


def names(engine: Engine) -> set[str]:
    found = engine.api.containers(all=True, filters={"label": "pytest-harbor=1"})
    return {each["Names"][0].lstrip("/") for each in found}


def test_what_a_process_left_that_ended_without_a_word_is_swept(engine: Engine):
    child = subprocess.run([sys.executable, "-c", LEAVE], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    box, run = child.stdout.split()
    # Whose sweep takes it is open: another run of the suite may have begun meanwhile.
    sweep_dead(engine)
    assert box not in names(engine)
    assert f"pytest-harbor-{run}" not in {each["Name"] for each in engine.api.networks()}


def test_living_and_foreign_things_stay(engine: Engine, leave: Leave, mortal: Mortal):
    its = mortal.owner
    stay = [
        leave(Owner.current()),
        leave(replace(its, host="another")),
        leave(replace(its, pid_namespace="4026530000")),
        leave(replace(its, host="another", boot="another")),
    ]
    go = leave(its)
    mortal.die()
    sweep_dead(engine)
    left = names(engine)
    assert {box.name for box in stay} <= left
    assert go.name not in left


@pytest.mark.parametrize("change", [{"boot": "earlier"}, {"started": "1"}])
def test_who_had_this_process_id_before_is_dead(change: dict[str, str]):
    assert replace(Owner.current(), **change).is_dead()


def test_unreadable_owners_are_nobodys_business(mortal: Mortal):
    for text in ("", "{}", "[]", "nonsense", json.dumps({"pid": 1})):
        assert Owner.parse(text) is None
    assert Owner.parse(mortal.owner.label()) == mortal.owner
    assert OWNER_LABEL.startswith("pytest-harbor")


def test_kept_containers_stay_until_they_are_asked_for(
    engine: Engine, own_engine: Engine, leave: Leave, mortal: Mortal
):
    box = leave(mortal.owner)
    box.keep()
    mortal.die()
    sweep_dead(engine)
    assert not remove_run(own_engine, own_engine.run_id).containers
    assert box.name in names(engine)
    assert remove_run(own_engine, own_engine.run_id, kept=True).containers == (box.name,)
    assert box.name not in names(engine)


def test_a_network_stays_while_a_kept_container_is_on_it(engine: Engine, own_engine: Engine):
    spec = ContainerSpec("kept", docker_image=BASE_IMAGE)
    box = DockerEnvironment(spec, own_engine)
    box.start()
    box.keep()
    assert not remove_run(own_engine, own_engine.run_id).networks
    engine.api.kill(box.name)
    assert not remove_run(own_engine, own_engine.run_id).networks
    engine.api.start(box.name)
    assert remove_run(own_engine, own_engine.run_id, kept=True).networks


def test_a_crashed_workers_containers_are_removed_and_the_others_stay(
    engine: Engine, own_engine: Engine, leave: Leave, mortal: Mortal
):
    mine, its = leave(Owner.current()), leave(mortal.owner)
    assert remove_owner(own_engine, mortal.owner.pid).containers == (its.name,)
    assert mine.name in names(engine)


def test_a_run_is_removed_whole_and_no_other(
    engine: Engine, own_engine: Engine, leave: Leave, make_box: Callable[..., DockerEnvironment]
):
    mine, other = leave(Owner.current()), make_box()
    other.start()
    volume = own_engine.api.create_volume(labels=own_engine.labels())["Name"]
    removed = remove_run(own_engine, own_engine.run_id)
    assert removed.containers == (mine.name,)
    assert removed.volumes == (volume,)
    assert other.name in names(engine)
    assert not remove_run(own_engine, own_engine.run_id)


def test_a_host_guard_goes_after_the_boxes_that_it_guards(engine: Engine, own_engine: Engine):
    guard, box = guard_name(f"pytest-harbor-{own_engine.run_id}", "abc"), f"{own_engine.run_id}-box"
    for name in (box, guard):  # the engine lists the newest first
        config = {"Image": BASE_IMAGE, "Labels": own_engine.labels()}
        own_engine.api.create_from(config, name)
    assert remove_run(engine, own_engine.run_id).containers == (box, guard)


def test_sweeps_at_the_same_time_do_not_disturb_each_other(
    leave: Leave, mortal: Mortal, engine: Engine
):
    boxes = {leave(mortal.owner).name for _ in range(3)}
    mortal.die()

    def sweep(_: int) -> None:
        own = Engine.connect()
        try:
            sweep_dead(own)
        finally:
            own.close()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(sweep, range(3)))
    assert not boxes & names(engine)


def test_this_process_is_alive_and_a_zombie_is_not(mortal: Mortal):
    assert not Owner.current().is_dead()
    assert not mortal.owner.is_dead()
    mortal.process.kill()
    os.waitid(os.P_PID, mortal.process.pid, os.WEXITED | os.WNOWAIT)
    assert mortal.owner.is_dead()
    mortal.die()
    assert mortal.owner.is_dead()
