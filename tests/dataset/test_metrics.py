"""Metrics of a dataset's own: what a registry lists, and scripts that are pinned and never run."""

import hashlib
import json
import os

import pytest

from pytest_harbor.dataset import http as http_module
from pytest_harbor.dataset.dataset import dataset_of_json
from pytest_harbor.dataset.hub import Hub
from pytest_harbor.dataset.metric_script import MAX_BYTES, Scripts
from pytest_harbor.dataset.metrics import DatasetMetric
from pytest_harbor.dataset.place import RegistryReading, parse_place
from pytest_harbor.dataset.resolve import Resolver
from pytest_harbor.errors import DatasetError
from tests.dataset.conftest import HubData

SCRIPT = b"raise SystemExit('nobody asked for this to be run')\n"
DIGEST = "sha256:" + hashlib.sha256(SCRIPT).hexdigest()
MANIFEST = '[dataset]\nname = "acme/bench"\nversion = "1.0"\n'
LISTED = '[[files]]\npath = "metric.py"\n'


def _resolver(cache, tmp_path, registry="registry.json", hub=lambda: None):
    return Resolver(cache, print, parse_place(registry, tmp_path), hub, tmp_path)


@pytest.fixture
def registry(tmp_path, make_task):
    """Write a registry whose one dataset has these metrics."""
    make_task("tasks/hello")

    def write(metrics, folder=tmp_path):
        row = {
            "name": "bench",
            "version": "1.0",
            "description": "",
            "tasks": [{"name": "hello", "path": "tasks/hello"}],
            "metrics": metrics,
        }
        (folder / "registry.json").write_text(json.dumps([row]))

    return write


def test_metrics_stand_in_the_registrys_order(registry, cache, tmp_path):
    registry([{"type": "max"}, {}, {"type": "sum", "kwargs": {}}])
    found = _resolver(cache, tmp_path).resolve("bench")
    assert [one.type for one in found.metrics] == ["max", "mean", "sum"]
    assert dataset_of_json(json.loads(json.dumps(found.as_json()))).metrics == found.metrics


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ({"type": "median"}, r"type: expected one of mean, sum, min, max, uv-script, got 'median'"),
        ({"type": ["mean"]}, r"type: expected one of mean.* got \['mean'\]"),
        ({"type": "mean", "kwargs": {"key": "x"}}, r"kwargs: mean takes none, got {'key': 'x'}"),
        ({"type": "mean", "kwargs": []}, r"kwargs: expected an object, got \[\]"),
        ({"type": "uv-script"}, "kwargs: expected {'script_path': PATH} and nothing else, got {}"),
        ({"type": "uv-script", "kwargs": {"script_path": 1}}, "kwargs: expected {'script_path'"),
        (
            {"type": "uv-script", "kwargs": {"script_path": "m.py", "k": 1}},
            "kwargs: expected {'script_path'",
        ),
    ],
)
def test_a_metric_that_is_none_is_told_with_its_place(registry, cache, tmp_path, metric, said):
    registry([{"type": "mean"}, metric])
    with pytest.raises(DatasetError, match=rf"registry.json: bench@1.0: metrics\[1\]\.{said}"):
        _resolver(cache, tmp_path).resolve("bench")


def test_metrics_without_end_are_refused(registry, cache, tmp_path):
    registry([{"type": "mean"}] * 101)
    with pytest.raises(DatasetError, match="metrics: at most 100, got 101"):
        _resolver(cache, tmp_path).resolve("bench")


def test_another_datasets_metrics_are_no_fault_of_this_one(registry, cache, tmp_path):
    registry([{"type": "mean"}])
    (row,) = json.loads((tmp_path / "registry.json").read_text())
    rows = [row, {**row, "name": "other", "metrics": [{"type": "median"}]}]
    (tmp_path / "registry.json").write_text(json.dumps(rows))
    assert _resolver(cache, tmp_path).resolve("bench").metrics == (DatasetMetric("mean"),)


def test_a_script_of_a_local_registry_is_pinned_where_it_is(registry, cache, tmp_path):
    (tmp_path / "own.py").write_bytes(SCRIPT)
    registry([{"type": "uv-script", "kwargs": {"script_path": "own.py"}}])
    (metric,) = _resolver(cache, tmp_path).resolve("bench").metrics
    assert (metric.script.name, metric.script.digest) == ("own.py", DIGEST)
    scripts = Scripts(cache, lambda: None)
    assert scripts.path(metric.script) == tmp_path / "own.py"
    (tmp_path / "own.py").write_bytes(b"other")
    with pytest.raises(DatasetError, match=f"was changed since it was pinned: was {DIGEST}"):
        scripts.path(metric.script)


