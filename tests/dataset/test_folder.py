"""A folder with ``dataset.toml``, and the command that looks after the cache."""

import pytest

from pytest_harbor.__main__ import main
from pytest_harbor.dataset.cache import Cache
from pytest_harbor.dataset.dataset import named
from pytest_harbor.dataset.digest import task_digest
from pytest_harbor.dataset.fetch import Fetcher
from pytest_harbor.dataset.folder import read_folder
from pytest_harbor.dataset.source import FolderTask, GitTask, HubTask
from pytest_harbor.errors import DatasetError

MANIFEST = '[dataset]\nname = "acme/bench"\nversion = "1.0"\n'


@pytest.fixture
def folder(tmp_path, make_task):
    make_task("set/hello", toml='[task]\nname = "acme/hello"\n')
    make_task("set/other")
    return tmp_path / "set"


def test_its_tasks_are_all_children_and_what_is_listed(folder):
    digest = "sha256:" + "0" * 64
    listed = '[[tasks]]\nname = "{}"\ndigest = "{}"\n'
    (folder / "dataset.toml").write_text(
        MANIFEST + listed.format("acme/hello", digest) + listed.format("acme/far", digest)
    )
    found = read_folder(folder)
    assert (found.name, found.version) == ("acme/bench", "1.0")
    assert found.tasks == (
        FolderTask(folder / "hello", digest),
        FolderTask(folder / "other"),
        HubTask("acme", "far", digest),
    )


@pytest.mark.parametrize("is_sound", [True, False])
def test_a_listed_task_must_be_what_is_listed(folder, cache, is_sound):
    digest = task_digest(folder / "hello") if is_sound else "sha256:" + "0" * 64
    source = FolderTask(folder / "hello", digest)
    found = Fetcher(cache, print, hub=None).fetch([source], "x")[source]
    assert (found.task is not None) == is_sound
    assert is_sound or "dataset.toml pins another content" in found.fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "is run by naming it: pytest"),
        ("[", "dataset.toml: not TOML"),
        ("a = 1", r"\[dataset\]: expected a table, got None"),
        ("[dataset]\nname = 'bench'", "dataset.name: expected ORG/NAME, got 'bench'"),
        ("[dataset]\nname = 'a/b'\nversion = 1", "dataset.version: expected some text, got 1"),
        ("tasks = 1\n[dataset]\nname = 'a/b'", r"expected \[\[tasks\]\] tables"),
        ("[dataset]\nname = 'a/b'\n[[tasks]]\nname = 'x'", r"tasks\[0\].name: expected ORG/NAME"),
        (
            "[dataset]\nname = 'a/b'\n[[tasks]]\nname = 'a/x'\ndigest = 'md5:1'",
            r"tasks\[0\].digest: expected sha256:",
        ),
    ],
)
def test_a_faulty_manifest_is_told_with_its_place(folder, text, said):
    if text is not None:
        (folder / "dataset.toml").write_text(text)
    with pytest.raises(DatasetError, match=said):
        read_folder(folder)


def test_tasks_with_the_same_short_name_get_longer_ones():
    commit = "0" * 40
    sources = [
        GitTask("https://a.example/x", commit, "tasks/one"),
        GitTask("https://a.example/x", commit, "a/two"),
        GitTask("https://a.example/x", commit, "b/two"),
        GitTask("https://b.example/x", commit, "b/two"),
        GitTask("https://a.example/x", commit, "tasks/one"),
        HubTask("acme", "a::b\x07", "sha256:" + "0" * 64),
    ]
    names = [task.name for task in named(sources)]
    assert names == ["one", "a/two", "b/two~1", "b/two~2", "a:b\N{REPLACEMENT CHARACTER}"]


@pytest.fixture
def kept(cache, make_task):
    """A cache with one task in it."""
    with cache.workspace() as place:
        source = GitTask("https://a.example/x", "0" * 40, "tasks/hello")
        folder = place / "draft/files/hello"
        folder.parent.mkdir(parents=True)
        make_task("hello").rename(folder)
        return cache.keep(source, place / "draft", task_digest(folder))


def test_the_cache_is_listed(kept, capsys):
    assert main(["cache", "list"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("https://a.example/x 000000000000 tasks/hello  ")
    assert last.startswith("1 task, ")


@pytest.mark.parametrize(
    ("options", "is_removed"),
    [
        ([], True),
        (["--unused-for=1"], False),
        (["--unused-for=0"], True),
        (["--changed"], False),
    ],
)
def test_the_cache_is_cleaned(kept, cache, options, is_removed):
    assert main(["cache", "clean", *options]) == 0
    assert (cache.entries() == []) == is_removed
    assert kept.folder.exists() != is_removed


def test_only_what_was_changed_is_removed(kept, cache):
    (kept.folder / "instruction.md").write_text("Another.\n")
    main(["cache", "clean", "--changed"])
    assert cache.entries() == []


def test_nothing_is_removed_while_a_run_uses_it(kept, cache, capsys):
    with cache.in_use():
        assert main(["cache", "clean"]) == 4
        assert "1 run uses the cache" in capsys.readouterr().err
        assert len(Cache().entries()) == 1
        assert main(["cache", "clean", "--force"]) == 0
    assert cache.users() == 0
