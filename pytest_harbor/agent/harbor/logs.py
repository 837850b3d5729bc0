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


class LogKeeper:
    """Watches over the folder of one phase's logs."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Write what appears meanwhile anew, the way all logs are written, however it ends."""
        before = self._files()
        try:
            yield
        finally:
            for path, state in self._files().items():
                if before.get(path) != state:
                    self._rewrite(path)

    def _files(self) -> dict[Path, tuple[int, int]]:
        """Regular files with their size and time; none of another's."""
        found = {}
        for folder, _, names in os.walk(self._context.logs_dir):
            for path in (Path(folder, name) for name in names if name != CALLS_FILE):
                status = path.lstat()
                if path.is_file() and not path.is_symlink():
                    found[path] = (status.st_size, status.st_mtime_ns)
        return found

    def _rewrite(self, path: Path) -> None:
        name = str(path.relative_to(self._context.logs_dir))
        raw = path.rename(path.with_name(f".{path.name}.raw"))
        try:
            with raw.open("rb") as source, self._context.open_log(name) as target:
                shutil.copyfileobj(source, target, 1024**2)
        finally:
            raw.unlink()
