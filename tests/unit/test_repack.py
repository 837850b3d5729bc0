"""Archives on their way from one box to another: safe, whole, with owners and modes."""

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.environment.base import DownloadLimits
from pytest_harbor.environment.repack import repack

LIMITS = DownloadLimits(total_bytes=10_000, files=50)


def entry(name, kind=tarfile.REGTYPE, data=b"", link="", mode=0o644, uid=0, gid=0):
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, len(data), link
    member.mode, member.uid, member.gid = mode, uid, gid
    return member, data


def packed(*entries):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for member, data in entries:
            tar.addfile(member, io.BytesIO(data))
    return [file.getvalue()]


def repacked(*entries, source="/srv/out", limits=LIMITS, exclude=()):
    sink = io.BytesIO()
    report = repack(packed(*entries), source, sink, limits=limits, exclude=exclude)
    sink.seek(0)
    with tarfile.open(fileobj=sink) as tar:
        return report, {member.name: member for member in tar.getmembers()}


FOLDER = entry("out", tarfile.DIRTYPE, mode=0o750)


def test_names_are_absolute_and_owners_and_modes_stay():
    report, members = repacked(FOLDER, entry("out/a", data=b"x", mode=0o640, uid=7, gid=8))
    assert report.files == ("a",)
    assert set(members) == {"srv/out", "srv/out/a"}
    member = members["srv/out/a"]
    assert (member.uid, member.gid, member.mode, member.size) == (7, 8, 0o640, 1)
    assert members["srv/out"].mode == 0o750


def test_set_id_bits_are_dropped():
    _, members = repacked(FOLDER, entry("out/a", mode=0o6755))
    assert members["srv/out/a"].mode == 0o755


def test_a_lone_file():
    report, members = repacked(entry("report.json", data=b"{}"), source="/app/report.json")
    assert report.files == ("report.json",)
    assert set(members) == {"app/report.json"}


@pytest.mark.parametrize(
    ("where", "link", "kept"),
    [
        ("out/l", "a", True),
        ("out/s/l", "../a", True),
        ("out/l", "../a", False),
        ("out/s/l", "../../a", False),
        ("out/l", "/etc/passwd", False),
        ("out/l", "s/../../x", False),
    ],
)
def test_links_stay_inside(where, link, kept):
    report, members = repacked(FOLDER, entry(where, tarfile.SYMTYPE, link=link))
    assert (f"srv/{where}" in members) is kept
    assert bool(report.skipped) is not kept


def test_second_names_of_a_file_are_kept():
    _, members = repacked(
        FOLDER, entry("out/a", data=b"x"), entry("out/b", tarfile.LNKTYPE, link="out/a")
    )
    assert members["srv/out/b"].linkname == "srv/out/a"


@pytest.mark.parametrize("link", ["out/never", "/etc/shadow", "../etc/shadow"])
def test_second_names_of_other_files_are_not(link):
    report, members = repacked(FOLDER, entry("out/b", tarfile.LNKTYPE, link=link))
    assert set(members) == {"srv/out"}
    assert report.skipped == {"b": "hard link"}


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_left_out(kind):
    report, members = repacked(FOLDER, entry("out/d", kind))
    assert set(members) == {"srv/out"}
    assert set(report.skipped) == {"d"}


@pytest.mark.parametrize("name", ["elsewhere/a", "out/../a", "/out/a"])
def test_names_outside_are_left_out(name):
    report, members = repacked(FOLDER, entry(name, data=b"x"))
    assert set(members) == {"srv/out"}
    assert len(report.skipped) == 1


def test_excluded_names_go_with_all_below_them():
    report, _ = repacked(
        FOLDER,
        entry("out/cache", tarfile.DIRTYPE),
        entry("out/cache/a", data=b"x"),
        entry("out/b.lock"),
        entry("out/c"),
        exclude=["cache", "*.lock"],
    )
    assert report.files == ("c",)


def test_limits_end_it_with_a_whole_archive():
    report, members = repacked(
        FOLDER,
        entry("out/a", data=b"x" * 60),
        entry("out/b", data=b"x" * 60),
        limits=DownloadLimits(total_bytes=100, files=50),
    )
    assert not report.complete
    assert "srv/out/a" in members
    assert "srv/out/b" not in members


NAMES = st.text(st.sampled_from("ab./\\ é"), min_size=1, max_size=12)


@given(
    st.lists(
        st.tuples(
            NAMES,
            st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE]),
            NAMES,
        ),
        max_size=8,
    )
)
def test_nothing_that_comes_out_leads_out(entries):
    made = [entry(f"out/{name}", kind, link=link) for name, kind, link in entries]
    _, members = repacked(FOLDER, *made)
    for name, member in members.items():
        assert name == "srv/out" or name.startswith("srv/out/")
        assert ".." not in name.split("/")
        assert not member.linkname.startswith("/")
        assert not member.isdev()
