"""Room on the disk: how much things take, and how that is written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size_text(size: int) -> str:
    """A size for people."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}" if unit else f"{size} bytes"


def size_on_disk(folder: Path) -> int:
    """Bytes of all files below a folder that may change meanwhile."""
    total = 0
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            with suppress(OSError):
                if one.is_dir(follow_symlinks=False):
                    total += size_on_disk(Path(one.path))
                else:
                    total += one.stat(follow_symlinks=False).st_size
    return total
