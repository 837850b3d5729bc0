"""What is told of a box from outside: its changes, its processes, its image's files."""

import hashlib
from collections.abc import Iterator

import pytest

from pytest_harbor.environment.docker import ContainerSpec, DockerEnvironment, Engine
from pytest_harbor.environment.docker.changes import changes_by_engine
from pytest_harbor.errors import TransferError

BASE_IMAGE = "debian:bookworm-slim"

WORK = r"""
mkdir /made && touch /made/a $'/made/new\nline' $'/made/\xff'
ln /made/a /made/hard && mkfifo /made/fifo
echo more >> /etc/issue; chmod 700 /etc/issue.net; rm /etc/motd
rm -rf /opt && ln -s /made /opt; mv /srv /moved
rm -rf /etc/skel && mkdir /etc/skel && touch /etc/skel/new
"""


@pytest.fixture(scope="module")
def worked(engine: Engine) -> Iterator[DockerEnvironment]:
    box = DockerEnvironment(ContainerSpec("inspected", docker_image=BASE_IMAGE), engine)
    try:
        box.start()
        assert box.exec(WORK).exit_code == 0
        yield box
    finally:
        box.stop()


def test_changes_tell_what_was_done_to_each_path(worked: DockerEnvironment):
    found = {change.path: (change.kind, change.type) for change in worked.changes()}
    assert found["/made"] == ("added", "folder")
    assert found["/made/new\nline"] == ("added", "file")
    assert found["/made/hard"] == ("added", "file")
    assert found["/etc/issue"][0] == "changed"
    assert found["/etc/issue.net"][0] == "changed"
    assert found["/etc/motd"] == ("deleted", "")
    assert found["/opt"][0] == "changed"
    assert found["/srv"] == ("deleted", "")
    assert found["/etc/skel/.profile"] == ("deleted", "")
    assert found["/etc/skel/new"][0] == "added"


def test_the_walk_and_the_engine_tell_the_same(engine: Engine, worked: DockerEnvironment):
    walked = {(change.path, change.kind) for change in worked.changes()}
    told = {(change.path, change.kind) for change in changes_by_engine(engine, worked.name)}
    assert walked == told


def test_the_images_file_is_told_from_the_boxs(worked: DockerEnvironment):
    original = worked.original("/etc/issue")
    assert worked.read("/etc/issue") == original + b"more\n"
    assert worked.digest_original("/etc/issue") == hashlib.sha256(original).hexdigest()
    assert worked.digest("/etc/issue") != worked.digest_original("/etc/issue")
    assert worked.digest("/opt") is None


def test_what_the_image_lacks_or_has_as_a_link_is_refused(worked: DockerEnvironment):
    with pytest.raises(FileNotFoundError):
        worked.original("/made/a")
    with pytest.raises(TransferError, match="link"):
        worked.original("/bin")
    with pytest.raises(TransferError, match="at most 3"):
        worked.original("/etc/issue", max_bytes=3)


def test_a_link_made_anew_and_the_same_is_no_change(make_box):
    box = make_box()
    box.start()
    anew = "cd /etc/alternatives; ln -sfn $(readlink awk) awk; ln -sfn /bin/true pager"
    assert box.exec(anew).exit_code == 0
    links = {change.path for change in box.changes() if change.type == "link"}
    assert links == {"/etc/alternatives/pager"}


def test_only_what_was_started_since_is_left_running(make_box):
    box = make_box()
    box.start()
    box.begin_watch()
    assert box.left_running() == []
    box.exec("(setsid sleep 1001 >/dev/null 2>&1 &); sleep 0.5")
    (left,) = box.left_running()
    assert left.command == "sleep 1001"
    box.begin_watch()
    assert box.left_running() == []


def test_a_process_that_calls_itself_as_ours_is_told_apart(make_box):
    box = make_box()
    box.start()
    box.begin_watch()
    box.exec("sleep 2.2; (setsid sleep infinity >/dev/null 2>&1 &); sleep 0.5")
    assert [left.command for left in box.left_running()] == ["sleep infinity"]


def test_reading_the_image_leaves_nothing_behind(engine: Engine, make_box):
    box = make_box()
    box.start()
    box.original("/etc/issue")
    box.stop()
    assert engine.api.containers(all=True, filters={"name": box.name}) == []
