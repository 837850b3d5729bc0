"""Where programs and libraries are found: the image's PATH, alternatives, the loader's memory."""

import struct
from typing import Any

import pytest

from pytest_harbor.environment.base import Change
from pytest_harbor.environment.docker.image import path_folders
from pytest_harbor.integrity.compare import Comparison, compare
from pytest_harbor.integrity.loader_cache import libraries_in_cache
from tests.unit.test_integrity import Box, codes

VENV = "/app/.venv"
IMAGE = {
    "/usr/bin/grep": "x",
    "/usr/bin/python3": "x",
    "/usr/bin/gawk": "x",
    "/usr/lib/libc.so.6": "c",
}


def seen(changes: list[Change], now: dict[str, Any], path: tuple[str, ...] = ()) -> Comparison:
    box: Any = Box(now, dict(IMAGE))
    box.path_folders = path
    return compare(sorted(changes, key=lambda change: change.path), box)


def added(*paths: str) -> list[Change]:
    return [Change(path, "added", "file") for path in paths]


def test_the_folders_of_a_path() -> None:
    assert path_folders({"Env": ["A=b", "PATH=/app/bin:/usr/bin/:rel:"]}) == (
        "/app/bin",
        "/usr/bin",
    )
    assert path_folders({"Env": None}) == ()


def test_a_program_in_a_folder_of_the_images_path() -> None:
    path = ("/app/tools", "/usr/bin")
    found = seen(added("/app/tools/grep"), {"/app/tools/grep": "evil"}, path)
    assert codes(found, "suspicious") == {"path-shadow"}
    assert found.remove == ["/app/tools/grep"]
    assert seen(added("/app/tools/grep"), {"/app/tools/grep": "x"}).findings == []


def test_an_environment_that_the_images_path_expects() -> None:
    made = [Change(VENV, "added", "folder"), Change(f"{VENV}/bin", "added", "folder")]
    made += added(f"{VENV}/pyvenv.cfg")
    made += [
        Change(f"{VENV}/bin/python", "added", "link", "python3"),
        Change(f"{VENV}/bin/python3", "added", "link", "/usr/bin/python3"),
    ]
    found = seen(made, {}, (f"{VENV}/bin", "/usr/bin"))
    assert codes(found, "suspicious") == set()
    assert found.remove == []
    forged = seen([*made, *added(f"{VENV}/bin/grep")], {}, (f"{VENV}/bin", "/usr/bin"))
    assert codes(forged, "suspicious") == {"path-shadow"}


UV = "/root/.local/share/uv/python/cpython-3.12.8-linux-x86_64-gnu/bin/python3.12"
PROGRAM = "\x7fELF" + "x" * 2**20


def environment(target: str) -> list[Change]:
    made = [Change(f"{VENV}/bin", "added", "folder"), *added(f"{VENV}/pyvenv.cfg", UV)]
    return [*made, Change(f"{VENV}/bin/python3", "added", "link", target)]


@pytest.mark.parametrize(
    ("target", "content", "path", "is_suspicious"),
    [
        (UV, PROGRAM, (f"{VENV}/bin", "/usr/bin"), False),
        (UV, "#!/bin/sh", (f"{VENV}/bin", "/usr/bin"), True),
        (f"/app/x/{UV.rpartition('/')[2]}", PROGRAM, (f"{VENV}/bin", "/usr/bin"), True),
    ],
)
def test_a_python_by_uv_where_the_images_path_expects_one(
    target: str, content: str, path: tuple[str, ...], is_suspicious: bool
) -> None:
    found = seen(environment(target), {UV: content}, path)
    assert codes(found, "suspicious") == ({"path-shadow"} if is_suspicious else set())


def test_a_python_by_uv_may_not_take_the_images_place() -> None:
    """Only a version of its own, where a folder of the image's path is there already."""
    home = "/root/.local/bin"
    for name, expected in (("python3.11", set()), ("python3", {"path-shadow"})):
        link = Change(f"{home}/{name}", "added", "link", UV)
        found = seen([link, *added(UV)], {UV: PROGRAM}, (home, "/usr/bin"))
        assert codes(found, "suspicious") == expected


@pytest.mark.parametrize(
    ("target", "is_suspicious"),
    [("/usr/bin/gawk", False), ("/app/e", True), ("/usr/bin/true", True), ("/app/gawk", True)],
)
def test_alternatives(target: str, is_suspicious: bool) -> None:
    changes = [Change("/etc/alternatives/awk", "changed", "link", target)]
    changes += added("/app/gawk", "/app/e")
    found = seen(changes, {"/app/gawk": "evil", "/app/e": "evil"})
    assert codes(found, "suspicious") == ({"replaced-program"} if is_suspicious else set())


def test_libraries_for_faster_machines_are_found_first() -> None:
    place = "/usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v2/libc.so.6"
    found = seen(added(place), {place: "evil"})
    assert codes(found, "suspicious") == {"replaced-library"}
    assert place in found.remove


def cache(*libraries: tuple[str, str]) -> str:
    """What the loader writes of libraries; ASCII, so that a box of texts can hold it."""
    texts = [text.encode() + b"\0" for pair in libraries for text in pair]
    start = 48 + 24 * len(libraries)
    places = [start + sum(map(len, texts[:index])) for index in range(len(texts))]
    pairs = zip(places[::2], places[1::2], strict=True)
    entries = b"".join(struct.pack("<iIIIQ", 3, name, path, 0, 0) for name, path in pairs)
    header = struct.pack("<20sII20x", b"glibc-ld.so.cache1.1", len(libraries), 0)
    return (header + entries + b"".join(texts)).decode("ascii")


CACHE = "/etc/ld.so.cache"


@pytest.mark.parametrize(
    ("library", "is_suspicious"),
    [
        (("libz.so.1", "/usr/lib/libz.so.1"), False),
        (("libown.so.1", "/opt/own/lib/libown.so.1"), False),
        (("libc.so.6", "/usr/lib/libc.so.6"), False),
        (("libc.so.6", "/app/l/libc.so.6"), True),
        (("libc.so.6", "/usr/lib/libevil.so"), True),
    ],
)
def test_the_loaders_memory(library: tuple[str, str], is_suspicious: bool) -> None:
    found = seen([Change(CACHE, "changed", "file")], {CACHE: cache(library)})
    assert codes(found, "suspicious") == ({"loader"} if is_suspicious else set())
    assert (CACHE in found.restore) is is_suspicious


@pytest.mark.parametrize("content", ["", "x", cache(("a", "b"))[:60]])
def test_what_is_no_memory_of_the_loader(content: str) -> None:
    found = seen([Change(CACHE, "changed", "file")], {CACHE: content})
    assert codes(found, "suspicious") == {"loader"}


def test_a_memory_of_two_kinds_is_read() -> None:
    data = b"ld.so-1.7.0\0" + b"\0" * 4 + cache(("a.so", "/lib/a.so")).encode()
    assert list(libraries_in_cache(data)) == [("a.so", "/lib/a.so")]
