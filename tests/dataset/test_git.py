"""Datasets in git repositories, as a server gives them."""

import errno
import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_harbor.dataset import fetch as fetch_module
from pytest_harbor.dataset import git_program
from pytest_harbor.dataset import http as http_module
from pytest_harbor.dataset.cache import Cache, check_unchanged
from pytest_harbor.dataset.fetch import Fetcher
from pytest_harbor.dataset.git import resolve_ref, with_commit
from pytest_harbor.dataset.hub import Hub
from pytest_harbor.dataset.place import parse_place
from pytest_harbor.dataset.resolve import Resolver
from pytest_harbor.dataset.room import RoomError
from pytest_harbor.dataset.source import GitTask, source_of_json
from pytest_harbor.errors import DatasetError, DatasetUnreachableError
from tests.dataset.conftest import content_of, git, git_backend


class Downloader:
    """Resolves and fetches as a run does."""

    def __init__(self, cache: Cache, base: Path) -> None:
        self.cache = cache
        self.base = base
        self.told: list[str] = []

    def resolve(self, asked: str, registry: str | None = None):
        place = parse_place(registry, self.base)
        return Resolver(self.cache, self.told.append, place, Hub, self.base).resolve(asked)

    def fetch(self, asked: str, registry: str | None = None):
        dataset = self.resolve(asked, registry)
        fetcher = Fetcher(self.cache, self.told.append, hub=Hub)
        found = fetcher.fetch([task.source for task in dataset.tasks], dataset.label)
        return {task.name: found[task.source] for task in dataset.tasks}


@pytest.fixture
def download(cache, tmp_path) -> Downloader:
    return Downloader(cache, tmp_path)


@pytest.fixture
def source(tmp_path, make_task) -> Path:
    """A folder that becomes a repository, with two tasks."""
    for name in ("hello", "other"):
        make_task(f"source/tasks/{name}")
    (tmp_path / "source/tasks/hello/tests/test.sh").chmod(0o755)
    (tmp_path / "source/README.md").write_text("no task\n")
    return tmp_path / "source"


@pytest.mark.parametrize("filters", [True, False])
def test_the_tasks_of_a_repository_on_a_server_are_its_dataset(
    download, source, repositories, serve, filters
):
    repositories.make("acme/bench.git", source, filters=filters)
    server = serve(git_backend(repositories.root))
    tasks = download.fetch(f"{server.url}/acme/bench.git@main")
    assert list(tasks) == ["hello", "other"]
    for name, one in tasks.items():
        assert content_of(one.task.folder) == content_of(source / "tasks" / name)
    assert (tasks["hello"].task.folder / "tests/test.sh").stat().st_mode & 0o777 == 0o755
    assert (tasks["other"].task.folder / "tests/test.sh").stat().st_mode & 0o777 == 0o644


def test_a_server_of_plain_files_will_do(download, source, repositories, serve):
    repositories.make("bench.git", source)
    git("update-server-info", cwd=repositories.root / "bench.git")

    def answer(method, path, headers, body):
        place = repositories.root / path.partition("?")[0].lstrip("/")
        return (200, {}, place.read_bytes()) if place.is_file() else (404, {}, b"")

    tasks = download.fetch(f"{serve(answer).url}/bench.git")
    assert list(tasks) == ["hello", "other"]


def test_a_pinned_dataset_in_the_cache_needs_no_server(download, source, repositories, serve):
    commit = repositories.make("acme/bench.git", source)
    server = serve(git_backend(repositories.root))
    first = download.fetch(f"{server.url}/acme/bench.git@{commit}")
    server.stop()
    assert download.fetch(f"{server.url}/acme/bench.git@{commit}") == first
    with pytest.raises(DatasetUnreachableError, match="git ls-remote failed"):
        download.fetch(f"{server.url}/acme/bench.git@main")


