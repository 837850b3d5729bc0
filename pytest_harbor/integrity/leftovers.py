"""Content of the tests or the solution in the agent's image, or in what it is built from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from pytest_harbor.environment.base import Environment
from pytest_harbor.errors import TransferError
from pytest_harbor.result.integrity import IntegrityFinding, Level

_MIN_BYTES = 16
_MAX_BYTES = 4 * 1024 * 1024
_MAX_FILES = 5000
_MAX_COMPARED = 20


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


def laid_out_in_image(
    environment: Environment, hidden: Mapping[str, Sequence[Path]]
) -> Iterator[IntegrityFinding]:
    """Folders of the verifier or the solution that a box has before anything ran in it.

    Args:
        environment: The box; nothing has worked in it yet.
        hidden: Place in a box → this machine's folders that are laid out there.
    """
    for place, folders in hidden.items():
        try:
            environment.read(place, max_bytes=1)
        except FileNotFoundError:
            continue
        except TransferError:
            pass  # a folder
        yield _laid_out(environment, place, folders)


def _laid_out(environment: Environment, place: str, folders: Sequence[Path]) -> IntegrityFinding:
    for folder in folders:
        for path, _ in islice(_files((folder,)), _MAX_COMPARED):
            inside = f"{place}/{path.relative_to(folder).as_posix()}"
            digest = _digest(path)
            if _digest_inside(environment, inside) == digest:
                message = f"{inside} is in the image as the task has it: the agent can read it"
                level: Level = "suspicious" if _is_code(path) else "information"
                return IntegrityFinding("tests-in-image", level, message, inside, found=digest)
    message = f"the image has {place}, with other content than the task's"
    return IntegrityFinding("tests-in-image", "information", message, place)


def _digest_inside(environment: Environment, path: str) -> str:
    try:
        return hashlib.sha256(environment.read(path, max_bytes=_MAX_BYTES)).hexdigest()
    except (FileNotFoundError, TransferError):
        return ""


def _is_code(hidden: Path) -> bool:
    # Data may be shared on purpose; nobody shares what grades or solves.
    return hidden.suffix in (".sh", ".bat") or hidden.name.startswith("test_")


def _finding(context: Path, found: Path, hidden: Path, digest: str) -> IntegrityFinding:
    message = (
        f"environment/{found.relative_to(context).as_posix()} has the content of"
        f" {hidden.parent.name}/{hidden.name}: the agent can read it"
    )
    level: Level = "suspicious" if _is_code(hidden) else "information"
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
