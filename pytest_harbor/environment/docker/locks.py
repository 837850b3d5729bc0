"""Locks between the processes of one user on this machine."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.errors import EnvironmentStartTimeoutError


@cache
def lock_folder() -> Path:
    """``$XDG_CACHE_HOME/pytest-harbor/locks``, by default below ``~/.cache``.

    Where that cannot be written, a folder of this user's in the temporary folder.
    """
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    folder = Path(cache_home) / "pytest-harbor" / "locks"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    fallback = Path(tempfile.gettempdir()) / f"pytest-harbor-locks-{user}"
    fallback.mkdir(mode=0o700, exist_ok=True)
    return fallback


@contextmanager
def locked(name: str, deadline: Deadline) -> Iterator[None]:
    """Hold the lock ``name``, waiting for whoever has it.

    Raises:
        EnvironmentStartTimeoutError: The deadline passed first.
    """
    # Most runs find their images built, and its import costs as much as a few requests.
    from filelock import FileLock, Timeout

    path = lock_folder() / (re.sub(r"[^A-Za-z0-9._-]+", "-", name) + ".lock")
    remaining = deadline.remaining
    lock = FileLock(path, timeout=-1 if remaining is None else remaining)
    try:
        lock.acquire()
    except Timeout as error:
        raise EnvironmentStartTimeoutError(
            f"waited {deadline.timeout_sec:g} s for another process that makes {name}; "
            "raise [environment].build_timeout_sec or --harbor-build-timeout-multiplier"
        ) from error
    try:
        yield
    finally:
        lock.release()