def test_a_branch_is_looked_up_again_and_only_what_is_new_is_downloaded(
    download, source, repositories, make_task
):
    repositories.make("bench.git", source)
    url = repositories.url("bench.git")
    first = download.fetch(f"{url}@main")
    (source / "tasks/other/instruction.md").write_text("Do more.\n")
    repositories.commit(source)
    git("push", "-q", "origin", "main", cwd=source)
    second = download.fetch(f"{url}@main")
    assert first["other"].task.digest != second["other"].task.digest
    assert first["hello"].task.digest == second["hello"].task.digest


class TestSeveralCommits:
    """Tasks of one dataset at several commits, as registries have them."""

    @pytest.fixture
    def sources(self, source, repositories, serve):
        """One task at each of two commits, on a server that answers when both are asked for."""
        first = repositories.make("acme/bench.git", source)
        (source / "tasks/other/instruction.md").write_text("Do more.\n")
        second = repositories.commit(source)
        git("push", "-q", "origin", "main", cwd=source)
        self.backend = git_backend(repositories.root)
        self.barrier = threading.Barrier(2)
        self.server = serve(self.answer)
        url = f"{self.server.url}/acme/bench.git"
        return [GitTask(url, first, "tasks/hello"), GitTask(url, second, "tasks/other")]

    def answer(self, method, path, headers, body):
        if method == "GET":
            self.barrier.wait(60)
        return self.backend(method, path, headers, body)

    def test_are_fetched_at_the_same_time(self, download, source, sources):
        fetcher = Fetcher(download.cache, download.told.append, hub=Hub)
        # Each fetch begins with one question, and asks again for the files.
        found = fetcher.fetch(sources, "bench")
        for task in sources:
            assert found[task].task is not None
        assert (found[sources[1]].task.folder / "instruction.md").read_text() == "Do more.\n"

    def test_one_that_cannot_be_had_ends_the_others(self, download, sources, monkeypatch):
        monkeypatch.setattr(git_program, "_WATCH_EVERY_SEC", 0.02)
        let_go = threading.Event()
        lost = replace(sources[0], url=f"{self.server.url}/none.git")

        def answer(method, path, headers, body):
            if path.startswith("/none.git"):
                return 404, {}, b""
            let_go.wait(60)
            return 404, {}, b""

        self.server.answer = answer
        fetcher = Fetcher(download.cache, download.told.append, hub=Hub)
        with pytest.raises(DatasetUnreachableError, match=r"none\.git"):
            fetcher.fetch([lost, sources[1]], "bench")
        assert not let_go.is_set()
        let_go.set()
        assert list((download.cache.root / "tmp").iterdir()) == []


def test_refs_are_tags_branches_and_commits_and_nothing_that_ends_alike(source, repositories):
    commit = repositories.make("bench.git", source)
    bare = repositories.root / "bench.git"
    git("branch", "wip/main2", cwd=bare)
    git("tag", "-a", "v1", "-m", "x", cwd=bare)
    url = repositories.url("bench.git")
    assert {resolve_ref(url, ref) for ref in (None, "main", "v1", "wip/main2")} == {commit}
    with pytest.raises(DatasetError, match=r"no branch or tag 'main2': it has .*main"):
        resolve_ref(url, "main2")
    with pytest.raises(DatasetError, match="is no branch"):
        resolve_ref(url, "--upload-pack=x")


def test_the_repository_that_a_run_is_started_in_has_no_say(
    source, repositories, tmp_path, monkeypatch
):
    commit = repositories.make("bench.git", source)
    url = repositories.url("bench.git")
    here = tmp_path / "project"
    here.mkdir()
    git("init", "-q", cwd=here)
    git("remote", "add", "origin", "file:///nowhere/else.git", cwd=here)
    git("config", "url.file:///nowhere/.insteadOf", url, cwd=here)
    monkeypatch.chdir(here)
    assert resolve_ref(url, "main") == commit