def test_a_script_that_is_not_there_is_told_and_the_tasks_run(registry, cache, tmp_path):
    registry([{"type": "uv-script", "kwargs": {"script_path": "own.py"}}])
    found = _resolver(cache, tmp_path).resolve("bench")
    assert len(found.tasks) == 1
    with pytest.raises(DatasetError, match="cannot be read: No such file"):
        Scripts(cache, lambda: None).path(found.metrics[0].script)


@pytest.mark.parametrize("kind", ["link", "pipe", "large", "folder"])
def test_what_is_no_plain_script_is_not_read(registry, cache, tmp_path, kind):
    path = tmp_path / "own.py"
    if kind == "link":
        (tmp_path / "secret").write_text("x")
        path.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"#" * (MAX_BYTES + 1))
    registry([{"type": "uv-script", "kwargs": {"script_path": "own.py"}}])
    (metric,) = _resolver(cache, tmp_path).resolve("bench").metrics
    assert metric.script.digest == ""
    assert "own.py: " in metric.script.problem


@pytest.fixture
def repository(repositories, tmp_path, make_task):
    """A repository with a registry, its task, and a script."""
    source = tmp_path / "source"
    make_task("source/some/hello")
    (source / "metrics").mkdir()
    (source / "metrics/own.py").write_bytes(SCRIPT)

    def write(path):
        metrics = [{"type": "uv-script", "kwargs": {"script_path": path}}, {"type": "min"}]
        row = {
            "name": "bench",
            "version": "1.0",
            "description": "",
            "tasks": [{"name": "hello", "path": "some/hello"}],
            "metrics": metrics,
        }
        (source / "registry.json").write_text(json.dumps([row]))
        return repositories.make("acme/bench.git", source)

    return write


def test_a_script_in_a_repository_is_its_commits(repository, repositories, cache, tmp_path):
    commit = repository("metrics/own.py")
    asked = f"{repositories.url('acme/bench.git')}@{commit}"
    found = _resolver(cache, tmp_path).resolve(asked)
    assert [one.type for one in found.metrics] == ["uv-script", "min"]
    script = found.metrics[0].script
    assert (script.digest, script.place["git_commit_id"]) == (DIGEST, commit)
    path = Scripts(cache, lambda: None).path(script)
    assert path.read_bytes() == SCRIPT
    assert path.is_relative_to(cache.root)


def test_a_pinned_script_in_the_cache_needs_no_server(repository, repositories, cache, tmp_path):
    commit = repository("metrics/own.py")
    asked = f"{repositories.url('acme/bench.git')}@{commit}"
    first = _resolver(cache, tmp_path).resolve(asked)
    repositories.root.rename(tmp_path / "gone")
    again = _resolver(cache, tmp_path).resolve(asked)
    assert again.metrics == first.metrics
    assert Scripts(cache, lambda: None).path(again.metrics[0].script).read_bytes() == SCRIPT


def test_a_script_that_was_changed_in_the_cache_is_fetched_again(
    repository, repositories, cache, tmp_path
):
    commit = repository("metrics/own.py")
    found = _resolver(cache, tmp_path).resolve(f"{repositories.url('acme/bench.git')}@{commit}")
    scripts = Scripts(cache, lambda: None)
    path = scripts.path(found.metrics[0].script)
    path.write_bytes(b"changed")
    assert scripts.path(found.metrics[0].script).read_bytes() == SCRIPT
    cache.forget_notes()
    assert not path.exists()
    assert scripts.path(found.metrics[0].script).read_bytes() == SCRIPT


def test_a_huge_script_in_a_repository_is_not_read(repository, repositories, cache, tmp_path):
    (tmp_path / "source/huge.py").write_bytes(b"#" * (MAX_BYTES + 1))
    commit = repository("huge.py")
    found = _resolver(cache, tmp_path).resolve(f"{repositories.url('acme/bench.git')}@{commit}")
    assert "larger than 1 MiB" in found.metrics[0].script.problem
    assert len(found.tasks) == 1


def test_a_script_outside_of_its_repository_is_refused(repository, repositories, cache, tmp_path):
    commit = repository("../own.py")
    with pytest.raises(DatasetError, match=r"metrics\[0\].kwargs.script_path: the path"):
        _resolver(cache, tmp_path).resolve(f"{repositories.url('acme/bench.git')}@{commit}")


