"""Unpacking hostile archives; no engine needed."""

import contextlib
import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_harbor.environment.base import DownloadLimits
from pytest_harbor.environment.extraction import (
    ByteStream,
    extract,
    is_case_sensitive,
    printable,
    relative_name,
)
from pytest_harbor.errors import TransferError

LIMITS = DownloadLimits(total_bytes=100_000, files=100)

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def entry(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def archive(*entries: tarfile.TarInfo, root: str = "logs", data: bytes = b"data") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(entry(root, tarfile.DIRTYPE, mode=0o755))
        for info in entries:
            content = b""
            if info.isreg():
                info.size = len(data)
                content = data
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def pieces(data: bytes, size: int = 1000) -> Iterable[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "name",
    ["logs/../../evil", "/evil", "../evil", "logs/a/../../../evil", "other/evil", "logs/.."],
)
def test_names_that_point_outside_are_not_written(tmp_path: Path, name: str):
    target = tmp_path / "in" / "target"
    report = extract(pieces(archive(entry(name), entry("logs/ok"))), target, limits=LIMITS)
    assert report.files == ("ok",)
    assert report.skipped[name] == "points outside the folder"
    assert below(tmp_path) == {"in", "in/target", "in/target/ok"}


def test_a_link_and_then_a_file_through_it(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    stream = archive(
        entry("logs/way", tarfile.SYMTYPE, linkname=str(outside)),
        entry("logs/way/evil"),
        entry("logs/hard", tarfile.LNKTYPE, linkname="/etc/passwd"),
    )
    report = extract(pieces(stream), tmp_path / "target", limits=LIMITS)
    assert below(outside) == set()
    assert report.files == ("way/evil",)
    assert dict(report.skipped) == {"way": "link", "hard": "hard link"}


def test_no_set_id_bits_no_devices(tmp_path: Path):
    stream = archive(
        entry("logs/suid", mode=0o6777, uid=0, gid=0),
        entry("logs/secret", mode=0),
        entry("logs/device", tarfile.CHRTYPE, devmajor=1, devminor=5),
        entry("logs/pipe", tarfile.FIFOTYPE),
        entry("logs/strange", b"Z"),
    )
    report = extract(pieces(stream), tmp_path, limits=LIMITS)
    assert (tmp_path / "suid").stat().st_mode & 0o7777 & ~0o777 == 0
    assert (tmp_path / "secret").read_bytes() == b"data"
    assert {"device", "pipe"} <= set(report.skipped)
    assert not (tmp_path / "device").exists()


def test_names_that_are_one_on_this_machine(tmp_path: Path):
    stream = archive(entry("logs/A/x"), entry("logs/a/y"), entry("logs/b"), entry("logs/B"))
    report = extract(pieces(stream), tmp_path, limits=LIMITS, case_sensitive=False)
    assert report.files == ("A/x", "b")
    assert report.skipped["a/y"] == "differs from A in case alone"
    both = extract(pieces(stream), tmp_path / "2", limits=LIMITS, case_sensitive=True)
    assert both.files == ("A/x", "B", "a/y", "b")


def test_the_probe_for_case_leaves_nothing_behind(tmp_path: Path):
    assert (
        is_case_sensitive(tmp_path)
        is not (tmp_path / "x").parent.with_name(tmp_path.name.swapcase()).exists()
    )
    assert below(tmp_path) == set()


def test_names_that_are_no_text_are_skipped_under_a_printable_name(tmp_path: Path):
    report = extract(
        pieces(archive(entry("logs/bad\udcff"), entry("logs/two\nlines"))),
        tmp_path,
        limits=LIMITS,
    )
    assert report.files == ()
    assert set(report.skipped) == {"bad\\udcff", "two\\nlines"}


def test_a_file_in_the_place_of_a_folder_and_the_reverse(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    stream = archive(entry("logs/folder"), entry("logs/file/inside"))
    report = extract(pieces(stream), tmp_path, limits=LIMITS)
    assert report.files == ()
    assert set(report.skipped) == {"folder", "file/inside"}
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize(
    "limits", [DownloadLimits(total_bytes=7, files=100), DownloadLimits(total_bytes=99, files=2)]
)
def test_limits_end_it_between_two_files(tmp_path: Path, limits: DownloadLimits):
    stream = archive(*(entry(f"logs/{n}") for n in range(5)))
    report = extract(pieces(stream), tmp_path, limits=limits)
    assert not report.complete
    assert below(tmp_path) == set(report.files)
    assert all((tmp_path / name).read_bytes() == b"data" for name in report.files)


def test_a_huge_file_is_not_read(tmp_path: Path):
    head = archive(entry("logs/a"))[:1536]
    huge = entry("logs/huge", size=1024**4).tobuf(tarfile.GNU_FORMAT)
    given_out = 0

    def chunks() -> Iterable[bytes]:
        nonlocal given_out
        yield head + huge
        while True:
            given_out += 1
            yield bytes(1024)

    report = extract(chunks(), tmp_path, limits=LIMITS)
    assert (report.files, report.complete) == (("a",), False)
    assert given_out < 100


def test_a_stream_that_breaks_off_is_an_error(tmp_path: Path):
    whole = archive(entry("logs/a"), data=bytes(5000))
    with pytest.raises(TransferError, match="broken"):
        extract(pieces(whole[:3000]), tmp_path, limits=LIMITS)


def test_a_lone_file_becomes_the_target(tmp_path: Path):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(entry("reward.txt", size=1), io.BytesIO(b"1"))
    report = extract(pieces(file.getvalue()), tmp_path / "deep" / "r.txt", limits=LIMITS)
    assert report.files == ("r.txt",)
    assert (tmp_path / "deep" / "r.txt").read_text() == "1"


names = st.lists(
    st.sampled_from(["..", ".", "", "a", "A", "logs", "ä", "x\n", "\udcff", "b" * 300, "~", "C:"]),
    min_size=1,
    max_size=5,
).map("/".join)
kinds = st.sampled_from(
    [
        tarfile.REGTYPE,
        tarfile.DIRTYPE,
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
    ]
)
entries = st.builds(
    lambda name, kind, link, mode: entry(name, kind, linkname=link, mode=mode),
    st.one_of(names, names.map("logs/{}".format)).filter(lambda name: "\0" not in name),
    kinds,
    st.sampled_from(["/etc/passwd", "..", "/", "a", "../../a"]),
    st.integers(0, 0o7777),
)


@quick
@given(st.lists(entries, max_size=12), st.booleans())
def test_whatever_the_entries_nothing_leaves_the_target(
    tmp_path_factory: pytest.TempPathFactory, hostile: list[tarfile.TarInfo], sensitive: bool
):
    place = tmp_path_factory.mktemp("hostile")
    target = place / "outer" / "target"
    stream = archive(*hostile)
    report = extract(pieces(stream), target, limits=LIMITS, case_sensitive=sensitive)
    written = below(target)
    assert below(place) == {"outer", "outer/target", *(f"outer/target/{name}" for name in written)}
    assert set(report.files) <= written
    for path in target.rglob("*"):
        status = path.lstat()
        assert path.is_dir() or path.is_file()
        assert not path.is_symlink()
        assert status.st_mode & 0o7000 == 0
        assert status.st_nlink == 1 or path.is_dir()


@quick
@given(st.binary(max_size=4000), st.integers(0, 3000))
def test_whatever_the_bytes_it_ends_with_a_report_or_a_transfer_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
):
    place = tmp_path_factory.mktemp("noise")
    whole = archive(entry("logs/a"), entry("logs/b/c"))
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    for stream in (noise, damaged):
        with contextlib.suppress(TransferError):
            extract(pieces(stream), place / "target", limits=LIMITS)
    assert below(place) - {"target"} == {f"target/{name}" for name in below(place / "target")}


@given(names)
def test_relative_names_stay_inside(name: str):
    relative = relative_name(f"logs/{name}", "logs")
    assert relative is None or not os.path.normpath(f"/t/{relative}").startswith("/t/..")
    assert relative is None or ".." not in relative.split("/")


@given(st.text())
def test_printable_names_can_be_written_anywhere(name: str):
    printable(name).encode("utf-8")
    assert "\n" not in printable(name)


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(0, 70)))
def test_a_byte_stream_gives_every_byte_once(chunks: list[bytes], sizes: list[int]):
    # An empty chunk is the end, as it is for whoever reads a socket.
    chunks = [chunk for chunk in chunks if chunk]
    stream = ByteStream(chunks, 10_000)
    read = b"".join(stream.read(size) for size in sizes) + stream.read(10_000)
    assert read == b"".join(chunks)
