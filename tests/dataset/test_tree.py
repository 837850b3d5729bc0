"""Trees of strangers: links become copies, and nothing leaves its place."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.dataset import tree as tree_module
from pytest_harbor.dataset.tree import Entry, flatten
from pytest_harbor.errors import DatasetError

FILE = Entry("file", "x")


def _link(target: str) -> Entry:
    return Entry("link", target)


def test_links_become_copies_of_what_they_lead_to():
    tree = {
        "tests/a": Entry("file", "1", is_executable=True),
        "tests/b": _link("a"),
        "solution": _link("tests"),
        "environment/deep/c": _link("../../solution/b"),
        "empty": Entry("folder"),
    }
    assert flatten(tree, "t") == {
        "empty": Entry("folder"),
        "environment/deep/c": tree["tests/a"],
        "solution/a": tree["tests/a"],
        "solution/b": tree["tests/a"],
        "tests/a": tree["tests/a"],
        "tests/b": tree["tests/a"],
    }


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"a": _link("/etc/passwd")}, "is not relative"),
        ({"a": _link("../x")}, "leaves the task's folder"),
        ({"d/a": _link("../../t/x"), "x": FILE}, "leaves the task's folder"),
        ({"a": _link("b")}, "leads to nothing"),
        ({"a": _link("b/c"), "b": FILE}, "leads to nothing"),
        ({"a": _link("b"), "b": _link("a")}, "leads in a circle"),
        ({"d/a": _link("."), "d/b": FILE}, "leads back to a folder above it"),
        ({"d/e/a": _link("../../d"), "x": FILE}, "leads back to a folder above it"),
        ({"a": Entry("special")}, "neither a file nor a folder"),
        ({"../a": FILE}, "is not taken"),
        ({"/a": FILE}, "is not taken"),
        ({"a//b": FILE}, "is not taken"),
        ({"a/.GIT/config": FILE}, "is not taken"),
        ({"a\\b": FILE}, "is not taken"),
        ({"a": FILE, "a/b": FILE}, "lies below what is no folder"),
        ({"a/b": FILE, "a": FILE}, "is there twice"),
        ({"/".join("a" * 200): FILE}, "lies deeper"),
    ],
)
def test_what_a_task_may_not_hold_is_refused(tree, said):
    with pytest.raises(DatasetError, match=said):
        flatten(tree, "t")


def test_links_cannot_make_a_small_tree_huge(monkeypatch):
    monkeypatch.setattr(tree_module, "MAX_ENTRIES", 1000)
    tree = {"d0/a": FILE, "d0/b": FILE}
    for level in range(1, 30):
        tree |= {f"d{level}/{name}": _link(f"../d{level - 1}") for name in "ab"}
    with pytest.raises(DatasetError, match="links make more than"):
        flatten(tree, "t")


_NAME = st.sampled_from("abcd")
_PATH = st.lists(_NAME, min_size=1, max_size=3).map("/".join)
_TARGET = st.lists(st.sampled_from(["a", "b", "c", "d", "..", "."]), min_size=1, max_size=4)


@given(
    st.dictionaries(_PATH, st.just(FILE), max_size=5),
    st.dictionaries(_PATH, _TARGET.map("/".join).map(_link), max_size=3),
)
def test_links_lead_where_a_file_system_leads_them(tmp_path_factory, files, links):
    root = tmp_path_factory.mktemp("tree") / "task"
    root.mkdir()
    tree: dict[str, Entry] = {}
    for path, entry in (files | links).items():
        place = root / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.parent.resolve() != place.parent or os.path.lexists(place):
                continue
            if entry.kind == "link":
                place.symlink_to(entry.content)
            else:
                place.write_text("x")
        except OSError:
            continue
        tree[path] = entry
    try:
        flat = flatten(tree, "t")
    except DatasetError:
        return
    on_disk = {
        os.path.relpath(os.path.join(base, name), root)
        for base, _, names in os.walk(root, followlinks=True)
        for name in names
    }
    assert {path for path, entry in flat.items() if entry.kind == "file"} == on_disk
    for path in on_disk:
        assert (root / path).resolve().is_relative_to(Path(root))
