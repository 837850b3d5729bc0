"""``registry.json``: what it holds, and which version is meant."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.dataset.place import DEFAULT_REGISTRY, parse_place
from pytest_harbor.dataset.registry_file import choose, choose_version, read_registry
from pytest_harbor.errors import DatasetError


@pytest.mark.parametrize(
    ("versions", "meant"),
    [
        (["1.0", "head", "2.0"], "head"),
        (["1.9", "1.10", "1.2"], "1.10"),
        (["2.0rc1", "1.9"], "2.0rc1"),
        (["lite", "full", "1.0"], "1.0"),
        (["lite", "verified", "full"], "verified"),
    ],
)
def test_the_version_that_is_meant_follows_harbors_rules(versions, meant):
    assert choose_version(versions) == meant


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, unique=True), st.randoms())
def test_the_order_of_versions_does_not_matter(versions, randomness):
    shuffled = list(versions)
    random.Random(randomness.random()).shuffle(shuffled)
    assert choose_version(shuffled) in versions
    if "head" in versions:
        assert choose_version(shuffled) == "head"


def _row(**changed):
    return {"name": "bench", "version": "1.0", "description": "", "tasks": [], **changed}


def test_extra_keys_are_no_fault():
    task = {"name": "a", "path": "tasks/a", "more": 1}
    (found,) = read_registry(json.dumps([_row(tasks=[task], more={})]), "r.json")
    assert found.tasks[0].path == "tasks/a"
    assert found.tasks[0].git_url is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "r.json: not JSON"),
        ("{}", "r.json: expected a list of datasets, got dict"),
        ("[1]", r"r.json: \[0\]: expected an object, got int"),
        (json.dumps([_row(version=2)]), r"\[0\].version: expected some text, got 2"),
        (json.dumps([_row(description=None)]), r"\[0\].description: expected some text"),
        (json.dumps([_row(tasks={})]), r"\[0\].tasks: expected a list"),
        (json.dumps([_row(tasks=[{"name": "a"}])]), r"\[0\].tasks\[0\].path: expected some text"),
    ],
)
def test_a_broken_registry_is_told_with_its_place(text, said):
    with pytest.raises(DatasetError, match=said):
        read_registry(text, "r.json")


def test_a_missing_dataset_is_told_with_near_names():
    datasets = read_registry(json.dumps([_row(), _row(version="2.0")]), "r.json")
    with pytest.raises(DatasetError, match=r"no dataset 'bensh'. Near: bench"):
        choose(datasets, "bensh", None, "r.json")
    with pytest.raises(DatasetError, match=r"no version '3' of 'bench'. It has: 1.0, 2.0"):
        choose(datasets, "bench", "3", "r.json")
    assert choose(datasets, "bench", None, "r.json").version == "2.0"


@pytest.mark.parametrize(
    ("text", "kind", "place"),
    [
        (None, "url", DEFAULT_REGISTRY),
        ("https://host.example/registry.json", "url", "https://host.example/registry.json"),
        ("r/registry.json", "file", "{base}/r/registry.json"),
        ("file:///srv/registry.json", "file", "/srv/registry.json"),
        ("https://host.example/a/b.git@v1", "git", "https://host.example/a/b.git@v1"),
        ("https://host.example/a/b/tree/v1/x", "git", "https://host.example/a/b/tree/v1/x"),
        ("git+acme/bench", "git", "git+acme/bench"),
        ("git@host.example:a/b.git", "git", "git@host.example:a/b.git"),
    ],
)
def test_a_registrys_place_is_told_from_its_form(tmp_path, text, kind, place):
    found = parse_place(text, tmp_path)
    assert (found.kind, found.text) == (kind, place.format(base=tmp_path))
