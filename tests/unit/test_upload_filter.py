"""``.harborignore``."""

from pathlib import Path, PurePosixPath

import pytest

from pytest_harbor.errors import TaskFormatError
from pytest_harbor.task.ignore import upload_filter


def included(folder: Path) -> set[str]:
    include = upload_filter(folder)
    paths = (PurePosixPath(path.relative_to(folder)) for path in folder.rglob("*"))
    return {str(path) for path in paths if include(path)}


def write(folder: Path, **files: str) -> None:
    """Write files whose names have ``__`` for a slash and ``_dot_`` for a dot."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


IGNORE = "_dot_harborignore"


def test_without_rules_everything_goes_along(tmp_path: Path) -> None:
    write(tmp_path, a_dot_py="", sub__b_dot_py="")
    assert included(tmp_path) == {"a.py", "sub", "sub/b.py"}


def test_the_ignore_files_themselves_stay(tmp_path: Path) -> None:
    write(tmp_path, a="", **{IGNORE: "", f"sub__{IGNORE}": ""})
    assert included(tmp_path) == {"a", "sub"}


def test_the_last_match_wins(tmp_path: Path) -> None:
    write(tmp_path, a_dot_log="", keep_dot_log="", **{IGNORE: "*.log\n!keep.log\n"})
    assert included(tmp_path) == {"keep.log"}


def test_an_excluded_folder_is_not_entered_again(tmp_path: Path) -> None:
    rules = {IGNORE: "cache/\n!cache/keep\n", f"cache__{IGNORE}": "!keep\n"}
    write(tmp_path, cache__keep="", cache__x="", other__cache__y="", **rules)
    assert included(tmp_path) == {"other"}


def test_rules_deeper_down_come_later(tmp_path: Path) -> None:
    rules = {IGNORE: "*.log\n", f"sub__{IGNORE}": "!*.log\n/only\n"}
    write(tmp_path, a_dot_log="", sub__b_dot_log="", sub__only="", only="", **rules)
    assert included(tmp_path) == {"only", "sub", "sub/b.log"}


def test_a_pattern_for_folders_spares_files(tmp_path: Path) -> None:
    write(tmp_path, a__b="", sub__a="", **{IGNORE: "a/\n"})
    assert included(tmp_path) == {"sub", "sub/a"}


def test_a_link_is_left_out_with_its_target(tmp_path: Path) -> None:
    write(tmp_path, secret="", plain="", **{IGNORE: "secret\n"})
    (tmp_path / "hidden").symlink_to("secret")
    (tmp_path / "shown").symlink_to("plain")
    (tmp_path / "circle").symlink_to("circle")
    assert included(tmp_path) == {"plain", "shown", "circle"}


def test_an_ignore_file_that_links_out_of_the_task(tmp_path: Path) -> None:
    write(tmp_path, outside="*\n", task__tests__a="", task__task_dot_toml="")
    write(tmp_path, task__instruction_dot_md="")
    (tmp_path / "task/tests/.harborignore").symlink_to(tmp_path / "outside")
    with pytest.raises(TaskFormatError, match="a link that leaves it"):
        upload_filter(tmp_path / "task/tests")


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert upload_filter(tmp_path / "none")(PurePosixPath("a"))
