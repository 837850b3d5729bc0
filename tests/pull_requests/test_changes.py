"""What git says of a work tree, and which tasks it makes changed ones."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_harbor.check.changes import Changes, Selection, read_changes
from pytest_harbor.errors import OptionError
from tests.pull_requests.conftest import Git


@pytest.fixture(scope="session")
def repository_to_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks and a file that they share, made once."""
    found = Git(tmp_path_factory.mktemp("repository") / "r")
    for path in ("tasks/a/task.toml", "tasks/a/instruction.md", "tasks/b/task.toml"):
        write(found, path)
    write(found, "tasks/b/instruction.md")
    write(found, "shared/data/x.txt")
    found.commit("base")
    found("checkout", "-q", "-b", "pr")
    return found.path


@pytest.fixture
def git(tmp_path: Path, repository_to_copy: Path) -> Git:
    """A repository with two tasks and a file that they share."""
    shutil.copytree(repository_to_copy, tmp_path / "r")
    return Git(tmp_path / "r")


def write(git: Git, path: str, text: str = "text\n") -> Path:
    place = git.path / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def changes(git: Git, since: str = "main") -> Changes:
    return read_changes(git.path, since)


def selected(git: Git, *shared: str, ini: Path | None = None, since: str = "main") -> str:
    selection = Selection([changes(git, since)], shared, ini)
    tasks = sorted(one for one in (git.path / "tasks").iterdir() if one.is_dir())
    return " ".join(task.name for task in tasks if selection.has(task))


def test_nothing_changed(git: Git) -> None:
    assert changes(git).paths == frozenset()
    assert selected(git) == ""


@pytest.mark.parametrize("state", ["committed", "staged", "unstaged", "untracked"])
def test_each_state_of_a_file_counts(git: Git, state: str) -> None:
    name = "tasks/a/new.txt" if state == "untracked" else "tasks/a/task.toml"
    write(git, name, "changed\n")
    if state == "committed":
        git.commit()
    elif state == "staged":
        git("add", "-A")
    assert changes(git).paths == {name}
    assert selected(git) == "a"


def test_staged_and_taken_back_in_the_work_tree(git: Git) -> None:
    write(git, "tasks/a/task.toml", "changed\n")
    git("add", "-A")
    write(git, "tasks/a/task.toml")
    assert selected(git) == "a"


def test_a_touched_file_with_the_same_text_did_not_change(git: Git) -> None:
    write(git, "tasks/a/task.toml")
    os.utime(git.path / "tasks/a/task.toml", (1, 1))
    assert selected(git) == ""


def test_what_git_ignores_does_not_count(git: Git) -> None:
    write(git, ".git/info/exclude", "*.log\n")
    write(git, "tasks/a/x.log")
    assert selected(git) == ""


def test_work_on_the_other_branch_since_they_parted_does_not_count(git: Git) -> None:
    write(git, "tasks/b/task.toml", "of the branch\n")
    git.commit()
    git("checkout", "-q", "main")
    write(git, "tasks/a/task.toml", "of main\n")
    git.commit()
    git("checkout", "-q", "pr")
    assert selected(git) == "b"
    git("merge", "-q", "main")
    assert selected(git) == "b"


def test_a_rename_changes_both_ends(git: Git) -> None:
    git("mv", "tasks/a/instruction.md", "tasks/b/more.md")
    git.commit()
    assert selected(git) == "a b"


def test_a_renamed_task_is_a_new_one_and_a_deleted_one(git: Git) -> None:
    git("mv", "tasks/a", "tasks/c")
    git.commit()
    assert selected(git) == "c"
    assert list(changes(git).deleted_tasks()) == [git.path / "tasks/a"]


def test_a_folder_that_lost_its_task_toml_is_a_deleted_task(git: Git) -> None:
    git("rm", "-q", "tasks/a/task.toml")
    assert list(changes(git).deleted_tasks()) == [git.path / "tasks/a"]


def test_a_deleted_file_of_another_tool_is_no_deleted_task(git: Git) -> None:
    write(git, "tools/task.toml")
    base = git.commit()
    git("rm", "-q", "tools/task.toml")
    assert list(changes(git, base).deleted_tasks()) == []


def test_a_deleted_file_changes_its_task(git: Git) -> None:
    (git.path / "tasks/a/instruction.md").unlink()
    assert selected(git) == "a"


@pytest.mark.parametrize(
    "name", ['q"uote', "new\nline", "tab\there", "ümläut", "sp ace", "-dash", "*", b"\xff\xfe"]
)
def test_odd_names(git: Git, name: str | bytes) -> None:
    text = os.fsdecode(name)
    write(git, f"tasks/a/{text}")
    git.commit()
    assert changes(git).paths == {f"tasks/a/{text}"}
    again = Changes.from_plain(changes(git).as_plain())
    assert again == changes(git)
    assert selected(git) == "a"