def test_a_folder_of_the_repository_may_be_named(download, source, repositories, make_task):
    make_task("source/sets/small/a")
    repositories.make("bench.git", source)
    url = repositories.url("bench.git")
    dataset = download.resolve(f"{url}/tree/main/sets/small")
    assert [task.name for task in dataset.tasks] == ["a"]
    assert dataset.label == f"local/{source.parent.name}/bench@main/sets/small".replace(
        source.parent.name, "repositories"
    )
    assert [one.name for one in download.resolve(f"{url}/tree/main/tasks/hello").tasks] == ["hello"]
    with pytest.raises(DatasetError, match="There are tasks in sets/small, tasks: name the folder"):
        download.resolve(f"{url}/tree/main/sets")


def test_a_repository_without_tasks_folder_has_a_registry(download, source, repositories):
    (source / "tasks").rename(source / "some")
    row = {"name": "bench", "version": "1.0", "description": "", "tasks": []}
    row["tasks"] = [{"name": "hello", "path": "some/hello"}]
    (source / "registry.json").write_text(json.dumps([row]))
    commit = repositories.make("bench.git", source)
    url = repositories.url("bench.git")
    dataset = download.resolve(f"{url}@main")
    assert dataset.label.endswith("/bench@main/bench@1.0")
    assert [one.source.commit for one in dataset.tasks] == [commit]
    assert list(download.fetch("bench", f"git+{url}")) == ["hello"]


def test_a_registrys_refs_are_pinned_once(download, source, repositories, tmp_path):
    commit = repositories.make("bench.git", source)
    tasks = [
        {"name": name, "path": f"tasks/{name}", "git_url": repositories.url("bench.git")}
        for name in ("hello", "other", "hello")
    ]
    tasks[0]["git_commit_id"] = "main"
    row = {"name": "bench", "version": "1.0", "description": "", "tasks": tasks}
    (tmp_path / "registry.json").write_text(json.dumps([row]))
    dataset = download.resolve("bench@1.0", "registry.json")
    assert [(one.name, one.source.commit) for one in dataset.tasks] == [
        ("hello", commit),
        ("other", commit),
    ]


def test_a_registry_from_elsewhere_names_nothing_on_this_machine(
    download, source, repositories, serve
):
    repositories.make("bench.git", source)
    rows = [
        {"name": name, "version": "1", "description": "", "tasks": [task]}
        for name, task in (
            ("git", {"name": "a", "path": "tasks/hello", "git_url": repositories.url("bench.git")}),
            ("path", {"name": "a", "path": str(source / "tasks/hello")}),
            ("out", {"name": "a", "path": "../x", "git_url": "https://host.example/a/b"}),
            ("ext", {"name": "a", "path": "x", "git_url": "ext::sh -c id"}),
        )
    ]
    server = serve(lambda *_: (200, {}, json.dumps(rows).encode()))
    for name, said in (
        ("git", "only a registry on this machine may name repositories"),
        ("path", "only a registry on this machine may name folders"),
        ("out", "does not stay inside|does not answer|ls-remote"),
        ("ext", "names no dataset"),
    ):
        with pytest.raises(DatasetError, match=said):
            download.resolve(name, f"{server.url}/registry.json")


def test_a_registry_that_is_down_gives_what_it_gave_before_for_a_version(
    download, source, repositories, serve, monkeypatch
):
    monkeypatch.setattr(http_module, "_TRIES", 0)
    commit = repositories.make("acme/bench.git", source)
    backend = git_backend(repositories.root)

    def answer(method, path, headers, body):
        if path != "/registry.json":
            return backend(method, path, headers, body)
        task = {"name": "a", "path": "tasks/hello", "git_commit_id": commit}
        task["git_url"] = f"{server.url}/acme/bench.git"
        row = {"name": "bench", "version": "1.0", "description": "", "tasks": [task]}
        return 200, {}, json.dumps([row]).encode()

    server = serve(answer)
    registry = f"{server.url}/registry.json"
    first = download.fetch("bench@1.0", registry)
    download.fetch("bench", registry)
    server.stop()
    assert download.fetch("bench@1.0", registry) == first
    assert "as it was resolved before" in download.told[-1]
    with pytest.raises(DatasetUnreachableError, match=r"last resolved to 1\.0: bench@1\.0 means"):
        download.fetch("bench", registry)


