"""What Harbor's agents write to this machine themselves, kept without secrets."""

from __future__ import annotations

import io
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_harbor.agent.base import AgentContext
from pytest_harbor.agent.model_route import CALLS_FILE

LOGGERS = ("harbor", "LiteLLM")
"""Loggers of Harbor and of its way to models: below them all that is said may hold secrets."""

SETUP_LOG, RUN_LOG, TRAJECTORY_LOG = "harbor-setup.log", "harbor.log", "harbor-trajectory.log"
_BEING_WRITTEN = frozenset({SETUP_LOG, RUN_LOG, TRAJECTORY_LOG, CALLS_FILE})


@contextmanager
def messages_in(context: AgentContext, name: str) -> Iterator[None]:
    """Have what Harbor logs in the file ``name`` of a phase, and nowhere else."""
    with context.open_log(name) as log:
        text = io.TextIOWrapper(log, "utf-8", "backslashreplace", write_through=True)
        handler = logging.StreamHandler(text)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        for logger in map(logging.getLogger, LOGGERS):
            logger.propagate = False
            logger.addHandler(handler)
        try:
            yield
        finally:
            for logger in map(logging.getLogger, LOGGERS):
                logger.removeHandler(handler)


@contextmanager
def kept_logs(context: AgentContext) -> Iterator[None]:
    """Write files that appear in a phase's folder anew, as logs are written, however it ends."""
    before = _files(context.logs_dir)
    try:
        yield
    finally:
        for path, state in _files(context.logs_dir).items():
            if before.get(path) != state:
                _rewrite(path, context)


def _files(logs_dir: Path) -> dict[Path, tuple[int, int]]:
    """Regular files with their size and time; without those that have no secrets in any case."""
    found = {}
    for folder, _, names in os.walk(logs_dir):
        for path in (Path(folder, name) for name in names if name not in _BEING_WRITTEN):
            if path.is_file() and not path.is_symlink():
                status = path.stat()
                found[path] = (status.st_size, status.st_mtime_ns)
    return found


def _rewrite(path: Path, context: AgentContext) -> None:
    name = str(path.relative_to(context.logs_dir))
    raw = path.rename(path.with_name(f".{path.name}.raw"))
    try:
        with raw.open("rb") as source, context.open_log(name) as target:
            shutil.copyfileobj(source, target, 1024**2)
    finally:
        raw.unlink()
