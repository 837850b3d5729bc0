"""Log files are bounded, hold no secrets, and take whatever is written to them."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.trial.logs import LogFile, read_tail
from pytest_harbor.trial.secrets import Redactor

PLAIN = Redactor()


def written(path: Path, *pieces: bytes, secrets: tuple[str, ...] = (), limit: int = 10**6) -> bytes:
    with LogFile(path, Redactor(secrets), limit) as log:
        for piece in pieces:
            assert log.write(piece) == len(piece)
    return path.read_bytes()


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(0, 100))
def test_the_first_bytes_are_kept_and_the_rest_is_counted(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], limit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "bounded.txt"
    whole = b"".join(pieces)
    dropped = max(len(whole) - limit, 0)
    notice = f"\n[pytest-harbor: {dropped} more bytes were dropped]\n".encode() if dropped else b""
    assert written(path, *pieces, limit=limit) == whole[:limit] + notice


def test_a_full_log_takes_more(tmp_path: Path) -> None:
    content = written(tmp_path / "log.txt", *[b"0123456789"] * 1000, limit=4)
    assert content == b"0123\n[pytest-harbor: 9996 more bytes were dropped]\n"


def test_secrets_are_taken_out_across_writes(tmp_path: Path) -> None:
    content = written(tmp_path / "log.txt", b"a s3cr3t-", b"value b", secrets=("s3cr3t-value",))
    assert content == b"a [REDACTED] b"


def test_what_only_began_like_a_secret_is_written_at_the_end(tmp_path: Path) -> None:
    assert written(tmp_path / "log.txt", b"s3cr3t", secrets=("s3cr3t-value",)) == b"s3cr3t"


def test_any_buffer_is_taken(tmp_path: Path) -> None:
    assert written(tmp_path / "log.txt", memoryview(b"one "), bytearray(b"two")) == b"one two"


def test_closing_twice_changes_nothing(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log.txt", PLAIN)
    log.write(b"text")
    log.close()
    log.close()
    assert log.closed
    assert (tmp_path / "log.txt").read_bytes() == b"text"
    with pytest.raises(ValueError, match="closed"):
        log.write(b"more")


def test_folders_are_made(tmp_path: Path) -> None:
    assert written(tmp_path / "a" / "b" / "log.txt", b"x") == b"x"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_told_once() -> None:
    log = LogFile(Path("/dev/full"), PLAIN)
    log.write(b"text")
    with pytest.raises(OSError, match="No space left"):
        log.close()
    assert log.closed
    log.close()


@given(st.binary(max_size=60), st.integers(1, 50))
def test_the_tail_is_the_end_as_text(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "tail.txt"
    path.write_bytes(data)
    assert read_tail(path, size) == data[-size:].decode("utf-8", "replace")


def test_a_file_that_is_not_there_has_no_tail(tmp_path: Path) -> None:
    assert read_tail(tmp_path / "none.txt") == ""
    assert read_tail(tmp_path) == ""
