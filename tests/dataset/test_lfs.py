"""Tasks whose repository keeps files in Git LFS, over HTTP by the program git-lfs."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading

import pytest

from pytest_harbor.dataset import lfs as lfs_module
from pytest_harbor.dataset import write as write_module
from pytest_harbor.dataset.digest import task_digest
from pytest_harbor.dataset.fetch import Fetcher
from pytest_harbor.dataset.lfs import Pointer, parse_pointer
from pytest_harbor.dataset.source import GitTask
from pytest_harbor.errors import DatasetError
from tests.dataset.lfs_server import LfsServer, lfs_json, pointer

BYTES = b"x\0y" * 1000
ATTRIBUTES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"


@pytest.fixture(scope="module")
def git_lfs():
    """The program. Where it is not installed, CI fails and others skip."""
    if shutil.which("git-lfs") is None:
        message = "git-lfs is not installed; scripts/run-tests does it where it sets up the engine"
        if os.environ.get("PYTEST_HARBOR_REQUIRE_DOCKER") == "1":
            pytest.fail(message, pytrace=False)
        pytest.skip(message)


@pytest.fixture
def server(serve, repositories, monkeypatch):
    """Gives up at once where git-lfs would wait and try again."""
    for number, (key, value) in enumerate(
        {"lfs.transfer.maxretries": "1", "lfs.transfer.maxretrydelay": "0"}.items()
    ):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    made = LfsServer(repositories.root)
    made.running = serve(made.answer)
    made.url = made.running.url
    return made


@pytest.fixture
def source(tmp_path, make_task):
    """A folder that becomes a repository, with two tasks."""
    for name in ("hello", "other"):
        make_task(f"source/tasks/{name}")
    (tmp_path / "source/.gitattributes").write_text(ATTRIBUTES)
    return tmp_path / "source"


class Fetching:
    """Makes a repository of the source, and fetches its tasks."""

    def __init__(self, cache, repositories, server, source):
        self.cache = cache
        self.told = []
        self._repositories, self._server, self._source = repositories, server, source

    def commit(self):
        commit = self._repositories.make("acme/bench.git", self._source)
        url = f"{self._server.url}/acme/bench.git"
        return [GitTask(url, commit, f"tasks/{name}") for name in ("hello", "other")]

    def fetch(self, tasks):
        found = Fetcher(self.cache, self.told.append, hub=None).fetch(tasks, "bench")
        return [found[task] for task in tasks]

    def __call__(self):
        return self.fetch(self.commit())


@pytest.fixture
def fetching(cache, repositories, server, source, git_lfs):
    return Fetching(cache, repositories, server, source)


def test_files_in_lfs_have_their_content(fetching, server, source):
    (source / "tasks/hello/environment/data.bin").write_bytes(server.add(BYTES))
    (source / "tasks/hello/tests/other.bin").write_bytes(server.add(b"more"))
    (source / "tasks/hello/tests/run.bin").write_bytes(server.add(BYTES))
    (source / "tasks/hello/tests/run.bin").chmod(0o755)
    (source / "tasks/hello/tests/link").symlink_to("other.bin")
    hello, other = fetching()
    folder = hello.task.folder
    assert (folder / "environment/data.bin").read_bytes() == BYTES
    assert (folder / "tests/link").read_bytes() == b"more"
    assert (folder / "tests/run.bin").read_bytes() == BYTES
    assert (folder / "tests/run.bin").stat().st_mode & 0o777 == 0o755
    assert other.task is not None
    # Each object was asked for once, all in one go.
    assert [sorted(batch) for batch in server.asked] == [sorted(server.objects)]


def test_the_digest_is_that_of_the_content(fetching, server, source, tmp_path):
    (source / "tasks/hello/tests/data.bin").write_bytes(server.add(BYTES))
    hello, _ = fetching()
    (source / "tasks/hello/tests/data.bin").write_bytes(BYTES)
    assert hello.task.digest == task_digest(source / "tasks/hello")


def test_what_is_in_the_cache_needs_no_server(fetching, server, source):
    (source / "tasks/hello/tests/data.bin").write_bytes(server.add(BYTES))
    tasks = fetching.commit()
    first = fetching.fetch(tasks)
    server.running.stop()
    assert fetching.fetch(tasks) == first


@pytest.mark.parametrize(
    ("place", "attributes", "is_content"),
    [
        (".gitattributes", "*.bin filter=lfs\n", True),
        (".gitattributes", "[attr]big filter=lfs -text\n*.bin big\n", True),
        (".gitattributes", "/data.bin filter=lfs\n", False),
        (".gitattributes", "*.bin filter=other\n", False),
        ("tasks/.gitattributes", "hello/** filter=lfs\n", True),
        ("tasks/hello/.gitattributes", "*.bin filter=lfs\n", True),
        ("tasks/hello/tests/.gitattributes", "data.* filter=lfs\n", True),
        ("tasks/hello/tests/.gitattributes", "*.bin -filter\n", False),
        ("tasks/other/.gitattributes", "* filter=lfs\n", False),
        ("README.md", "*.bin filter=lfs\n", False),
    ],
)
def test_the_attributes_say_which_files_are_in_lfs(
    fetching, server, source, place, attributes, is_content
):
    text = server.add(BYTES)
    if not place.endswith("tests/.gitattributes"):
        (source / ".gitattributes").unlink()
    (source / place).write_text(attributes)
    (source / "tasks/hello/tests/data.bin").write_bytes(text)
    hello, _ = fetching()
    assert (hello.task.folder / "tests/data.bin").read_bytes() == (BYTES if is_content else text)
    warned = [line for line in fetching.told if line.startswith("warning: ")]
    assert bool(warned) is not is_content
    assert all("kept as they are, as in a checkout: tests/data.bin" in line for line in warned)


def test_a_pointer_kept_as_it_is_is_told_of_from_the_cache_too(fetching, server, source):
    (source / "tasks/hello/tests/data.txt").write_bytes(pointer(BYTES))
    tasks = fetching.commit()
    fetching.fetch(tasks)
    fetching.told.clear()
    fetching.fetch(tasks)
    (line,) = fetching.told
    assert "kept as they are" in line


def test_attributes_of_the_users_own_have_no_say(fetching, source, tmp_path, monkeypatch):
    (source / ".gitattributes").unlink()
    (tmp_path / "attributes").write_text("* filter=lfs\n")
    (tmp_path / "gitconfig").write_text(f"[core]\nattributesFile = {tmp_path / 'attributes'}\n")
    (source / "tasks/hello/tests/data.txt").write_bytes(pointer(BYTES))
    tasks = fetching.commit()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    hello, _ = fetching.fetch(tasks)
    assert (hello.task.folder / "tests/data.txt").read_bytes() == pointer(BYTES)


def test_ordinary_files_among_those_of_lfs_are_kept(fetching, server, source):
    (source / "tasks/hello/tests/empty.bin").write_bytes(b"")
    (source / "tasks/hello/tests/large.bin").write_bytes(pointer(BYTES) + b"#" * 1024)
    (source / "tasks/hello/tests/small.bin").write_bytes(b"MZ")
    (source / "tasks/hello/tests/nothing.bin").write_bytes(server.add(b""))
    hello, _ = fetching()
    tests = hello.task.folder / "tests"
    assert (tests / "empty.bin").read_bytes() == (tests / "nothing.bin").read_bytes() == b""
    assert (tests / "large.bin").stat().st_size == len(pointer(BYTES)) + 1024
    assert (tests / "small.bin").read_bytes() == b"MZ"
    assert server.asked == []


class TestWhatCannotBeHad:
    """Is an error of the task that needs it; the others run, and nothing half is kept."""

    @pytest.fixture(autouse=True)
    def one_pointer(self, source):
        (source / "tasks/hello/tests/data.bin").write_bytes(pointer(BYTES))

    @staticmethod
    def told(fetching):
        hello, other = fetching()
        assert other.task is not None
        assert hello.task is None
        assert len(fetching.cache.entries()) == 1
        assert list((fetching.cache.root / "tmp").iterdir()) == []
        return hello.fault

    def test_an_object_that_the_server_does_not_have(self, fetching):
        told = self.told(fetching)
        assert "in Git LFS and could not be had: tests/data.bin" in told
        assert "Object does not exist on the server" in told

    def test_nothing_of_it_is_kept_and_the_next_run_asks_again(self, fetching, server):
        tasks = fetching.commit()
        fetching.fetch(tasks)
        server.add(BYTES)
        hello, _ = fetching.fetch(tasks)
        assert (hello.task.folder / "tests/data.bin").read_bytes() == BYTES

    def test_a_quota(self, fetching, server):
        words = "This repository is over its data quota."
        server.batch = lambda request: lfs_json(403, {"message": words})
        told = self.told(fetching)
        assert words in told
        assert "has no more traffic for Git LFS" in told

    def test_a_server_without_lfs(self, fetching, server):
        server.batch = lambda request: (404, {}, b"")
        assert "git lfs failed" in self.told(fetching)

    def test_a_private_server_of_objects(self, fetching, server):
        server.batch = lambda request: (401, {"WWW-Authenticate": 'Basic realm="x"'}, b"")
        assert "let git's credential helper know" in self.told(fetching)

    def test_a_missing_program(self, fetching, monkeypatch, tmp_path):
        tasks = fetching.commit()
        (tmp_path / "bin").mkdir()
        for name in ("git", "sh"):
            (tmp_path / "bin" / name).symlink_to(shutil.which(name))
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        hello, other = fetching.fetch(tasks)
        assert other.task is not None
        assert "install the program git-lfs, and run again" in hello.fault

    def test_other_content(self, fetching, server):
        server.objects[hashlib.sha256(BYTES).hexdigest()] = b"other"
        assert "could not be had: tests/data.bin" in self.told(fetching)

    def test_more_than_was_announced(self, fetching, server, monkeypatch):
        server.add(BYTES)
        is_over = threading.Event()
        usual = server.running.answer

        def endless(method, path, headers, body):
            if path.startswith("/objects/"):
                is_over.wait(60)
            return usual(method, path, headers, body)

        server.running.answer = endless
        monkeypatch.setattr(lfs_module, "size_on_disk", lambda folder: 10**9)
        try:
            told = self.told(fetching)
        finally:
            is_over.set()
        assert "more than its pointers announce: 954 MiB in place of 2.93 KiB" in told

    def test_another_size_than_the_pointers(self, fetching, server, source):
        (source / "tasks/hello/tests/data.bin").write_bytes(pointer(BYTES, size=len(BYTES) + 1))
        server.add(BYTES)
        told = self.told(fetching)
        assert "Git LFS" in told

    def test_a_task_that_is_too_large_before_anything_is_asked_for(
        self, fetching, server, source
    ):
        size = write_module.MAX_BYTES + 1
        (source / "tasks/hello/tests/data.bin").write_bytes(pointer(BYTES, size=size))
        assert "larger than 4 GiB, which is the most for one task" in self.told(fetching)
        assert server.asked == []

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("oid sha256:00\nsize 1\n", "begins as a pointer of Git LFS, and is none"),
            ("oid md5:00\nsize 1\n", "begins as a pointer"),
            (f"oid sha256:{'0' * 64}\nsize -1\n", "begins as a pointer"),
            (
                f"ext-0-x sha256:{'1' * 64}\noid sha256:{'0' * 64}\nsize 1\n",
                "made by an extension of Git LFS (ext-0-x)",
            ),
        ],
    )
    def test_a_pointer_that_cannot_be_followed(self, fetching, server, source, text, said):
        (source / "tasks/hello/tests/data.bin").write_text(
            f"version https://git-lfs.github.com/spec/v1\n{text}"
        )
        told = self.told(fetching)
        assert "'tests/data.bin'" in told
        assert said in told
        assert server.asked == []


class TestThePlaceOfTheObjects:
    @pytest.fixture(autouse=True)
    def one_pointer(self, source, server):
        (source / "tasks/hello/tests/data.bin").write_bytes(server.add(BYTES))

    @staticmethod
    def point_to(source, url):
        (source / ".lfsconfig").write_text(f"[lfs]\n\turl = {url}\n\tfetchexclude = *\n")

    def test_may_be_another_on_the_repositorys_own_host(self, fetching, server, source):
        self.point_to(source, f"{server.url}/elsewhere")
        hello, _ = fetching()
        assert (hello.task.folder / "tests/data.bin").read_bytes() == BYTES
        assert "/elsewhere/objects/batch" in server.running.paths

    def test_on_another_host_is_not_asked_unless_the_user_says_so(
        self, fetching, server, source, serve, monkeypatch
    ):
        elsewhere = serve(server.answer)
        self.point_to(source, f"{elsewhere.url}/objects-of/bench")
        del server.objects[(oid := hashlib.sha256(BYTES).hexdigest())]
        tasks = fetching.commit()
        hello, _ = fetching.fetch(tasks)
        assert f"{elsewhere.url}/objects-of/bench, which is not asked" in hello.fault
        assert f"GIT_CONFIG_VALUE_0={elsewhere.url}/objects-of/bench" in hello.fault
        assert elsewhere.paths == []
        server.objects[oid] = BYTES
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "lfs.url")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"{elsewhere.url}/objects-of/bench")
        hello, _ = fetching.fetch(tasks)
        assert hello.task is not None
        assert "/objects-of/bench/objects/batch" in elsewhere.paths

    @pytest.mark.parametrize("url", ["file:///etc", "ssh://-oProxyCommand=x/y", "", "https://"])
    def test_is_nothing_on_this_machine(self, fetching, server, source, url):
        self.point_to(source, f'"{url}"')
        hello, _ = fetching()
        assert hello.task is not None

    def test_of_a_private_repository_asks_gits_own_settings(
        self, fetching, server, source, monkeypatch
    ):
        server.token = "Basic token"
        tasks = fetching.commit()
        monkeypatch.setenv("GIT_CONFIG_COUNT", "3")
        monkeypatch.setenv("GIT_CONFIG_KEY_2", "http.extraHeader")
        monkeypatch.setenv("GIT_CONFIG_VALUE_2", "Authorization: Basic token")
        hello, _ = fetching.fetch(tasks)
        assert (hello.task.folder / "tests/data.bin").read_bytes() == BYTES

    def test_of_a_repository_on_this_machine_is_beside_it(
        self, fetching, server, source, repositories, cache
    ):
        oid = hashlib.sha256(BYTES).hexdigest()
        (task, _) = fetching.commit()
        objects = repositories.root / "acme/bench.git/lfs/objects" / oid[:2] / oid[2:4]
        objects.mkdir(parents=True)
        (objects / oid).write_bytes(BYTES)
        local = GitTask(repositories.url("acme/bench.git"), task.commit, task.path)
        (hello,) = fetching.fetch([local])
        assert (hello.task.folder / "tests/data.bin").read_bytes() == BYTES
        assert server.asked == []


def test_settings_for_lfs_of_the_users_own_leave_nothing_out(
    fetching, server, source, tmp_path, monkeypatch
):
    (source / "tasks/hello/tests/data.bin").write_bytes(server.add(BYTES))
    tasks = fetching.commit()
    (tmp_path / "gitconfig").write_text(
        f"[lfs]\nfetchexclude = *\nfetchinclude = none\nstorage = {tmp_path / 'elsewhere'}\n"
        "skipdownloaderrors = true\n"
        '[filter "lfs"]\nsmudge = git-lfs smudge --skip -- %f\nrequired = true\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_LFS_SKIP_SMUDGE", "1")
    hello, _ = fetching.fetch(tasks)
    assert (hello.task.folder / "tests/data.bin").read_bytes() == BYTES
    assert not (tmp_path / "elsewhere").exists()


def test_an_entry_of_before_that_may_hold_pointers_is_downloaded_again(
    fetching, server, source, cache
):
    (source / "tasks/hello/tests/data.bin").write_bytes(server.add(BYTES))
    tasks = fetching.commit()
    fetching.fetch(tasks)
    place = cache.root / "tasks" / tasks[0].key
    entry = place / "entry.json"
    entry.write_text(entry.read_text().replace('"schema": 2', '"schema": 1'))
    (place / "files/hello/tests/data.bin").write_bytes(pointer(BYTES))
    hello, _ = fetching.fetch(tasks)
    assert (hello.task.folder / "tests/data.bin").read_bytes() == BYTES


def test_a_large_object_tells_how_far_it_is(fetching, server, source, monkeypatch):
    monkeypatch.setattr(lfs_module, "_TELL_EVERY_SEC", -1.0)
    (source / "tasks/hello/tests/data.bin").write_bytes(server.add(BYTES))
    tasks = fetching.commit()
    fetching.fetch(tasks)
    assert "1 file of Git LFS, 2.93 KiB" in fetching.told


@pytest.mark.parametrize(
    ("first", "is_pointer"),
    [
        ("version https://git-lfs.github.com/spec/v1\r", True),
        ("version https://hawser.github.com/spec/v1", True),
        ("version http://git-media.io/v/2", True),
        ("version https://git-lfs.github.com/spec/v2", False),
        ("version 1.0", False),
        ("", False),
    ],
)
def test_pointers_are_known_by_their_first_line(first, is_pointer):
    text = f"{first}\noid sha256:{'a' * 64}\nsize 12\n"
    found = parse_pointer(text.encode())
    assert found == (Pointer("a" * 64, 12) if is_pointer else None)


def test_a_pointers_faults_are_errors():
    with pytest.raises(DatasetError, match="is none"):
        parse_pointer(pointer(b"x").replace(b"size", b"sise"))


_DOWNLOAD = """
import sys
from pytest_harbor.dataset.cache import Cache
from pytest_harbor.dataset.fetch import Fetcher
from pytest_harbor.dataset.source import GitTask
Fetcher(Cache(), print, hub=None).fetch([GitTask(*sys.argv[1:])], "x")
"""


def test_a_download_killed_while_objects_come_leaves_no_pointer(fetching, server, source, cache):
    (source / "tasks/hello/tests/data.bin").write_bytes(server.add(BYTES))
    task, _ = fetching.commit()
    is_asked, let_go = threading.Event(), threading.Event()
    usual = server.running.answer

    def held_up(method, path, headers, body):
        if path.startswith("/objects/"):
            is_asked.set()
            let_go.wait(60)
        return usual(method, path, headers, body)

    server.running.answer = held_up
    program = [sys.executable, "-c", _DOWNLOAD, task.url, task.commit, task.path]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL) as run:
        assert is_asked.wait(60)
        run.kill()
    assert cache.entries() == []
    assert list((cache.root / "tmp").glob("work-*"))
    let_go.set()
    server.running.answer = usual
    (hello,) = fetching.fetch([task])
    assert (hello.task.folder / "tests/data.bin").read_bytes() == BYTES
