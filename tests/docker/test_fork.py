"""A second box of a box's files."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_harbor.environment.docker import ContainerSpec, DockerEnvironment, Engine, sweep_dead
from pytest_harbor.environment.docker.client import FORK_LABEL
from pytest_harbor.environment.docker.owner import Owner
from pytest_harbor.errors import BoxTooLargeError
from pytest_harbor.task.network import NetworkPolicy

BASE_IMAGE = "debian:bookworm-slim"
CLOSED = (NetworkPolicy(mode="no-network"),)

WORK = """
mkdir /app && echo work > /app/work
echo /app/evil.so > /etc/ld.so.preload
mv /usr/bin/id /app/id && printf '#!/bin/sh\\necho forged' > /usr/bin/id && chmod 755 /usr/bin/id
rm /bin && ln -s /app /bin
/usr/bin/mkdir -p /opt/planted/deep
rm -rf /tests /logs/verifier && ln -s /app /tests && ln -s /app /logs/verifier
(setsid /usr/bin/sleep 1007 >/dev/null 2>&1 &)
"""


@pytest.fixture(scope="module")
def box(engine: Engine) -> Iterator[DockerEnvironment]:
    spec = ContainerSpec(
        "forked", docker_image=BASE_IMAGE, network=CLOSED, env={"KEPT": "1"}, memory_mb=256
    )
    made = DockerEnvironment(spec, engine)
    try:
        made.start()
        assert made.exec(WORK, user="root").exit_code == 0
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def forked(box: DockerEnvironment) -> Iterator[DockerEnvironment]:
    restore = ["/usr/bin/id", "/bin/cat"]
    remove = ["/etc/ld.so.preload", "/opt/planted", "/never/there"]
    made = box.fork(CLOSED, restore=restore, remove=remove)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_work_is_there_and_processes_are_not(forked: DockerEnvironment):
    assert forked.read("/app/work") == b"work\n"
    assert b"1007" not in forked.exec("cat /proc/[0-9]*/cmdline").stdout.encode()


def test_files_and_links_are_the_images_again(forked: DockerEnvironment):
    assert forked.exec(["id", "-u"]).stdout == "0\n"
    assert forked.exec(["readlink", "/bin"]).stdout == "usr/bin\n"
    assert forked.exec("stat -c '%u %a' /usr/bin/id").stdout == "0 755\n"


def test_what_it_must_not_have_is_gone(forked: DockerEnvironment):
    assert forked.exec("ls -d /etc/ld.so.preload /opt/planted /never").stdout == ""


def test_the_verifiers_folders_are_its_own_and_empty(forked: DockerEnvironment):
    result = forked.exec("stat -c '%F %a' /tests /logs/verifier; ls -A /tests /logs/verifier")
    assert result.stdout == "directory 777\ndirectory 777\n/logs/verifier:\n\n/tests:\n"


def test_settings_and_network_are_as_asked(engine: Engine, forked: DockerEnvironment):
    inspected = engine.api.inspect_container(forked.name)
    assert inspected["HostConfig"]["Memory"] == 256 * 1024**2
    assert inspected["HostConfig"]["NetworkMode"] == "none"
    assert forked.exec("echo $KEPT").stdout == "1\n"


def copies(engine: Engine) -> set[str]:
    return {each["Id"] for each in engine.api.images(filters={"label": FORK_LABEL})}


def test_its_copy_goes_with_it(engine: Engine, box: DockerEnvironment):
    made = box.fork(CLOSED, restore=[], remove=[])
    (copy,) = copies(engine) & {made._copy}
    made.start()
    made.stop()
    assert copy not in copies(engine)


def test_the_copy_of_a_dead_process_is_swept(engine: Engine):
    dead = Engine.connect()
    dead.owner = replace(Owner.current(), started="12345")
    box = DockerEnvironment(ContainerSpec("left", docker_image=BASE_IMAGE, network=CLOSED), engine)
    box.start()
    # The box itself is a living process's: any other run may sweep a dead one's before this does.
    labels = {**dead.labels(), FORK_LABEL: "1"}
    changed = " ".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
    copy = engine.api.commit(box.name, changes=f"LABEL {changed}")["Id"]
    assert copy in copies(engine)
    box.stop()
    sweep_dead(engine)
    assert copy not in copies(engine)
    dead.close()


def test_what_would_fill_the_machines_disk_is_not_copied(make_box, monkeypatch):
    monkeypatch.setattr("pytest_harbor.environment.docker.fork.MAX_COPY_BYTES", 1024**2)
    box = make_box()
    box.start()
    box.exec("truncate -s 2M /srv/holes")
    with pytest.raises(BoxTooLargeError, match="bytes"):
        box.fork(CLOSED, restore=[], remove=[])
