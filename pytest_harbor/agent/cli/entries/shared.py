"""What several tools have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_harbor.agent.mcp import McpServerSpec, config_text
from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.result.trajectory import Trajectory

_MAX_BYTES = 256 * 1024**2

Reader = Callable[[bytes, str | None], Trajectory]


def mcp_table(servers: Sequence[McpServerSpec]) -> dict[str, Any]:
    """The ``mcpServers`` table that most tools read."""
    table: dict[str, Any] = json.loads(config_text(servers))["mcpServers"]
    return table


def newest_file(folder: Path, pattern: str) -> Path | None:
    """The file that was written last; links, which a container may have made, do not count."""
    files = [path for path in _files(folder, pattern) if path.stat().st_size <= _MAX_BYTES]
    return max(files, key=lambda path: path.stat().st_mtime, default=None)


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    for path in folder.glob(pattern):
        if path.is_file() and not path.is_symlink():
            yield path


def first_readable(
    logs_dir: Path, instruction: str | None, read: Reader, *patterns: str
) -> Trajectory | None:
    """The trajectory in the first file that holds one."""
    failure: TrajectoryFormatError | None = None
    for pattern in patterns:
        path = newest_file(logs_dir, pattern)
        if path is None:
            continue
        try:
            return read(path.read_bytes(), instruction)
        except TrajectoryFormatError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return None