@pytest.mark.parametrize("form", ["{url}", "{url}@main", "{url}/tree/main/tasks", "bench"])
def test_the_name_that_is_given_where_nobody_answers_needs_no_server(
    download, source, repositories, serve, tmp_path, form
):
    commit = repositories.make("acme/bench.git", source)
    server = serve(git_backend(repositories.root))
    url = f"{server.url}/acme/bench.git"
    tasks = [{"name": name, "path": f"tasks/{name}"} for name in ("hello", "other")]
    row = {"name": "bench", "version": "1.0", "description": "", "tasks": tasks}
    (source / "registry.json").write_text(json.dumps([row]))
    repositories.commit(source)
    git("push", "-q", "origin", "main", cwd=source)
    registry = f"git+{url}@main"
    first = download.fetch(form.format(url=url), registry)
    server.stop()
    with pytest.raises(DatasetUnreachableError) as caught:
        download.fetch(form.format(url=url), registry)
    named = re.search(r"(\S+) means that, and needs no network", str(caught.value))[1]
    assert named != form.format(url=url)
    assert commit not in named
    assert download.fetch(named, registry) == first


def test_a_folder_that_cannot_be_removed_hides_no_error(
    source, repositories, tmp_path, monkeypatch
):
    commit = repositories.make("bench.git", source)

    def busy(*args, **options):
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    def use(repository):
        monkeypatch.setattr(os, "rmdir", busy)
        raise RoomError("too large")

    with pytest.raises(RoomError, match="too large"):
        with_commit(repositories.url("bench.git"), commit, tmp_path, use)


def test_a_commit_that_is_gone_is_the_error_of_its_tasks_alone(
    download, source, repositories, tmp_path
):
    repositories.make("bench.git", source)
    url = repositories.url("bench.git")
    tasks = [{"name": name, "path": f"tasks/{name}", "git_url": url} for name in ("hello", "other")]
    tasks[1]["git_commit_id"] = "1" * 40
    row = {"name": "bench", "version": "1.0", "description": "", "tasks": tasks}
    (tmp_path / "registry.json").write_text(json.dumps([row]))
    found = download.fetch("bench@1.0", "registry.json")
    assert found["hello"].task
    assert f"{url} has no commit '{'1' * 40}'" in found["other"].fault
    with pytest.raises(DatasetError, match="has no commit"):
        download.resolve(f"{url}@{'1' * 40}")