def test_a_mode_counts(git: Git) -> None:
    (git.path / "tasks/a/task.toml").chmod(0o755)
    assert selected(git) == "a"


@pytest.mark.parametrize(("path", "tasks"), [
    ("tasks/dataset.toml", "a b"),
    ("dataset.toml", "a b"),
    ("tasks/conftest.py", "a b"),
    ("conftest.py", "a b"),
    ("tasks/a/tests/conftest.py", "a"),
    ("other/conftest.py", ""),
    ("README.md", ""),
])  # fmt: skip
def test_files_that_speak_for_all_below(git: Git, path: str, tasks: str) -> None:
    write(git, path)
    assert selected(git) == tasks
    git.commit()
    (git.path / path).unlink()
    assert selected(git, since="HEAD") == tasks


def test_the_ini_file_speaks_for_all(git: Git) -> None:
    ini = write(git, "pytest.ini")
    assert selected(git, ini=ini) == "a b"
    assert selected(git, ini=git.path / "other.ini") == ""


@pytest.mark.parametrize(("pattern", "tasks"), [
    ("shared/", "a b"),
    ("/shared", "a b"),
    ("shared/data/*.txt", ""),
    ("*.txt", ""),
    ("tasks/shared/", ""),
])  # fmt: skip
def test_shared_paths_count_below_the_folder_that_holds_them(
    git: Git, pattern: str, tasks: str
) -> None:
    write(git, "shared/data/x.txt", "changed\n")
    assert selected(git, pattern) == tasks


def test_a_shared_path_that_was_deleted(git: Git) -> None:
    git("rm", "-qr", "shared")
    assert selected(git, "shared/") == "a b"


@pytest.mark.parametrize("change", ["changed\n", None])
def test_links_out_of_a_task(git: Git, change: str | None) -> None:
    (git.path / "tasks/a/environment").mkdir()
    (git.path / "tasks/a/environment/data").symlink_to("../../../shared/current")
    (git.path / "shared/current").symlink_to("data")
    base = git.commit()
    assert selected(git, since=base) == ""
    if change:
        write(git, "shared/data/x.txt", change)
    else:
        (git.path / "shared/current").unlink()
    assert selected(git, since=base) == "a"


def test_links_behind_links(git: Git) -> None:
    (git.path / "tasks/a/data").symlink_to("../../shared/data")
    (git.path / "shared/data/deep").symlink_to("../deep.txt")
    write(git, "shared/deep.txt")
    (git.path / "shared/data/round").symlink_to("..")
    base = git.commit()
    assert selected(git, since=base) == ""
    write(git, "shared/deep.txt", "changed\n")
    assert selected(git, since=base) == "a"


def test_links_out_of_the_repository_are_not_followed_further(git: Git, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "back").symlink_to(git.path / "shared")
    (git.path / "tasks/a/outside").symlink_to(outside)
    base = git.commit()
    write(git, "shared/data/x.txt", "changed\n")
    assert selected(git, since=base) == ""


def test_a_task_that_is_a_link(git: Git) -> None:
    write(git, "store/c/task.toml")
    (git.path / "tasks/c").symlink_to("../store/c")
    base = git.commit()
    assert selected(git, since=base) == ""
    write(git, "store/c/task.toml", "changed\n")
    assert selected(git, since=base) == "c"


