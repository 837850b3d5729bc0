"""What killed runs left in the cache, and how it is told from what a living one works on."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path

_OLD_SEC = 60.0


def sweep(root: Path) -> None:
    """Remove from a cache what killed runs left; what a living one works on it has locked."""
    work = root / "tmp"
    for left in work.glob("*-*"):
        if left.suffix != ".lock":
            _remove(left)
    for lock in [*work.glob("*-*.lock"), *(root / "runs").glob("*.lock")]:
        # Between making one and taking it a run has a moment in which it looks left.
        if not lock.with_suffix("").exists() and _is_old(lock):
            _unlock(lock)
    for draft in (root / "datasets").glob(".*.part"):
        if _is_old(draft):
            draft.unlink(missing_ok=True)


def forget_locks(root: Path) -> None:
    """Remove the locks of downloads that nobody does now."""
    for lock in (root / "locks").glob("*.lock"):
        _unlock(lock)


def _remove(left: Path) -> None:
    from filelock import FileLock, Timeout

    lock = Path(f"{left}.lock")
    with suppress(OSError, Timeout), FileLock(lock, timeout=0):
        shutil.rmtree(left, ignore_errors=True)
        lock.unlink()


def _unlock(lock: Path) -> None:
    from filelock import FileLock, Timeout

    with suppress(OSError, Timeout), FileLock(lock, timeout=0):
        lock.unlink()


def _is_old(path: Path) -> bool:
    with suppress(OSError):
        return time.time() - path.stat().st_mtime > _OLD_SEC
    return False