def test_a_user_who_has_git_refuse_bare_repositories(
    download, source, repositories, tmp_path, monkeypatch
):
    repositories.make("bench.git", source)
    settings = tmp_path / "gitconfig"
    settings.write_text("[safe]\n\tbareRepository = explicit\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    assert list(download.fetch(repositories.url("bench.git"))) == ["hello", "other"]


@pytest.mark.parametrize(
    "known",
    [
        {"type": "git", "git_commit_id": "--upload-pack=touch made;git-upload-pack"},
        {"type": "git", "git_commit_id": "main"},
        {"type": "git", "git_url": "--upload-pack=touch made"},
        {"type": "git", "git_url": "ext::sh -c true"},
        {"type": "git", "git_url": "/a/b"},
        {"type": "git", "git_url": "https://me:secret@host.example/a/b"},
        {"type": "git", "path": "../../x"},
        {"type": "package", "org": "acme", "name": "../../x", "ref": "sha256:" + "0" * 64},
        {"type": "package", "org": "acme", "name": "x", "ref": "../x"},
        {"type": "package", "org": "acme", "name": "x", "ref": "latest"},
        {"type": "other"},
    ],
)
def test_a_source_in_a_file_of_strangers_is_looked_at(known):
    sound = {"git_url": "file:///a/b", "git_commit_id": "0" * 40, "path": "tasks/c"}
    assert source_of_json({"type": "git", **sound}) == GitTask("file:///a/b", "0" * 40, "tasks/c")
    with pytest.raises(DatasetError):
        source_of_json({**sound, **known})


def test_a_commit_is_no_option(tmp_path, source, repositories):
    repositories.make("bench.git", source)
    made = tmp_path / "made"
    option = f"--upload-pack=touch {made};git-upload-pack"
    with pytest.raises(DatasetError, match="has no commit"):
        with_commit(repositories.url("bench.git"), option, tmp_path, lambda found: found)
    assert not made.exists()


class TestHostileRepository:
    """Nothing of a repository runs here, and nothing is written outside its task."""

    @pytest.mark.parametrize("name", [os.fsdecode(b"caf\xe9.txt"), "x" * 300])
    def test_an_odd_name_is_no_other_tasks_fault(
        self, download, source, repositories, tmp_path, name
    ):
        repositories.make("bench.git", source)
        work = tmp_path / "work"
        git("clone", "-q", repositories.root / "bench.git", work, cwd=tmp_path)
        oid = git("rev-parse", "HEAD:README.md", cwd=work)
        added = f"100644,{oid},tasks/other/{name}"
        git("update-index", "--add", "--cacheinfo", added, cwd=work)
        git("commit", "-q", "-m", "x", cwd=work)
        git("push", "-q", "origin", "HEAD", cwd=work)
        found = download.fetch(repositories.url("bench.git"))
        assert found["hello"].task

    def test_a_faulty_task_leaves_the_others_alone(self, download, source, repositories):
        (source / "tasks/other/tests/out").symlink_to("/etc/passwd")
        repositories.make("bench.git", source)
        tasks = download.fetch(repositories.url("bench.git"))
        assert tasks["hello"].task is not None
        assert "the link 'tests/out' is not relative" in tasks["other"].fault

    def test_links_inside_of_a_task_become_files(self, download, source, repositories):
        (source / "tasks/hello/tests/link").symlink_to("../instruction.md")
        (source / "tasks/hello/steps").symlink_to("environment")
        repositories.make("bench.git", source)
        folder = download.fetch(repositories.url("bench.git"))["hello"].task.folder
        assert not any(one.is_symlink() for one in folder.rglob("*"))
        assert (folder / "tests/link").read_text() == (folder / "instruction.md").read_text()
        assert (folder / "steps/Dockerfile").is_file()

    def test_a_task_behind_a_link_is_refused(self, download, source, repositories, tmp_path):
        (source / "moved").symlink_to("tasks")
        repositories.make("bench.git", source)
        task = {"name": "a", "path": "moved/hello", "git_url": repositories.url("bench.git")}
        row = {"name": "bench", "version": "1.0", "description": "", "tasks": [task]}
        (tmp_path / "registry.json").write_text(json.dumps([row]))
        assert "symbolic link" in download.fetch("bench", "registry.json")["hello"].fault

    def test_no_filter_hook_or_submodule_takes_effect(
        self, download, source, repositories, tmp_path, monkeypatch
    ):
        trace = tmp_path / "ran"
        config = tmp_path / "gitconfig"
        config.write_text(
            f'[filter "evil"]\nsmudge = touch {trace}; cat\nprocess = touch {trace}\n'
            f"required = true\n[core]\nhooksPath = {tmp_path / 'hooks'}\nautocrlf = true\n"
            f"fsmonitor = touch {trace}\n[init]\ntemplateDir = {tmp_path / 'template'}\n"
        )
        for name in ("hooks/post-checkout", "hooks/reference-transaction", "template/hooks/x"):
            place = tmp_path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"#!/bin/sh\ntouch {trace}\n")
            place.chmod(0o755)
        (source / ".gitattributes").write_text("* filter=evil text\n")
        (source / ".gitmodules").write_text(
            f'[submodule "s"]\npath = tasks/hello/sub\nurl = file://{tmp_path}/none\n'
        )
        commit = repositories.make("bench.git", source)
        git(
            *("update-index", "--add", "--cacheinfo", f"160000,{commit},tasks/hello/sub"),
            cwd=source,
        )
        git("commit", "-q", "-m", "sub", cwd=source)
        git("push", "-q", "origin", "main", cwd=source)
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "another"))
        tasks = download.fetch(repositories.url("bench.git"))
        assert not trace.exists()
        folder = tasks["hello"].task.folder
        assert (folder / "tests/test.sh").read_bytes() == (
            source / "tasks/hello/tests/test.sh"
        ).read_bytes()
        assert list((folder / "sub").iterdir()) == []

    def test_a_private_repository_asks_gits_own_settings(
        self, download, source, repositories, serve, monkeypatch
    ):
        repositories.make("acme/bench.git", source)
        backend = git_backend(repositories.root)

        def answer(method, path, headers, body):
            if headers.get("Authorization") != "Basic token":
                return 401, {"WWW-Authenticate": 'Basic realm="x"'}, b""
            return backend(method, path, headers, body)

        url = f"{serve(answer).url}/acme/bench.git"
        with pytest.raises(DatasetUnreachableError, match="could not read Username"):
            download.fetch(url)
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "http.extraHeader")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", "Authorization: Basic token")
        assert download.fetch(url)["hello"].task is not None


