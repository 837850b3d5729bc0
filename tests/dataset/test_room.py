"""How much a dataset may take on the disk, and whether there is room for it."""

import os
import threading
from collections import namedtuple

import pytest

from pytest_harbor.dataset import git_program
from pytest_harbor.dataset import room as room_module
from pytest_harbor.dataset.cache import VARIABLE, Cache
from pytest_harbor.dataset.fetch import Fetcher
from pytest_harbor.dataset.hub import Hub
from pytest_harbor.dataset.place import parse_place
from pytest_harbor.dataset.resolve import Resolver
from pytest_harbor.dataset.room import Room, RoomError, parse_size, size_on_disk, size_text
from pytest_harbor.dataset.source import GitTask, HubTask
from tests.dataset.conftest import HubData, archive, content_of, git

KB = 1024


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("50G", 50 * KB**3),
        ("1.5t", 1.5 * KB**4),
        ("800 MiB", 800 * KB**2),
        ("2kB", 2 * KB),
        ("1 B", 1),
        ("12", 12),
    ],
)
def test_sizes_are_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "0", "-1G", "50 G G", "50X", "0.0001K", "1e3", "ten"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match=f"^{text}$"):
        parse_size(text)


def test_sizes_are_written():
    sizes = (0, 1023, KB, 1536, 50 * KB**3, 5000 * KB**4)
    assert [*map(size_text, sizes)] == [
        "0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "50 GiB", "5e+03 TiB",
    ]  # fmt: skip


def test_room_is_used_up(tmp_path):
    room = Room(10, tmp_path)
    room.take(6, "a")
    room.check(4, "b")
    with pytest.raises(RoomError) as told:
        room.check(5, "b")
    assert str(told.value) == (
        "b: 5 bytes beside the 6 bytes that are there; a dataset may take 10 bytes. Choose fewer "
        "of its tasks with --harbor-tasks, or give it more room: --harbor-dataset-max-size=1G"
    )
    with pytest.raises(RoomError):
        room.take(5, "b")
    assert room.left == 4


def test_threads_never_take_more_than_there_is(tmp_path):
    room = Room(100, tmp_path)
    refused = []

    def take():
        try:
            for _ in range(50):
                room.take(1, "x")
        except RoomError:
            refused.append(1)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert room.used == 100
    assert refused


class Tasks:
    """Two tasks of a repository, larger than what git needs for them."""

    def __init__(self, repositories, make_task, tmp_path):
        for name in ("hello", "other"):
            make_task(f"source/tasks/{name}", solve="#" * 64 * KB)
        self.source = tmp_path / "source"
        self.url = repositories.url("bench.git")
        self.commit = repositories.make("bench.git", self.source)

    def sources(self, *names):
        return [GitTask(self.url, self.commit, f"tasks/{name}") for name in names]

    @property
    def size(self):
        return size_on_disk(self.source / "tasks/hello")


@pytest.fixture
def tasks(repositories, make_task, tmp_path):
    return Tasks(repositories, make_task, tmp_path)


def fetch(sources, max_size=room_module.DEFAULT_MAX_SIZE, hub=None):
    cache = Cache(max_size=max_size)
    return Fetcher(cache, lambda line: None, hub=hub).fetch(sources, "bench")


def test_a_dataset_that_takes_more_is_refused_before_a_task_is_written(tasks, cache):
    sources = tasks.sources("hello", "other")
    with pytest.raises(RoomError, match=r"2 tasks of file://.*bench\.git: .* a dataset may take"):
        fetch(sources, 2 * tasks.size - 1)
    assert cache.entries() == []
    assert list((cache.root / "tmp").iterdir()) == []


def test_what_is_in_the_cache_counts_and_is_used_all_the_same(tasks, cache):
    fetch(tasks.sources("hello"))
    with pytest.raises(RoomError, match="beside the"):
        fetch(tasks.sources("hello", "other"), 2 * tasks.size - 1)
    assert fetch(tasks.sources("hello"), 1)
    assert len(fetch(tasks.sources("hello", "other"))) == 2


@pytest.fixture
def full_disk(monkeypatch):
    """A disk with a kilobyte left."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(room_module.shutil, "disk_usage", lambda place: usage(9, 9, KB))


def test_a_disk_without_room_is_told_of_before_a_task_is_written(tasks, cache, full_disk):
    with pytest.raises(RoomError) as told:
        fetch(tasks.sources("hello", "other"))
    assert f"and 1 KiB are free on the disk of {cache.root}: make room" in str(told.value)
    assert VARIABLE in str(told.value)
    assert cache.entries() == []


def test_a_repository_that_takes_more_is_refused(tasks, cache, tmp_path):
    (tasks.source / "large").write_bytes(os.urandom(KB * KB))
    place = parse_place(None, tmp_path)
    git("config", "uploadpack.allowFilter", "false", cwd=tasks.url.removeprefix("file://"))
    git("add", "-A", ".", cwd=tasks.source)
    git("commit", "-q", "-m", "x", cwd=tasks.source)
    git("push", "-q", "origin", "main", cwd=tasks.source)
    small = Cache(max_size=KB * KB // 2)
    said = r"bench\.git: .* [KM]iB so far; a dataset may take 512 KiB"
    with pytest.raises(RoomError, match=said):
        Resolver(small, print, place, Hub, tmp_path).resolve(f"{tasks.url}@main")


def test_a_download_that_takes_more_is_ended_while_it_comes(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(git_program, "_WATCH_EVERY_SEC", 0.02)
    is_over = threading.Event()

    def endless(method, path, headers, body):
        is_over.wait(60)
        return 404, {}, b""

    server = serve(endless)
    task = GitTask(f"{server.url}/acme/bench.git", "0" * 40, "tasks/hello")
    try:
        with pytest.raises(RoomError, match="so far"):
            fetch([task], 1)
        assert not is_over.is_set()
    finally:
        is_over.set()
    assert list((Cache().root / "tmp").iterdir()) == []


class TestHub:
    @pytest.fixture
    def hub(self, serve, make_task):
        """A Hub with two tasks, larger than their archives."""
        data = HubData()
        self.tasks = [
            HubTask("acme", name, data.publish(make_task(name, solve="#" * 64 * KB)))
            for name in ("hello", "other")
        ]
        server = serve(data.answer)
        return lambda: Hub(server.url)

    def test_tasks_that_take_more_together_are_refused(self, hub, cache):
        with pytest.raises(RoomError, match=r"acme/\w+"):
            fetch(self.tasks, 100 * KB, hub)
        assert len(cache.entries()) <= 1
        assert list((cache.root / "tmp").iterdir()) == []
        found = fetch(self.tasks, hub=hub)
        assert [len(content_of(found[one].task.folder)) for one in self.tasks] == [5, 5]

    def test_a_disk_without_room_is_told_of_before_a_task_is_written(self, hub, cache, full_disk):
        with pytest.raises(RoomError, match="1 KiB are free"):
            fetch(self.tasks, hub=hub)
        assert cache.entries() == []

    def test_an_archives_size_is_looked_at_before_it_comes(self, serve, make_task, cache):
        data = HubData()
        folder = make_task("hello")
        digest = data.publish(folder, archive({"x": os.urandom(64 * KB)}))
        server = serve(data.answer)
        with pytest.raises(RoomError, match=r"64\.\d KiB"):
            fetch([HubTask("acme", "hello", digest)], 8 * KB, lambda: Hub(server.url))
