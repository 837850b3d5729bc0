"""Logs that are written while they are brought home."""

from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.environment.base import DownloadReport
from pytest_harbor.environment.logs import bring_logs_home
from pytest_harbor.errors import TransferError


class Box:
    """A box whose archive breaks off a few times, as that of a file that shrinks."""

    def __init__(self, broken: int) -> None:
        self._broken = broken

    def download(self, source: str, target: Path, **_: Any) -> DownloadReport:
        target.mkdir(parents=True)
        if self._broken:
            self._broken -= 1
            (target / "half").write_text("of another try")
            raise TransferError("the archive from the container is broken")
        (target / "log.txt").write_text(source)
        return DownloadReport(("log.txt",), {}, True)


def bring(box: Any, folder: Path) -> list[str]:
    return bring_logs_home(box, {"agent": folder / "agent"}, folder / ".logs", lambda file: file)


def test_an_archive_that_breaks_off_is_asked_for_again(tmp_path: Path) -> None:
    assert bring(Box(broken=2), tmp_path) == []
    assert [path.name for path in tmp_path.rglob("*")] == ["agent", "log.txt"]


def test_one_that_always_breaks_off_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TransferError):
        bring(Box(broken=9), tmp_path)
    assert list(tmp_path.iterdir()) == []
