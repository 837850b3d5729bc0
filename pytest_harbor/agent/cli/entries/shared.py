"""What several tools have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pytest_harbor.agent.command import MAX_COMMAND_BYTES
from pytest_harbor.errors import TrajectoryFormatError
from pytest_harbor.result.trajectory import Trajectory

_MAX_BYTES = 256 * 1024**2

Reader = Callable[[bytes, str | None], Trajectory]

_LONGEST_ARGUMENT = MAX_COMMAND_BYTES - 1


def given_as(short: str, long: str, preparation: str = ":") -> str:
    """Text for the shell that sets ``"$@"`` to how the tool is told its instruction.

    Args:
        short: Arguments for an instruction that is short enough to be one itself.
        long: Arguments for any other.
        preparation: A command that makes what ``long`` names.
    """
    size = '"$(wc -c < "$HARBOR_INSTRUCTION_FILE")"'
    return (
        f"if [ {size} -lt {_LONGEST_ARGUMENT} ]; then set -- {short}\n"
        f"else {preparation} && set -- {long}\nfi"
    )


def skills_into(folder: str) -> str:
    """Text for the shell that copies the task's skills to where the tool looks for them."""
    return (
        'if [ -n "$HARBOR_SKILLS_DIR" ] && [ -d "$HARBOR_SKILLS_DIR" ]; then\n'
        f'  mkdir -p "{folder}" && cp -r "$HARBOR_SKILLS_DIR/." "{folder}/"\n'
        "fi"
    )


def sessions_from(folder: str, name: str) -> str:
    """Text for the shell that keeps the files of sessions that began with this instruction.

    Args:
        folder: Where the tool writes them; the shell fills in variables and patterns.
        name: Pattern of their names.
    """
    return (
        "mkdir -p /logs/agent/sessions\n"
        f"find {folder} -type f -name '{name}' -newer \"$HARBOR_INSTRUCTION_FILE\""
        " -exec cp {} /logs/agent/sessions/ \\;"
    )


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