def test_what_was_changed_in_the_cache_is_noticed(download, source, repositories):
    repositories.make("bench.git", source)
    task = download.fetch(repositories.url("bench.git"))["hello"].task
    check_unchanged(task)
    (task.folder / "tests/test.sh").chmod(0o644)
    with pytest.raises(DatasetError, match="cache clean --changed"):
        check_unchanged(task)


def test_a_download_that_is_cut_off_leaves_nothing_that_looks_whole(
    download, source, repositories, monkeypatch
):
    repositories.make("bench.git", source)
    url = repositories.url("bench.git")

    def cut_off(folder: Path) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fetch_module, "task_digest", cut_off)
        with pytest.raises(KeyboardInterrupt):
            download.fetch(url)
    assert download.cache.entries() == []
    assert list((download.cache.root / "tmp").iterdir()) == []
    assert all(one.task for one in download.fetch(url).values())


def test_runs_at_the_same_time_wait_for_each_other(download, source, repositories, cache):
    commit = repositories.make("bench.git", source)
    url = repositories.url("bench.git")
    group = GitTask(url, commit, ".").group
    with ThreadPoolExecutor(1) as pool:
        with cache.lock(group, print):
            running = pool.submit(download.fetch, f"{url}@{commit}")
            while not any("waiting for it" in line for line in download.told):
                time.sleep(0.02)
            assert cache.entries() == []
        assert list(running.result()) == ["hello", "other"]


def test_a_long_download_tells_how_far_it_is(download, source, repositories, monkeypatch):
    monkeypatch.setattr(fetch_module, "_TELL_EVERY_SEC", -1.0)
    repositories.make("bench.git", source)
    download.fetch(repositories.url("bench.git"))
    assert [line.rpartition(": ")[2] for line in download.told] == [
        "2 tasks, 2 to download",
        "2 tasks",
        "1 of 2",
        "2 of 2",
        "downloaded",
    ]


_KILLED = """
import os, signal, sys
from pathlib import Path
from pytest_harbor.dataset import fetch, git
from pytest_harbor.dataset.cache import Cache
from pytest_harbor.dataset.source import GitTask

def die(folder):
    os.kill(os.getpid(), signal.SIGKILL)

fetch.task_digest = die
task = GitTask(sys.argv[1], sys.argv[2], "tasks/hello")
fetch.Fetcher(Cache(), print, hub=None).fetch([task], "x")
"""


def test_what_a_killed_download_left_is_swept_by_the_next(download, source, repositories, tmp_path):
    commit = repositories.make("bench.git", source)
    url = repositories.url("bench.git")
    run = subprocess.run([sys.executable, "-c", _KILLED, url, commit], capture_output=True)
    assert run.returncode == -9, run.stderr.decode()
    left = list((download.cache.root / "tmp").glob("work-*"))
    assert any(one.is_dir() for one in left)
    assert download.cache.entries() == []
    tasks = download.fetch(f"{url}@{commit}")
    assert tasks["hello"].task is not None
    assert list((download.cache.root / "tmp").iterdir()) == []
