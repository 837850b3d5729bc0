"""Grading beside hostile processes that live on: they get at nothing."""

import io
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_harbor.environment.base import Environment
from pytest_harbor.environment.docker import ContainerSpec, DockerEnvironment, Engine
from pytest_harbor.environment.docker.accounts import Accounts
from pytest_harbor.environment.docker.capabilities import require_seen_from_outside
from pytest_harbor.environment.docker.private import PrivateView
from pytest_harbor.environment.docker.transfer import Transfer
from pytest_harbor.errors import EnvironmentStartError, UnsupportedError

BASE_IMAGE = "debian:bookworm-slim"
FOLDERS = ("/tests", "/logs/verifier")

# Writes wherever a reward may be looked for, through its own root and everybody else's, and
# takes away and makes anew what the folders may be mounted on.
WRITER = """
while :; do
  for root in "" /proc/[0-9]*/root; do
    echo 1 > $root/logs/verifier/reward.txt
    echo stolen > $root/tests/check
    cat /proc/[0-9]*/environ
  done >>/tmp/seen 2>/dev/null
  mv /logs/verifier /logs/old; rm -rf /logs/old /tests; mkdir -p /logs/verifier /tests
  chmod 777 /tests /logs/verifier
done 2>/dev/null
"""
VERIFIER = (
    "for i in 1 2 3; do cat /tests/check; sleep 0.05; done; echo 0 > /logs/verifier/reward.txt"
)


@pytest.fixture(scope="module")
def hostile(engine: Engine) -> Iterator[DockerEnvironment]:
    """A box in which root and a user keep writing rewards."""
    spec = ContainerSpec("hostile", docker_image=BASE_IMAGE, env={"OF_BOX": "1"}, memory_mb=512)
    box = DockerEnvironment(spec, engine)
    try:
        box.start()
        box.write("/tmp/writer.sh", WRITER)
        for user in ("root", "nobody"):
            box.exec("(setsid sh /tmp/writer.sh >/dev/null 2>&1 &)", user=user)
        box.exec("touch /tmp/seen; chmod 666 /tmp/seen")
        yield box
    finally:
        box.stop()


@pytest.fixture(scope="module")
def view(hostile: DockerEnvironment) -> Iterator[Environment]:
    with hostile.private_view(FOLDERS) as opened:
        yield opened


@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.long
def test_writers_change_no_reward_and_no_test_in_twenty_gradings(view: Environment, user: str):
    rewards = []
    for _ in range(10):
        view.clear(["/logs/verifier"])
        view.write("/tests/check", "mine\n")
        result = view.exec(VERIFIER, user=user, env={"SECRET": "s3cret"})
        assert result.stdout == "mine\n" * 3, result.output
        rewards.append(view.read("/logs/verifier/reward.txt"))
    assert rewards == [b"0\n"] * 10
    assert b"s3cret" not in view.read("/tmp/seen", max_bytes=64 * 1024**2)


def test_the_same_writers_reach_a_reward_in_the_box_itself(hostile: DockerEnvironment):
    hostile.exec("sleep 0.3")
    seen = hostile.exec(
        "for i in 1 2 3 4 5 6 7 8 9; do cat /logs/verifier/reward.txt; sleep 0.05; done"
    )
    assert "1\n" in seen.stdout


def test_a_view_has_the_boxs_files_processes_and_variables(view: Environment):
    result = view.exec(
        "echo $OF_BOX $HOME; cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo x >/tmp/x"
    )
    assert result.stdout.startswith("1 /root\n")
    assert "writer.sh" in result.stdout
    assert view.read("/tmp/x") == b"x\n"


def test_commands_of_a_view_end_as_those_of_the_box(view: Environment):
    assert view.exec("exit 3").exit_code == 3
    assert view.exec("exit 125").exit_code == 125
    assert view.exec(["no-such-program"]).exit_code == 127
    assert view.exec(["/etc/issue"]).exit_code == 126
    assert view.exec("true", cwd="/nowhere").exit_code == 126
    limited = view.exec("sleep 1003 & sleep 1003", timeout_sec=0.5)
    assert limited.timed_out
    assert "sleep 1003" not in view.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    taken = io.BytesIO()
    view.exec("echo out; echo err >&2", output=taken)
    assert sorted(taken.getvalue().split()) == [b"err", b"out"]
    with pytest.raises(EnvironmentStartError, match="no user or group 'nobodys'"):
        view.exec("true", user="nobodys")


def test_a_command_of_a_view_is_no_freer_than_one_of_the_box(view: Environment, hostile):
    show = "grep CapBnd /proc/self/status"
    inside, outside = (int(box.exec(show).stdout.split()[1], 16) for box in (view, hostile))
    assert inside & ~(1 << 35) == outside
    for forbidden in ("unshare --user true", "unshare --mount true", "mount -t tmpfs x /mnt"):
        assert view.exec(forbidden).exit_code != 0
    assert view.exec("id -u", user="nobody").stdout == "65534\n"


