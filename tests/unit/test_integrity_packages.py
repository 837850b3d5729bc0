"""What packages of RPM and conda brought is information; copies under other names are not."""

import hashlib
import json
import sqlite3
import struct
from contextlib import closing

import pytest

from pytest_harbor.integrity.rpm import files_of_rpm
from tests.unit.test_integrity import SITE, Box, codes, judged, record


def header(*files: tuple[str, str, str]) -> bytes:
    """A package's header with its files: folder, name and content."""
    digests = [hashlib.sha256(text.encode()).hexdigest() if text else "" for *_, text in files]
    folders = list(dict.fromkeys(folder for folder, *_ in files))
    values = {
        1035: (8, b"".join(each.encode() + b"\0" for each in digests), len(files)),
        1117: (8, b"".join(name.encode() + b"\0" for _, name, _ in files), len(files)),
        1118: (8, b"".join(each.encode() + b"\0" for each in folders), len(folders)),
        1116: (4, b"".join(struct.pack(">I", folders.index(f)) for f, *_ in files), len(files)),
    }
    index, store = b"", b""
    for tag, (kind, data, number) in values.items():
        index += struct.pack(">IIII", tag, kind, len(store), number)
        store += data
    return struct.pack(">II", len(values), len(store)) + index + store


def rpm_database(*headers: bytes) -> bytes:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB NOT NULL)")
        database.executemany("INSERT INTO Packages (blob) VALUES (?)", [(h,) for h in headers])
        database.commit()
        data = bytearray(database.serialize())
    data[18:20] = b"\x02\x02"  # as RPM leaves it
    return bytes(data)


def test_the_files_of_an_rpm_database() -> None:
    data = rpm_database(header(("/usr/bin/", "wget", "x"), ("/etc/", "wgetrc", "")), header())
    digest = hashlib.sha256(b"x").hexdigest()
    assert list(files_of_rpm(data)) == [("/usr/bin/wget", digest), ("/etc/wgetrc", "")]


def without_end() -> bytes:
    """A database whose table is a view that never ends."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE VIEW Packages AS WITH RECURSIVE n(blob) AS"
            " (SELECT x'' UNION ALL SELECT blob FROM n) SELECT blob FROM n WHERE blob = x'00'"
        )
        return database.serialize()


@pytest.mark.parametrize(
    "data", [b"", b"x" * 5000, rpm_database(b"\xff" * 40), rpm_database(b"x"), without_end()]
)
def test_what_is_no_rpm_database(data: bytes) -> None:
    with pytest.raises(ValueError, match="RPM"):
        list(files_of_rpm(data))


DATABASE = "/usr/lib/sysimage/rpm/rpmdb.sqlite"


@pytest.fixture
def with_rpm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database of a box in which wget was installed and bash upgraded."""
    data = rpm_database(header(("/usr/bin/", "wget", "wget"), ("/usr/bin/", "bash", "new")))
    read = Box.read
    monkeypatch.setattr(
        Box,
        "read",
        lambda box, path, *, max_bytes: (
            data if path == DATABASE else read(box, path, max_bytes=max_bytes)
        ),
    )


@pytest.mark.usefixtures("with_rpm")
def test_packages_of_rpm_are_no_tampering() -> None:
    now = {DATABASE: "", "/usr/bin/wget": "wget", "/usr/bin/bash": "new"}
    found, _ = judged(now, {DATABASE: "", "/usr/bin/bash": "old"})
    assert codes(found, "suspicious") == set()
    assert codes(found, "information") == {"new-program", "upgraded"}
    assert found.restore == ["/usr/bin/bash"]


@pytest.mark.usefixtures("with_rpm")
def test_a_packages_file_over_another_is_tampering() -> None:
    now = {DATABASE: "", "/usr/bin/grep": "wget"}
    found, _ = judged(now, {DATABASE: "", "/usr/bin/grep": "grep"})
    assert codes(found, "suspicious") == {"replaced-program"}


def test_packages_of_a_kind_that_is_not_read_leave_all_as_it_is() -> None:
    now = {"/var/lib/rpm/Packages": "x", "/usr/bin/bash": "new", "/usr/bin/wget": "x"}
    found, _ = judged(now, {"/var/lib/rpm/Packages": "y", "/usr/bin/bash": "old"})
    assert codes(found, "suspicious") == set()
    assert codes(found, "information") == {"replaced-program", "new-program"}
    assert found.restore == []


def test_a_database_that_the_image_lacks_excuses_nothing() -> None:
    now = {"/var/lib/rpm/Packages": "x", "/usr/bin/bash": "new"}
    found, _ = judged(now, {"/usr/bin/bash": "old"})
    assert codes(found, "suspicious") == {"replaced-program"}


def conda(prefix: str, path: str, content: str) -> dict[str, str]:
    digest = hashlib.sha256(content.encode()).hexdigest()
    paths = [{"_path": path, "sha256": "0", "sha256_in_prefix": digest}]
    return {f"{prefix}/conda-meta/p-1.json": json.dumps({"paths_data": {"paths": paths}})}


def test_an_update_by_conda_is_left_whole() -> None:
    python = "/opt/conda/bin/python3.11"
    now = {python: "new", **conda("/opt/conda", "bin/python3.11", "new")}
    found, _ = judged(now, {python: "old"})
    assert codes(found, "suspicious") == set()
    assert found.restore == []


def test_conda_excuses_nothing_outside_of_its_folder() -> None:
    now = {"/usr/bin/bash": "evil", **conda("/opt/conda", "../../usr/bin/bash", "evil")}
    found, _ = judged(now, {"/usr/bin/bash": "x"})
    assert codes(found, "suspicious") == {"replaced-program"}


def test_a_test_tool_of_many_files_costs_few_requests() -> None:
    files = [(f"_pytest/m{number}.py", "x") for number in range(300)]
    now = {f"{SITE}/{name}": text for name, text in files} | record(SITE, *files)
    found, box = judged(now)
    assert codes(found, "suspicious") == set()
    assert found.unseen == []
    assert box.asked < 5
