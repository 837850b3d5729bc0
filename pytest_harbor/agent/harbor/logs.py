"""Log files that Harbor's agents write to this machine themselves: kept without secrets."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_harbor.agent.base import AgentContext
from pytest_harbor.agent.model_route import CALLS_FILE


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