def test_files_go_in_and_come_out_of_the_views_own_folders(view: Environment, tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("a")
    view.upload(tmp_path / "in", "/tests", replace=True, clear=["/logs/verifier"])
    view.exec("cp /tests/a /logs/verifier/b")
    report = view.download("/logs/verifier", tmp_path / "out")
    assert report.files == ("b",)


# What Python opens when something breaks in it: the file of the traceback's lines, whose first
# line names a codec, which is a module.
PLANTED = {
    "/harbor/enter.py": "# -*- coding: planted -*-\n",
    "/usr/lib/python3.11/encodings/planted.py": "open('/tmp/proof', 'w').close()\n",
}
PASSWD = "root:x:0:0:root:/root:/bin/sh\n"
MANY_GROUPS = "".join(f"g{number}:x:{number}:root\n" for number in range(70_000))


@pytest.fixture(scope="module")
def planted(engine: Engine) -> Iterator[DockerEnvironment]:
    """A box with code in it that waits for a program from outside to stumble."""
    box = DockerEnvironment(ContainerSpec("planted", docker_image=BASE_IMAGE), engine)
    try:
        box.start()
        for path, text in PLANTED.items():
            box.write(path, text)
        yield box
    finally:
        box.stop()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/passwd", f"z:x:{'9' * 5000}:0:z:/:/bin/sh\n{PASSWD}"),
        ("/etc/passwd", f"z:x:1{'0' * 70}:{'9' * 5000}:z:/:/bin/sh\n{PASSWD}"),
        ("/etc/group", MANY_GROUPS),
        ("/etc/group", f"g:x:{'9' * 5000}:root\n"),
        ("/etc/passwd", "root:x:0:0:root:/ro\0ot:/bin/sh\n"),
        ("/etc/passwd", f"root:x:0:0:root:/{'r' * 200_000}:/bin/sh\n"),
    ],
)
def test_no_account_file_makes_code_of_the_box_run_with_rights(planted, path: str, text: str):
    before = planted.read(path)
    planted.write(path, text)
    try:
        with planted.private_view(FOLDERS) as view:
            assert view.exec("id -u", user="root").stdout == "0\n"
    finally:
        planted.write(path, before)
    assert planted.exec("rm /tmp/proof").exit_code != 0


def test_signals_make_no_code_of_the_box_run_with_rights(planted: DockerEnvironment):
    planted.write(
        "/tmp/flood.sh",
        "while :; do for p in /proc/[0-9]*; do grep -qs /harbor/enter.py $p/cmdline &&"
        " kill -INT ${p#/proc/}; done; done 2>/dev/null",
    )
    planted.exec("(setsid sh /tmp/flood.sh >/dev/null 2>&1 &)")
    with planted.private_view(FOLDERS) as view:
        for _ in range(6):
            # Killed before it has told of itself, a command cannot be run: that is told, too.
            with suppress(EnvironmentStartError):
                view.exec("sleep 0.01")
    assert planted.exec("rm /tmp/proof").exit_code != 0


def test_an_account_file_that_is_a_link_is_followed(make_box):
    box = make_box()
    box.start()
    box.exec("mkdir /data; echo 'who:x:77:78:w:/home/who:/bin/sh' > /data/passwd")
    box.exec("ln -sf ../data/passwd /etc/passwd; echo more:x:79:who >> /etc/group")
    with box.private_view(FOLDERS) as view:
        assert view.exec("id -u; id -G; echo $HOME", user="who").stdout == "77\n78 79\n/home/who\n"


def test_commands_of_a_view_are_in_the_groups_that_a_container_adds(engine: Engine, make_box):
    box = make_box()
    box.start()
    users = Accounts(Transfer(engine, box.name), ["4321", "tape"])
    assert users.find("nobody").groups == (4321, 26)
    assert users.find("nobody:tty").gid == 5
    assert users.find("root").home == "/root"


def test_a_view_has_the_devices_of_its_box(engine: Engine, hostile: DockerEnvironment):
    inspected = engine.api.inspect_container(hostile.name)
    devices = {
        "DeviceRequests": [{"Driver": "nvidia", "Count": 1, "Capabilities": [["gpu"]]}],
        "Devices": [{"PathOnHost": "/dev/fuse"}],
        "DeviceCgroupRules": ["c 10:229 rwm"],
    }
    host = {**inspected["HostConfig"], **devices}
    view = PrivateView(engine, hostile, FOLDERS, {**inspected, "HostConfig": host})
    settings = view._config("image")["HostConfig"]
    assert {name: settings.get(name) for name in devices} == devices


def test_under_a_runtime_that_the_engine_sees_not_into_nothing_is_told_or_promised(engine: Engine):
    spec = ContainerSpec("sandbox", docker_image=BASE_IMAGE)
    assert DockerEnvironment(spec, engine).can_fork
    sandbox = DockerEnvironment(replace(spec, runtime="runsc"), engine)
    assert not sandbox.can_fork
    assert sandbox.left_running() is None
    assert sandbox.changes() is None
    with pytest.raises(UnsupportedError, match="'runsc'"):
        require_seen_from_outside(engine, "runsc", "box")


def interrupted_view(box: DockerEnvironment) -> Environment:
    """A view whose use an interrupt has ended."""
    with suppress(KeyboardInterrupt), box.private_view(FOLDERS) as opened:
        assert opened.exec("touch /tests/x").exit_code == 0
        raise KeyboardInterrupt
    return opened


def test_nothing_is_left_of_a_view(engine: Engine, make_box):
    box = make_box()
    box.start()
    opened = interrupted_view(box)
    assert engine.api.containers(all=True, filters={"name": opened.name}) == []
    assert box.exec("ls /tests").exit_code != 0
