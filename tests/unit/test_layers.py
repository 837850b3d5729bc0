"""An image's files found in its layers: the topmost counts, links lead nowhere outside."""

import os
from pathlib import Path

import pytest

from pytest_harbor.environment.docker.layers import read_from_layers
from pytest_harbor.errors import TransferError


@pytest.fixture
def layers(tmp_path: Path) -> list[str]:
    (tmp_path / "secret").write_text("the machine's")
    top, base = tmp_path / "top", tmp_path / "base"
    for layer, word in ((top, "new"), (base, "old")):
        (layer / "usr/bin").mkdir(parents=True)
        (layer / "usr/bin/tool").write_text(word)
    (base / "usr/bin/other").write_text("other")
    (base / "bin").symlink_to("usr/bin")
    (base / "usr/away").symlink_to(tmp_path)
    (base / "usr/up").symlink_to("../../../..")
    (base / "usr/round").symlink_to("round")
    (base / "usr/sbin").symlink_to("/usr/../bin")
    os.mkfifo(base / "usr/pipe")
    return [str(top), str(base)]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/usr/bin/tool", b"new"),
        ("/usr/bin/other", b"other"),
        ("/bin/tool", b"new"),
        ("/usr/sbin/other", b"other"),
        ("/usr/up/bin/tool", b"new"),
    ],
)
def test_the_topmost_file_is_read(layers: list[str], path: str, content: bytes) -> None:
    assert read_from_layers(layers, path, 10) == content


@pytest.mark.parametrize(
    "path", ["/none", "/usr/away/secret", "/usr/round/x", "/usr/bin/tool/x", "/usr/up/secret"]
)
def test_what_the_image_lacks_is_not_found(layers: list[str], path: str) -> None:
    with pytest.raises(FileNotFoundError):
        read_from_layers(layers, path, 10)


@pytest.mark.parametrize("path", ["/bin", "/usr/bin", "/usr/pipe", "/"])
def test_only_regular_files_are_read(layers: list[str], path: str) -> None:
    with pytest.raises((TransferError, FileNotFoundError)):
        read_from_layers(layers, path, 10)


def test_a_large_file_is_refused(layers: list[str]) -> None:
    with pytest.raises(TransferError, match="5 bytes"):
        read_from_layers(layers, "/usr/bin/other", 4)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes whiteouts")
def test_what_a_layer_removed_is_gone(layers: list[str]) -> None:
    os.mknod(f"{layers[0]}/usr/bin/other", 0o600 | 0o020000, os.makedev(0, 0))
    with pytest.raises(FileNotFoundError):
        read_from_layers(layers, "/bin/other", 10)