def test_a_registry_from_elsewhere_can_name_no_script_here(cache, tmp_path):
    (tmp_path / "own.py").write_bytes(SCRIPT)
    reading = RegistryReading(b"[]", "https://a.example/registry.json")
    script = Scripts(cache, lambda: None).of_registry(reading, tmp_path, "own.py")
    assert (script.digest, script.place) == ("", {})
    assert "can name no file beside it, and none on this machine" in script.problem
    assert "give --harbor-registry the git repository that has both" in script.problem


@pytest.fixture
def folder(tmp_path, make_task):
    """A folder with a manifest and a script."""
    make_task("set/hello")
    (tmp_path / "set/metric.py").write_bytes(SCRIPT)

    def write(listed):
        (tmp_path / "set/dataset.toml").write_text(MANIFEST + listed)

    return write


@pytest.mark.parametrize("listed", ["", LISTED, f'{LISTED}digest = "{DIGEST}"\n'])
def test_a_folders_script_is_its_metric(folder, cache, tmp_path, listed):
    folder(listed)
    (metric,) = _resolver(cache, tmp_path).resolve("./set").metrics
    assert (metric.type, metric.script.digest, metric.script.problem) == ("uv-script", DIGEST, "")


def test_a_folders_script_must_be_what_is_listed(folder, cache, tmp_path):
    folder(f'{LISTED}digest = "sha256:{"0" * 64}"\n')
    (metric,) = _resolver(cache, tmp_path).resolve("./set").metrics
    assert "dataset.toml pins another content of it: sha256:000" in metric.script.problem
    (tmp_path / "set/metric.py").unlink()
    (metric,) = _resolver(cache, tmp_path).resolve("./set").metrics
    assert "No such file" in metric.script.problem


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("[files]\n", r"files: expected \[\[files\]\] tables"),
        ('[[files]]\npath = "a/metric.py"\n', r"files\[0\].path: expected a file's name"),
        ('[[files]]\npath = "x"\ndigest = "md5:1"\n', r"files\[0\].digest: expected sha256:"),
    ],
)
def test_a_broken_list_of_files_is_told_with_its_place(folder, cache, tmp_path, listed, said):
    folder(listed)
    with pytest.raises(DatasetError, match=f"dataset.toml: {said}"):
        _resolver(cache, tmp_path).resolve("./set")


@pytest.fixture
def data(make_task):
    data = HubData()
    data.publish(make_task("hello"))
    data.files = {"metric.py": DIGEST.removeprefix("sha256:")}
    data.archives["packages/acme/bench/metric.py"] = SCRIPT
    return data


def test_a_published_script_is_fetched_and_needs_no_hub_afterwards(
    data, serve, cache, tmp_path, monkeypatch
):
    monkeypatch.setattr(http_module, "_TRIES", 0)
    server = serve(data.answer)
    resolver = _resolver(cache, tmp_path, hub=lambda: Hub(server.url))
    (metric,) = resolver.resolve(f"acme/bench@{data.digest}").metrics
    assert (metric.type, metric.script.digest) == ("uv-script", DIGEST)
    server.stop()
    (again,) = resolver.resolve(f"acme/bench@{data.digest}").metrics
    assert Scripts(cache, lambda: Hub(server.url)).path(again.script).read_bytes() == SCRIPT


def test_a_published_script_that_is_not_what_it_says_is_none(data, serve, cache, tmp_path):
    data.archives["packages/acme/bench/metric.py"] = b"other"
    server = serve(data.answer)
    found = _resolver(cache, tmp_path, hub=lambda: Hub(server.url)).resolve("acme/bench")
    assert len(found.tasks) == 1
    script = found.metrics[0].script
    assert f"expected the content {DIGEST}, got sha256:" in script.problem
    with pytest.raises(DatasetError, match="expected the content"):
        Scripts(cache, lambda: Hub(server.url)).path(script)
    assert not list(cache.root.rglob("metric.py"))


def test_a_published_script_that_failed_to_come_is_fetched_later(data, serve, cache, tmp_path):
    server = serve(data.answer)

    def refuse(method, path, headers, body):
        return (404, {}, b"") if "/storage/" in path else data.answer(method, path, headers, body)

    server.answer = refuse
    found = _resolver(cache, tmp_path, hub=lambda: Hub(server.url)).resolve("acme/bench")
    script = found.metrics[0].script
    assert "not found (status 404)" in script.problem
    server.answer = data.answer
    assert Scripts(cache, lambda: Hub(server.url)).path(script).read_bytes() == SCRIPT
