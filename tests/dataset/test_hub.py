"""Published datasets: a server that answers as Harbor's Hub does."""

import re
import tarfile

import pytest

from pytest_harbor.dataset import archive as archive_module
from pytest_harbor.dataset import http as http_module
from pytest_harbor.dataset.fetch import Fetcher
from pytest_harbor.dataset.hub import KEY_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE, Hub
from pytest_harbor.dataset.place import parse_place
from pytest_harbor.dataset.resolve import Resolver
from pytest_harbor.errors import DatasetError, DatasetUnreachableError
from tests.dataset.conftest import HubData, archive, content_of, packed


@pytest.fixture
def data() -> HubData:
    return HubData()


@pytest.fixture
def server(data, serve):
    return serve(data.answer)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def resolve(cache, server, told, tmp_path):
    resolver = Resolver(
        cache, told.append, parse_place(None, tmp_path), lambda: Hub(server.url), tmp_path
    )
    return resolver.resolve


@pytest.fixture
def fetch(cache, server, told, resolve):
    def run(asked: str = "acme/bench"):
        dataset = resolve(asked)
        fetcher = Fetcher(cache, told.append, hub=lambda: Hub(server.url))
        found = fetcher.fetch([task.source for task in dataset.tasks], dataset.label)
        return {task.name: found[task.source] for task in dataset.tasks}

    return run


@pytest.mark.parametrize("ref", ["", "@latest", "@v1", "@3", "@{digest}"])
def test_a_dataset_is_named_by_tag_revision_or_digest(data, resolve, make_task, ref):
    data.publish(make_task("b"))
    data.publish(make_task("a"))
    dataset = resolve(f"acme/bench{ref.format(digest=data.digest)}")
    assert [task.name for task in dataset.tasks] == ["a", "b"]
    assert (dataset.name, dataset.version) == ("acme/bench", data.digest)
    assert dataset.label.startswith("acme/bench@")


def test_tasks_are_what_was_published(data, fetch, make_task):
    folder = make_task("hello")
    digest = data.publish(folder)
    task = fetch()["hello"].task
    assert content_of(task.folder) == content_of(folder)
    assert task.digest == digest
    assert (task.folder / "tests/test.sh").stat().st_mode & 0o111


def test_more_tasks_than_a_page_has(data, resolve):
    data.tasks = {f"t{number}": f"{number:064x}" for number in range(1003)}
    assert len(resolve("acme/bench").tasks) == 1003


def test_a_pinned_dataset_in_the_cache_needs_no_hub(data, fetch, make_task, server, monkeypatch):
    monkeypatch.setattr(http_module, "_TRIES", 0)
    data.publish(make_task("hello"))
    first = fetch(f"acme/bench@{data.digest}")
    server.stop()
    assert fetch(f"acme/bench@{data.digest}") == first
    with pytest.raises(DatasetUnreachableError, match="does not answer"):
        fetch("acme/bench")


@pytest.mark.parametrize("asked", ["acme/other", "acme/bench@v2", "acme/bench@4"])
def test_what_the_hub_does_not_have_is_told(data, resolve, make_task, asked):
    data.publish(make_task("hello"))
    with pytest.raises(DatasetError, match=f"the Hub has no dataset {asked}"):
        resolve(asked)


def test_an_empty_dataset_and_hidden_tasks_are_errors(data, resolve, make_task):
    with pytest.raises(DatasetError, match="has no tasks"):
        resolve("acme/bench")
    data.publish(make_task("hello"))
    data.hidden = 2
    with pytest.raises(DatasetError, match="2 of its 3 tasks cannot be had"):
        resolve("acme/bench")


def test_a_yanked_version_is_told_of(data, resolve, make_task):
    data.publish(make_task("hello"))
    data.yanked = "leaked"
    assert resolve("acme/bench").notes == ("acme/bench@latest was yanked: leaked",)


def test_a_dataset_that_is_not_what_it_says_is_refused(data, resolve, make_task):
    data.publish(make_task("hello"))
    data.claims = "sha256:" + "0" * 64
    with pytest.raises(DatasetError, match="the Hub says sha256:000"):
        resolve("acme/bench")


def test_a_task_that_is_not_what_it_says_is_refused(data, fetch, make_task):
    good, bad = make_task("good"), make_task("bad", instruction="Another.\n")
    data.publish(good)
    data.publish(bad, packed(good))
    tasks = fetch()
    assert "the Hub gave other content" in tasks["bad"].fault
    assert tasks["good"].task is not None


def test_keys_go_to_the_hub_alone(data, server, resolve, make_task, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "public")
    monkeypatch.setenv(TOKEN_VARIABLE, "mine")
    data.publish(make_task("hello"))
    resolve("acme/bench")
    assert server.headers[0]["apikey"] == "public"
    assert server.headers[0]["Authorization"] == "Bearer mine"
    server.answer = lambda *_: (302, {"Location": "http://127.0.0.1:1/"}, b"")
    with pytest.raises(DatasetError, match=r"refused \(status 302\)"):
        resolve("acme/bench")


def test_a_hub_must_be_named(monkeypatch):
    with pytest.raises(DatasetError, match="--harbor-hub, the ini value harbor_hub"):
        Hub()
    monkeypatch.setenv(URL_VARIABLE, "ftp://host.example")
    with pytest.raises(DatasetError, match="expected a URL with https://"):
        Hub()


def _member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (archive({"../out": b"x"}), "is not taken"),
        (archive({"/tmp/out": b"x"}), "is not taken"),
        (archive({"a": b"1"}, _member("a", tarfile.REGTYPE)), "is there twice"),
        (archive({}, _member("a", tarfile.SYMTYPE, "../../out")), "leaves the task's folder"),
        (archive({"b/x": b""}, _member("b", tarfile.SYMTYPE, "/tmp")), "lies below|there twice"),
        (archive({}, _member("a", tarfile.LNKTYPE, "/etc/passwd")), "neither a file nor a folder"),
        (archive({}, _member("a", tarfile.FIFOTYPE)), "neither a file nor a folder"),
        (archive({}, _member("a", tarfile.CHRTYPE)), "neither a file nor a folder"),
        (archive({"a": b"x"})[:30], "cannot be read"),
        (b"no archive", "cannot be read"),
        (archive({"a": b"\0" * 4_000_000}), "unpacks to more"),
    ],
    # An archive says when it was made: not the same in every worker.
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hostile_archive_is_that_tasks_fault(
    data, fetch, make_task, cache, monkeypatch, content, said
):
    monkeypatch.setattr(archive_module, "MAX_UNPACKED", 2_000_000)
    data.publish(make_task("hello"), content)
    assert re.search(said, fetch()["hello"].fault)
    assert cache.entries() == []
