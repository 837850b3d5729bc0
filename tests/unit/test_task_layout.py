"""Which folders are tasks."""

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_harbor.task.head import read_head
from pytest_harbor.task.layout import (
    Listing,
    find_compose_file,
    find_task_folder,
    is_broken_task_folder,
    is_task_folder,
)


def write(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_text("")
    return folder


@pytest.mark.parametrize(
    ("names", "is_task", "is_broken"),
    [
        (("task.toml", "instruction.md"), True, False),
        (("task.toml", "steps/"), True, False),
        (("task.toml",), False, False),
        (("task.toml", "environment/"), False, True),
        (("task.toml", "solution/"), False, True),
        (("task.toml", "tests/test.sh"), False, True),
        (("task.toml", "tests/test_x.py"), False, False),
        (("instruction.md", "environment/"), False, False),
        (("task.toml/", "instruction.md"), False, False),
        ((), False, False),
    ],
)
def test_recognition(
    tmp_path: Path, names: tuple[str, ...], is_task: bool, is_broken: bool
) -> None:
    write(tmp_path, *names)
    assert is_task_folder(tmp_path) is is_task
    assert is_broken_task_folder(tmp_path) is is_broken


def test_a_missing_folder_is_no_task(tmp_path: Path) -> None:
    assert not is_task_folder(tmp_path / "none")
    assert find_task_folder(tmp_path / "none") is None


def test_the_outermost_task_counts(tmp_path: Path) -> None:
    outer = write(tmp_path / "outer", "task.toml", "instruction.md")
    inner = write(outer / "examples" / "inner", "task.toml", "instruction.md")
    assert find_task_folder(inner) == outer
    assert find_task_folder(outer) == outer
    assert find_task_folder(inner / "tests" / "missing.py") == outer


def test_files_of_a_broken_task_belong_to_it(tmp_path: Path) -> None:
    broken = write(tmp_path / "broken", "task.toml", "tests/test.sh")
    assert find_task_folder(broken / "tests") == broken


def test_a_foreign_config_file_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "task.toml")
    task = write(tmp_path / "task", "task.toml", "instruction.md")
    assert find_task_folder(task / "task.toml") == task
    assert find_task_folder(tmp_path) is None


def test_looking_for_tasks_imports_neither_pydantic_nor_tomli() -> None:
    code = (
        "import sys, pytest_harbor.task.layout;"
        "sys.exit(any(name in sys.modules for name in ('pydantic', 'tomli', 'docker')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("others", [0, 1_500])
def test_a_file_is_found_among_many_others(tmp_path: Path, others: int) -> None:
    write(tmp_path, "Dockerfile", "sub/", *(f"data-{number}" for number in range(others)))
    listing = Listing(str(tmp_path))
    assert listing.file("Dockerfile") == tmp_path / "Dockerfile"
    assert listing.file("sub") is None
    assert listing.file("missing") is None


def test_a_folder_that_is_not_there_holds_no_file(tmp_path: Path) -> None:
    write(tmp_path, "plain")
    assert Listing(str(tmp_path / "gone")).file("Dockerfile") is None
    assert Listing(str(tmp_path / "plain")).file("Dockerfile") is None


def test_harbors_name_wins_among_compose_files(tmp_path: Path) -> None:
    write(tmp_path, "compose.yaml", "docker-compose.yaml")
    assert find_compose_file(tmp_path) == tmp_path / "docker-compose.yaml"
    (tmp_path / "docker-compose.yaml").unlink()
    assert find_compose_file(tmp_path) == tmp_path / "compose.yaml"


@pytest.mark.parametrize("size", [0, 10, 16 * 1024, 100_000, 200_000])
def test_no_more_of_a_file_is_read_than_was_asked_for(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(number % 251 for number in range(size)))
    for limit in (5, 16 * 1024, 150_000):
        assert read_head(path, limit) == path.read_bytes()[:limit]
