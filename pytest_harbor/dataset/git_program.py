"""The ``git`` program, with the user's settings and none of a repository's or folder's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_harbor.errors import DatasetError, DatasetUnreachableError

_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.askPass": "",
    "fetch.recurseSubmodules": "false",
    "fetch.negotiationAlgorithm": "noop",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "protocol.version": "2",
    "advice.detachedHead": "false",
    # Of attributes the repository's own count alone, wherever it is fetched.
    "core.attributesFile": os.devnull,
    # Where objects of Git LFS are put, and that none is left out.
    "lfs.storage": "lfs",
    "lfs.fetchinclude": "",
    "lfs.fetchexclude": "",
    "lfs.skipdownloaderrors": "false",
}
_PROTOCOLS = "https:http:ssh:git"
# Of a repository that git runs in, as from a hook: ours is another one.
_OF_ANOTHER_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_SHALLOW_FILE",
    "GIT_QUARANTINE_PATH",
    "GIT_TRACE",
)
_SHOWN_LINES = 5
_PATIENCE_SEC = 10.0
_WATCH_EVERY_SEC = 0.3


class GitCommandError(DatasetUnreachableError):
    """A git command failed; the message ends with what it said."""


def _environment(url: str) -> dict[str, str]:
    """Variables of a git process: unlike arguments, other users' ``ps`` does not show them."""
    settings = {**_SETTINGS, "remote.origin.url": url} if url else _SETTINGS
    kept = {
        name: one
        for name, one in os.environ.items()
        if name not in _OF_ANOTHER_REPOSITORY and not name.startswith("GIT_LFS_")
    }
    # The user's own come first, for of two settings the last one counts.
    first = int(kept.get("GIT_CONFIG_COUNT") or 0)
    allowed = f"{_PROTOCOLS}:file" if url.startswith("file:") else _PROTOCOLS
    numbered = {
        f"GIT_CONFIG_{part}_{number}": text
        for number, pair in enumerate(settings.items(), first)
        for part, text in zip(("KEY", "VALUE"), pair, strict=True)
    }
    return {
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=30",
        **kept,
        **numbered,
        "GIT_CONFIG_COUNT": str(first + len(settings)),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": allowed,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ATTR_NOSYSTEM": "1",
        "GCM_INTERACTIVE": "never",
        "LC_ALL": "C",
    }


@contextmanager
def started(
    arguments: Sequence[str],
    cwd: Path | None = None,
    url: str = "",
    variables: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start git, with pipes; it has ended afterwards, whatever happens here.

    Args:
        arguments: Behind ``git``.
        cwd: The repository to run in.
        url: What its remote ``origin`` is.
        variables: Further ones of its environment.

    Raises:
        DatasetError: There is no git.
    """
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            ["git", *arguments],
            # Not where the run was started: a repository there has settings and remotes.
            cwd=cwd or os.sep,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=_environment(url) | ({"GIT_DIR": str(cwd)} if cwd else {}) | dict(variables or {}),
        )
    except FileNotFoundError:
        raise DatasetError("the program git is not installed; datasets in git need it") from None
    with process:
        try:
            yield process
        except BaseException:
            _end(process)
            raise
        finally:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it ended by itself; what came of it is told
                process.stdin.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process; git takes those that it started with it, if it is asked to."""
    process.terminate()
    try:
        process.wait(_PATIENCE_SEC)
    except subprocess.TimeoutExpired:
        process.kill()


def run_git(
    arguments: Sequence[str],
    cwd: Path | None = None,
    *,
    url: str,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
    watch: Callable[[], None] | None = None,
) -> bytes:
    """Run git to its end; its output.

    Args:
        arguments: Behind ``git``.
        cwd: The repository to run in.
        url: What its remote ``origin`` is.
        stdin: Its input.
        variables: Further ones of its environment.
        watch: Called again and again while it runs, and after it; what it raises ends it.

    Raises:
        GitCommandError: It failed.
        DatasetError: There is no git.
    """
    with started(arguments, cwd, url, variables) as process:
        out, err = _communicate(process, stdin, watch)
    if process.returncode:
        raise GitCommandError(_failure(arguments[0], err, url))
    return out


def _communicate(
    process: subprocess.Popen[bytes], stdin: bytes, watch: Callable[[], None] | None
) -> tuple[bytes, bytes]:
    if watch is None:
        return process.communicate(stdin)
    given: bytes | None = stdin
    while True:
        try:
            said = process.communicate(given, timeout=_WATCH_EVERY_SEC)
        except subprocess.TimeoutExpired:
            given = None  # it has been taken in
            watch()
        else:
            watch()
            return said


def _failure(command: str, err: bytes, url: str) -> str:
    lines = [line for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
    said = "\n".join(lines[-_SHOWN_LINES:]) or "nothing"
    return f"{url}: git {command} failed: {said}"
