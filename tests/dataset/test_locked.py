"""``--harbor-locked``: a dataset as it was pinned, and what its name means by now."""

import json
from dataclasses import replace

import pytest

from pytest_harbor.dataset import http as http_module
from pytest_harbor.dataset.dataset import Dataset, DatasetTask
from pytest_harbor.dataset.drift import drift
from pytest_harbor.dataset.place import parse_place
from pytest_harbor.dataset.resolve import Resolver
from pytest_harbor.dataset.source import GitTask, HubTask
from pytest_harbor.trial.lock import Conditions, lock_json
from tests.dataset.conftest import git
from tests.plugin.conftest import Project

URL = "https://a.example/b/c"
ONE, TWO = "1" * 40, "2" * 40


def _dataset(version: str = "1.0", **commits: str) -> Dataset:
    tasks = tuple(DatasetTask(name, GitTask(URL, one, name)) for name, one in commits.items())
    return Dataset("bench@1.0", "bench", version, "bench@1.0", tasks)


AS = "bench@1.0 is run as it was pinned, and by now "


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (_dataset(a=ONE, b=ONE), ""),
        (_dataset(b=ONE, a=ONE), ""),
        (_dataset("1.1", a=ONE, b=ONE), f"{AS}is 1.1 (was 1.0)"),
        (_dataset(a=ONE), f"{AS}has no more b"),
        (_dataset(a=ONE, b=ONE, c=ONE), f"{AS}has c too"),
        (_dataset(a=ONE, b=TWO), f"{AS}has other versions of b"),
        (
            _dataset(**{f"t{number}": ONE for number in range(7)}),
            f"{AS}has t0, t1, t2, t3, t4 and 2 more too; has no more a, b",
        ),
    ],
)
def test_what_a_name_means_by_now_is_told(now, said):
    assert drift(_dataset(a=ONE, b=ONE), now) == said


def test_a_branch_that_went_on_is_told_once():
    pinned, now = _dataset(ONE[:12], a=ONE, b=ONE), _dataset(TWO[:12], a=TWO, b=TWO)
    assert drift(pinned, now) == f"{AS}is {TWO[:12]} (was {ONE[:12]})"


def test_another_digest_of_a_hub_is_told():
    digests = ["sha256:" + digit * 64 for digit in "12"]
    pinned, now = (
        replace(_dataset(one), tasks=(DatasetTask("a", HubTask("acme", "a", one)),))
        for one in digests
    )
    assert drift(pinned, now) == (
        f"{AS}is sha256:222222222222 (was sha256:111111111111); has other versions of a"
    )


@pytest.fixture
def project(pytester, make_task) -> Project:
    return Project(pytester, make_task)


class Bench:
    """A dataset of a registry, and the lock of a job that ran it."""

    def __init__(self, project, repositories, make_task, tmp_path, cache):
        for name in ("hello", "other"):
            make_task(f"source/tasks/{name}")
        self.project = project
        self.source = tmp_path / "source"
        self.repositories = repositories
        self.first = repositories.make("bench.git", self.source)
        self.place = project.path / "registry.json"
        self.list_tasks("hello", "other")
        self.cache = cache
        self.job = project.path / "jobs/earlier"

    def list_tasks(self, *names: str, commit: str = "", version: str = "1.0") -> None:
        url = self.repositories.url("bench.git")
        tasks = [
            {"name": name, "path": f"tasks/{name}", "git_url": url}
            | {"git_commit_id": commit or self.first}
            for name in names
        ]
        row = {"name": "bench", "version": version, "description": "", "tasks": tasks}
        self.place.write_text(json.dumps([row]))

    def commit_again(self) -> str:
        (self.source / "tasks/other/instruction.md").write_text("Do more.\n")
        commit = self.repositories.commit(self.source)
        git("push", "-q", "origin", "main", cwd=self.source)
        return commit

    def lock(self, asked: str = "bench@1.0", registry: str = "registry.json") -> None:
        base = self.project.path
        place = parse_place(registry, base)
        found = Resolver(self.cache, print, place, None, base).resolve(asked)
        self.job.mkdir(parents=True)
        conditions = Conditions({}, {}, [found.as_json()], {})
        (self.job / "lock.json").write_text(json.dumps(lock_json(conditions, [])))

    def run(self, *args: str):
        return self.project.run(f"--harbor-locked={self.job}", "--collect-only", "-q", *args)


@pytest.fixture
def bench(project, repositories, make_task, tmp_path, cache, monkeypatch):
    monkeypatch.setattr(make_task, "root", tmp_path)
    monkeypatch.setattr(http_module, "_TRIES", 0)
    return Bench(project, repositories, make_task, tmp_path, cache)


IDS = ["bench@1.0/hello/task.toml::oracle", "bench@1.0/other/task.toml::oracle"]


def test_a_registry_that_says_the_same_is_not_spoken_of(bench):
    bench.lock()
    result = bench.run()
    result.stdout.fnmatch_lines(IDS)
    result.stdout.no_fnmatch_line("*by now*")


def test_a_registry_that_says_something_else_is_told_of_and_the_pinned_is_run(bench, cache):
    bench.lock()
    bench.list_tasks("other", commit=bench.commit_again())
    result = bench.run()
    result.stdout.fnmatch_lines(
        ["harbor: bench@1.0 is run as it was pinned, and by now has no more hello; has other "
         "versions of other", *IDS]
    )  # fmt: skip
    assert {one.source.split()[1] for one in cache.entries()} == {bench.first[:12]}


def test_another_registry_may_be_named_to_look_in(bench):
    bench.lock()
    other = bench.project.path / "other.json"
    bench.place.rename(other)
    bench.list_tasks("hello")
    result = bench.run("--harbor-registry=other.json")
    result.stdout.no_fnmatch_line("*by now*")
    bench.run().stdout.fnmatch_lines(["*by now has no more other*"])


def test_a_version_that_is_gone_is_told(bench):
    bench.lock()
    bench.list_tasks("hello", version="2.0")
    result = bench.run()
    result.stdout.fnmatch_lines(["*is run as it was pinned; what it is by now is not known: *"])
    result.stdout.fnmatch_lines(IDS)


def test_a_branch_that_went_on_is_told_of(bench):
    url = bench.repositories.url("bench.git")
    bench.lock(f"{url}@main")
    second = bench.commit_again()
    result = bench.run()
    result.stdout.fnmatch_lines(
        [f"*@main is run as it was pinned, and by now is {second[:12]} (was {bench.first[:12]})"]
    )


def test_a_commit_is_not_asked_for_again(bench, cache):
    url = bench.repositories.url("bench.git")
    bench.lock(f"{url}@{bench.first}")
    assert bench.run().ret == 0
    (bench.repositories.root / "bench.git").rename(bench.repositories.root / "gone.git")
    result = bench.run()
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*by now*")


def test_without_a_network_the_pinned_is_run(bench, serve):
    server = serve(lambda *_: (200, {}, bench.place.read_bytes()))
    bench.lock()
    assert bench.run().ret == 0
    lock = bench.job / "lock.json"
    lock.write_text(lock.read_text().replace(str(bench.place), f"{server.url}/registry.json"))
    server.stop()
    result = bench.run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*what it is by now is not known: http*does not answer*", *IDS])