def test_a_repository_behind_a_link(git: Git, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("r")
    write(git, "tasks/a/task.toml", "changed\n")
    selection = Selection([read_changes(tmp_path / "link", "main")])
    assert selection.has(tmp_path / "link/tasks/a")
    assert not selection.has(tmp_path / "link/tasks/b")


def test_a_task_of_no_known_repository_counts_as_changed(git: Git, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    assert Selection([changes(git)]).has(tmp_path / "elsewhere")


class TestSubmodules:
    """A submodule ``tasks/sub`` that holds two tasks."""

    @pytest.fixture
    def inner(self, git: Git, tmp_path: Path, make_git: Callable[[Path], Git]) -> Git:
        source = make_git(tmp_path / "source")
        for name in ("s", "t"):
            write(source, f"{name}/task.toml")
        source.commit()
        git("submodule", "add", "-q", str(source.path), "tasks/sub")
        git.commit("submodule")
        git("branch", "-f", "main")
        found = Git(git.path / "tasks/sub")
        found("checkout", "-q", "main")
        return found

    @staticmethod
    def selected(git: Git) -> str:
        selection = Selection([changes(git)])
        return " ".join(one for one in ("s", "t") if selection.has(git.path / "tasks/sub" / one))

    def test_another_commit(self, git: Git, inner: Git) -> None:
        assert self.selected(git) == ""
        write(inner, "s/task.toml", "changed\n")
        inner.commit()
        git.commit()
        assert self.selected(git) == "s"

    def test_files_not_committed(self, git: Git, inner: Git) -> None:
        write(inner, "t/more.txt")
        assert self.selected(git) == "t"

    def test_an_old_commit_that_is_not_there_makes_all_of_it_changed(
        self, git: Git, inner: Git
    ) -> None:
        old = inner("rev-parse", "HEAD")
        inner("checkout", "-q", "--orphan", "fresh")
        inner.commit("again")
        git.commit()
        inner("branch", "-D", "-q", "main")
        for ref in inner("for-each-ref", "--format=%(refname)", "refs/remotes").splitlines():
            inner("update-ref", "-d", ref)
        inner("reflog", "expire", "--expire=now", "--all")
        inner("gc", "-q", "--prune=now")
        assert not Git(inner.path)("rev-list", "--all").count(old)
        assert self.selected(git) == "s t"

    def test_its_changes_are_those_of_the_repository_around_it(self, git: Git, inner: Git) -> None:
        found = read_changes(inner.path, "main", start=git.path)
        assert found.repository == git.path
        assert read_changes(inner.path, "main", start=inner.path).repository == inner.path


def test_settings_of_git_do_not_matter(git: Git) -> None:
    for name, value in {
        "diff.relative": "true",
        "diff.noprefix": "true",
        "diff.renames": "copies",
        "diff.external": "/bin/false",
        "diff.orderFile": "/nowhere",
        "diff.ignoreSubmodules": "all",
        "core.quotePath": "true",
        "core.fsmonitor": f"touch {git.path}/ran #",
        "color.ui": "always",
        "status.showUntrackedFiles": "no",
    }.items():
        git("config", name, value)
    write(git, "tasks/a/ä")
    assert changes(git).paths == {"tasks/a/ä"}
    assert not (git.path / "ran").exists()


def test_variables_of_a_git_hook_do_not_matter(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert changes(git).paths == frozenset()


def test_a_bare_repository_among_a_strangers_files_is_not_obeyed(git: Git) -> None:
    bare = git.path / "tasks/a/bare"
    git("init", "-q", "--bare", str(bare))
    (bare / "config").write_text(f"[core]\nfsmonitor = touch {git.path}/ran #\nbare = true\n")
    git.commit()
    found = read_changes(bare, "main")
    assert found.repository == git.path
    assert selected(git) == "a"
    assert not (git.path / "ran").exists()


def test_a_repository_that_is_not_added_yet_changed_as_a_whole(
    git: Git, make_git: Callable[[Path], Git]
) -> None:
    nested = make_git(git.path / "tasks/c")
    write(nested, "task.toml")
    nested.commit()
    assert selected(git) == "c"


class TestRefusals:
    """What git cannot tell is one error, with what to do."""

    def refusal(self, path: Path, since: str = "main") -> str:
        with pytest.raises(OptionError) as refused:
            read_changes(path, since)
        return str(refused.value)

    @pytest.mark.parametrize("since", ["nope", "--output=x", "main:tasks/a/task.toml", "HEAD~99"])
    def test_no_such_revision(self, git: Git, since: str) -> None:
        message = self.refusal(git.path, since)
        assert f"no commit {since!r}" in message
        assert "git fetch origin BRANCH" in message
        assert not (git.path / "x").exists()

    def test_no_repository(self, tmp_path: Path) -> None:
        assert "is in no git repository" in self.refusal(tmp_path)

    def test_no_commit_yet(self, tmp_path: Path, make_git: Callable[[Path], Git]) -> None:
        assert "no commit" in self.refusal(make_git(tmp_path / "new").path)

    def test_a_shallow_clone(self, git: Git, tmp_path: Path) -> None:
        write(git, "tasks/a/task.toml", "changed\n")
        git.commit()
        git("clone", "-q", "--depth=1", f"file://{git.path}", str(tmp_path / "clone"))
        message = self.refusal(tmp_path / "clone", "HEAD~1")
        assert "it is shallow: fetch more history: fetch-depth: 0" in message

    def test_a_shallow_clone_without_a_common_commit(self, git: Git, tmp_path: Path) -> None:
        write(git, "tasks/a/task.toml", "changed\n")
        git.commit()
        git("clone", "-q", "--depth=1", f"file://{git.path}", str(tmp_path / "clone"))
        clone = Git(tmp_path / "clone")
        clone("fetch", "-q", "--depth=1", "origin", "main:main")
        message = self.refusal(clone.path)
        assert "main and HEAD share no commit; the clone is shallow: fetch more" in message

    def test_unrelated_histories(self, git: Git) -> None:
        git("checkout", "-q", "--orphan", "other")
        git.commit()
        assert "share no commit; name another one" in self.refusal(git.path)

    def test_a_broken_repository(self, git: Git) -> None:
        (git.path / ".git/HEAD").write_text("broken")
        assert "git cannot read the repository" in self.refusal(git.path)

    def test_no_git(self, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(git.path))
        assert self.refusal(git.path) == "git is not installed here: install it"
