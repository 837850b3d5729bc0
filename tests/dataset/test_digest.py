"""Digests are Harbor's."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.dataset.digest import dataset_digest, task_digest, task_files, tree_digest
from pytest_harbor.errors import DatasetError

FILES = {
    "task.toml": "a = 1\n",
    "instruction.md": "Do it.\n",
    "README.md": "About.\n",
    "stray.txt": "no part of it\n",
    "environment/Dockerfile": "FROM x\n",
    "environment/__pycache__/a.pyc": "litter",
    "environment/deep/é.txt": "e",
    "tests/test.sh": "exit 0\n",
    "tests/.harborignore": "*.log\nsub/\n!keep.log\n",
    "tests/a.log": "no",
    "tests/keep.log": "yes",
    "tests/sub/b": "no",
    "steps/one/solution/solve.sh~": "litter",
    "steps/one/solution/solve.sh": "true\n",
}


@pytest.fixture
def folder(tmp_path):
    for path, text in FILES.items():
        place = tmp_path / "hello" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (tmp_path / "hello/tests/link").symlink_to("../README.md")
    (tmp_path / "hello/environment/folder").symlink_to("../tests")
    return tmp_path / "hello"


def test_files_are_those_that_harbor_packs(folder):
    assert task_files(folder) == [
        "README.md",
        "environment/Dockerfile",
        "environment/deep/é.txt",
        "instruction.md",
        "steps/one/solution/solve.sh",
        "task.toml",
        "tests/keep.log",
        "tests/link",
        "tests/test.sh",
    ]


def test_digests_are_those_of_harbors_packager(folder):
    # Taken from harbor.publisher.packager of Harbor 0.26.0.
    assert task_digest(folder) == (
        "sha256:4a836a05a48a5f3e34d08aaff471fa0283e38222d0e2f9ee170efa7ae03093b1"
    )
    (folder / ".gitignore").write_text("*.md\n!instruction.md\n/environment/*\n")
    assert task_digest(folder) == (
        "sha256:a5bab4691699ef9ccf73640e617c208b08fbf815b052d829d0fd761d30346322"
    )


@pytest.mark.parametrize("path", ["tests/test.sh", "stray.txt", "environment/__pycache__/a.pyc"])
def test_a_trees_digest_leaves_nothing_out(folder, path):
    before = tree_digest(folder)
    (folder / path).write_text("other")
    assert tree_digest(folder) != before


def test_a_trees_digest_sees_execute_bits_links_and_empty_folders(folder):
    seen = {tree_digest(folder)}
    (folder / "tests/test.sh").chmod(0o755)
    seen.add(tree_digest(folder))
    (folder / "empty").mkdir()
    seen.add(tree_digest(folder))
    (folder / "tests/link").unlink()
    (folder / "tests/link").symlink_to("../task.toml")
    seen.add(tree_digest(folder))
    assert len(seen) == 4


_HEX = st.text("0123456789abcdef", min_size=64, max_size=64)


@given(st.lists(_HEX, max_size=4), st.dictionaries(st.sampled_from("ab"), _HEX))
def test_a_datasets_digest_depends_on_no_order(tasks, files):
    expected = ",".join(sorted(tasks))
    if files:
        expected += ";" + ",".join(sorted(f"{path}:{one}" for path, one in files.items()))
    found = dataset_digest([f"sha256:{one}" for one in reversed(tasks)], files)
    assert found == "sha256:" + hashlib.sha256(expected.encode()).hexdigest()


@pytest.mark.parametrize("content", [b"caf\xe9\n", b"!\n"])
def test_a_gitignore_that_cannot_be_read_is_a_fault_of_its_task(folder, content):
    (folder / ".gitignore").write_bytes(content)
    with pytest.raises(DatasetError, match=r"\.gitignore: cannot be read"):
        task_digest(folder)
