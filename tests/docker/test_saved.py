"""A box's files beside its image's, and another box made of them."""

import gzip
import io
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from pytest_harbor.environment.docker import ContainerSpec, DockerEnvironment, Engine
from pytest_harbor.environment.saved import SavedFiles
from pytest_harbor.errors import BoxTooLargeError, TransferError, UnsupportedError
from pytest_harbor.task.network import NetworkPolicy

SPEC = ContainerSpec(
    "saved", docker_image="debian:bookworm-slim", network=(NetworkPolicy("no-network"),)
)
HOSTILE = r"""
mkdir -p /opt/a/b /srv/many
echo x > /opt/a/b/f; ln /opt/a/b/f /opt/a/b/g
perl -e '$p="/opt/a/b/f"; $n="security.capability";
         $v=pack("H*","0100000200040000000000000000000000000000");
         syscall(188, $p, $n, $v, 20, 0) == 0 or die $!' || exit 9
mkfifo /opt/a/fifo; mknod /opt/a/disk b 8 0; mknod /opt/a/null c 1 3
cp /usr/bin/id /opt/a/suid; chmod 4755 /opt/a/suid
ln -s /etc/shadow /opt/absolute; ln -s ../../../../../../../../etc/shadow /opt/out
truncate -s 200M /opt/a/holes
touch -- "/opt/a/-rf" "/opt/a/ " $'/opt/a/new\nline' $'/opt/a/\xff'
echo hi > /etc/.wh.passwd
for i in $(seq 30); do echo $i > /srv/f$i; done; ln /srv/f1 /srv/hard
chmod 700 /srv; chown 5:6 /srv
rm /etc/motd; rm -rf /etc/skel
rm -rf /etc/apt && mkdir /etc/apt && echo new > /etc/apt/new
rm -rf /var/cache && echo file > /var/cache
rm /etc/issue && mkdir /etc/issue && echo inner > /etc/issue/inner
find /usr/lib/x86_64-linux-gnu/gconv -type f -delete; rm /usr/bin/rm
"""
LISTED = r"""
find /etc /opt /srv /var /usr -printf '%p %y %m %U:%G %l %s\n' | grep -v '^/opt/a/\(disk\|null\) ' \
  | grep -v '^/etc/\(hosts\|hostname\|resolv.conf\) ' | grep -v ' d .* [0-9]*$' | sort | sha256sum
find /etc /opt /srv /var -type d -printf '%p %m %U:%G\n' | sort | sha256sum
find /opt /srv /etc/apt /etc/issue /var/cache -type f -size -1M -exec sha256sum {} + | sort \
  | sha256sum
perl -e '$p="/opt/a/b/f"; $n="security.capability"; $v="\0"x30;
         print syscall(191, $p, $n, $v, 30)'
stat -c ' %h' /opt/a/b/f
cat /etc/passwd | sha256sum
"""


@pytest.fixture(scope="module")
def box(engine: Engine) -> Iterator[DockerEnvironment]:
    made = DockerEnvironment(SPEC, engine)
    try:
        made.start()
        assert made.exec(HOSTILE, user="0").exit_code == 0
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def saved(box: DockerEnvironment) -> tuple[SavedFiles, bytes]:
    sink = io.BytesIO()
    found = box.save_files(sink)
    return found, gzip.compress(sink.getvalue(), 1)


def test_another_box_has_all_that_the_first_one_held(
    engine: Engine, box: DockerEnvironment, saved: tuple[SavedFiles, bytes]
) -> None:
    files, archive = saved
    other = DockerEnvironment(SPEC, engine)
    try:
        other.start_for(files)
        other.fill(files, io.BytesIO(archive))
        assert other.exec(LISTED, user="0").stdout == box.exec(LISTED, user="0").stdout
        assert files.left_out == ("/opt/a/disk", "/opt/a/null")
        assert other.exec("ls /opt/a/disk /opt/a/null", user="0").stdout == ""
    finally:
        other.stop()


def test_the_archive_has_the_changes_alone(saved: tuple[SavedFiles, bytes]) -> None:
    files, archive = saved
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        names = tar.getnames()
    assert "/etc/motd" in files.removed
    assert len(names) == len(set(names)) == files.files
    assert not {"etc/passwd", "usr/bin/id", "etc/motd"} & set(names)


def test_no_more_is_put_into_a_box_than_was_saved(
    engine: Engine, saved: tuple[SavedFiles, bytes]
) -> None:
    other = DockerEnvironment(SPEC, engine)
    bomb = gzip.compress(b"\0" * 32 * 1024**2)
    few = replace(saved[0], removed=(), files=1, size=1)
    try:
        other.start_for(few)
        with pytest.raises(BoxTooLargeError, match="more than was saved"):
            other.fill(few, io.BytesIO(bomb))
        with pytest.raises(TransferError, match="cannot be read"):
            other.fill(few, io.BytesIO(b"no archive"))
        with pytest.raises(BoxTooLargeError, match="at most"):
            other.fill(replace(few, size=2**60), io.BytesIO(bomb))
        assert other.exec("echo on").stdout == "on\n"
    finally:
        other.stop()


def test_nothing_is_put_over_another_image(engine: Engine, saved: tuple[SavedFiles, bytes]) -> None:
    other = DockerEnvironment(SPEC, engine)
    try:
        with pytest.raises(UnsupportedError, match="saved over the image debian"):
            other.start_for(replace(saved[0], image_id="sha256:0"))
    finally:
        other.stop()


def test_a_box_goes_on_where_too_much_was_to_be_saved(
    box: DockerEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_harbor.environment.docker.fork.MAX_COPY_BYTES", 10 * 1024**2)
    with closing(io.BytesIO()) as sink, pytest.raises(BoxTooLargeError, match="at most 10485760"):
        box.save_files(sink)
    assert box.exec("echo on").stdout == "on\n"
