"""Content of the tests or the solution in what the agent's image is built from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from pytest_harbor.result.integrity import IntegrityFinding, Level

_MIN_BYTES = 16
_MAX_BYTES = 4 * 1024 * 1024
_MAX_FILES = 5000


@lru_cache(maxsize=1024)
def tests_in_image(context: Path, secret_folders: tuple[Path, ...]) -> tuple[IntegrityFinding, ...]:
    """Files of the build context with the very content of a file that the agent may not see.

    Their names and sizes are compared first: few files are read.
    """
    sizes: dict[int, list[Path]] = {}
    for path, size in _files((context,)):
        sizes.setdefault(size, []).append(path)
    findings = []
    for path, size in _files(secret_folders):
        for other in sizes.get(size, ()):
            if _digest(path) == _digest(other):
                findings.append(_finding(context, other, path, _digest(path)))
    return tuple(findings[:20])


def _finding(context: Path, found: Path, hidden: Path, digest: str) -> IntegrityFinding:
    message = (
        f"environment/{found.relative_to(context).as_posix()} has the content of"
        f" {hidden.parent.name}/{hidden.name}: the agent can read it"
    )
    # Data may be shared on purpose; nobody shares what grades or solves.
    is_code = hidden.suffix in (".sh", ".bat") or hidden.name.startswith("test_")
    level: Level = "suspicious" if is_code else "information"
    return IntegrityFinding("tests-in-image", level, message, found=digest)


def _files(folders: Sequence[Path]) -> Iterator[tuple[Path, int]]:
    left = _MAX_FILES
    for folder in folders:
        for where, _, names in os.walk(folder):
            for name in sorted(names):
                path = Path(where, name)
                size = path.lstat().st_size
                left -= 1
                if left < 0:
                    return
                if _MIN_BYTES <= size <= _MAX_BYTES and not path.is_symlink():
                    yield path, size


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
