"""Downloads that break off: a git that dies, a full disk, a cache that can only be read."""

import errno
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_harbor.__main__ import main
from pytest_harbor.dataset import write as write_module
from pytest_harbor.dataset.cache import VARIABLE, Cache, is_changed
from pytest_harbor.dataset.fetch import Fetcher
from pytest_harbor.dataset.hub import Hub
from pytest_harbor.dataset.leftovers import sweep
from pytest_harbor.dataset.source import GitTask
from pytest_harbor.errors import DatasetError, DatasetUnreachableError
from tests.dataset.conftest import content_of

_GIT = shutil.which("git")


@pytest.fixture
def source(tmp_path, make_task) -> Path:
    for name in ("hello", "other"):
        make_task(f"source/tasks/{name}")
    return tmp_path / "source"


@pytest.fixture
def tasks(source, repositories) -> list[GitTask]:
    commit = repositories.make("bench.git", source)
    url = repositories.url("bench.git")
    return [GitTask(url, commit, f"tasks/{name}") for name in ("hello", "other")]


def download(cache: Cache, tasks: list[GitTask]):
    return Fetcher(cache, lambda line: None, hub=Hub).fetch(tasks, "bench")


def dying_git(folder: Path, times: int) -> None:
    """A ``git`` whose reading process is killed, so many times, before its first answer."""
    folder.mkdir()
    program = folder / "git"
    program.write_text(
        f"""#!{sys.executable}
import os, pathlib, subprocess, sys
left = pathlib.Path({str(folder / "left")!r})
if sys.argv[1:3] == ["cat-file", "--batch"] and (count := int(left.read_text())):
    left.write_text(str(count - 1))
    os.kill(os.getpid(), 9)
os.execv({_GIT!r}, ["git", *sys.argv[1:]])
"""
    )
    program.chmod(0o755)
    (folder / "left").write_text(str(times))


def test_a_git_that_is_killed_is_no_fault_of_a_task(cache, tasks, source, tmp_path, monkeypatch):
    dying_git(tmp_path / "bin", times=1)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    found = download(cache, tasks)
    for task in tasks:
        assert content_of(found[task].task.folder) == content_of(source / task.path)


def test_a_git_that_dies_again_and_again_is_told_of(cache, tasks, tmp_path, monkeypatch):
    dying_git(tmp_path / "bin", times=99)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(DatasetUnreachableError, match="git ended before all files were read"):
        download(cache, tasks)
    assert cache.entries() == []
    assert list((cache.root / "tmp").iterdir()) == []


def test_a_full_disk_is_told_of_and_leaves_nothing_half(cache, tasks, monkeypatch):
    written = write_module._write

    def until_full(place, *rest):
        if "other" in place.parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place))
        return written(place, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(write_module, "_write", until_full)
        with pytest.raises(DatasetError, match=f"No space left.*variable {VARIABLE}"):
            download(cache, tasks)
    assert [Path(one.source).name for one in cache.entries()] == ["hello"]
    assert not any(is_changed(one) for one in cache.entries())
    assert list((cache.root / "tmp").iterdir()) == []
    assert all(one.task for one in download(cache, tasks).values())


class TestACacheThatCanOnlyBeRead:
    @pytest.fixture
    def only_read(self, cache):
        """Root may write everywhere, so a file stands where a folder has to be made."""
        (cache.root / "tmp").mkdir(parents=True, exist_ok=True)
        shutil.rmtree(cache.root / "tmp")
        (cache.root / "tmp").write_text("")
        return cache

    def test_has_its_work_done_elsewhere(self, only_read, tmp_path):
        with only_read.workspace() as place:
            assert place.is_dir()
            assert not place.is_relative_to(only_read.root)
        assert not place.exists()

    def test_cannot_take_a_task(self, cache, tasks):
        (cache.root / "locks").parent.mkdir(parents=True)
        (cache.root / "locks").write_text("")
        with pytest.raises(DatasetError, match=f"cannot be written.*variable {VARIABLE}"):
            download(cache, tasks)


_DOWNLOAD = """
import sys
from pytest_harbor.dataset.cache import Cache
from pytest_harbor.dataset.fetch import Fetcher
from pytest_harbor.dataset.source import GitTask
tasks = [GitTask(sys.argv[1], sys.argv[2], f"tasks/{name}") for name in sys.argv[3].split(",")]
print("begun", flush=True)
Fetcher(Cache(), lambda line: None, hub=None).fetch(tasks, "x")
"""


class TestLeftovers:
    """What a killed run leaves is gone after the next run, or after a clean."""

    @pytest.fixture
    def left(self, cache):
        """What killed runs leave at one moment or another, and what a living run has."""
        old = time.time() - 3600
        for name in ("tmp/work-1/git-x/pack", "tmp/old-2/files/a", "datasets/.n.1.part"):
            (cache.root / name).parent.mkdir(parents=True, exist_ok=True)
            (cache.root / name).write_text("x")
        (cache.root / "runs").mkdir()
        for name in ("tmp/work-1.lock", "tmp/work-3.lock", "runs/12-ab.lock", "datasets/.n.1.part"):
            (cache.root / name).touch()
            os.utime(cache.root / name, (old, old))
        return cache

    @staticmethod
    def files(cache):
        return sorted(
            one.relative_to(cache.root).as_posix() for one in cache.root.rglob("*") if one.is_file()
        )

    def test_is_gone_after_a_run_that_downloads_nothing(self, left):
        with left.in_use():
            (own,) = self.files(left)
            assert own.startswith("runs/")
        assert self.files(left) == []

    def test_is_gone_after_a_clean(self, left, tasks):
        download(left, tasks)
        assert main(["cache", "clean"]) == 0
        assert self.files(left) == []

    def test_what_a_living_run_works_on_stays(self, left):
        with left.workspace() as place, left.lock("group", print), left.in_use():
            (place / "half").write_text("x")
            before = self.files(left)
            assert len(before) == 4
            assert main(["cache", "clean", "--force"]) == 0
            assert self.files(left) == before

    def test_a_lock_that_is_just_being_made_stays(self, cache):
        (cache.root / "tmp").mkdir(parents=True)
        (cache.root / "tmp/work-1.lock").touch()
        sweep(cache.root)
        assert self.files(cache) == ["tmp/work-1.lock"]


@pytest.mark.long
def test_a_download_killed_at_any_moment_leaves_whole_tasks_alone(
    cache, repositories, make_task, tmp_path
):
    names = [f"task-{number:03d}" for number in range(150)]
    for name in names:
        make_task(f"source/tasks/{name}")
    commit = repositories.make("bench.git", tmp_path / "source")
    url = repositories.url("bench.git")
    lots, counts = random.Random(7), []
    for _ in range(10):
        shutil.rmtree(cache.root, ignore_errors=True)
        program = [sys.executable, "-c", _DOWNLOAD, url, commit, ",".join(names)]
        with subprocess.Popen(program, stdout=subprocess.PIPE) as run:
            assert run.stdout is not None
            run.stdout.readline()
            time.sleep(lots.uniform(0.05, 1.5))
            run.kill()
        counts.append(len(cache.entries()))
        assert not any(is_changed(one) for one in cache.entries())
    assert any(0 < count < len(names) for count in counts), counts
    tasks = [GitTask(url, commit, f"tasks/{name}") for name in names]
    assert all(one.task for one in download(cache, tasks).values())
    assert list((cache.root / "tmp").iterdir()) == []
