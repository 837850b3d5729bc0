"""What an environment answers: ends of commands, reports of downloads, what was seen of a box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OUTPUT_TAIL_BYTES = 64 * 1024
"""How much of a command's output :class:`ExecResult` keeps in memory, per stream."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How one command ended.

    Attributes:
        exit_code: The command's status; 128 + n after signal n; None when it was cut
            off by its time limit.
        stdout: The last bytes of standard output as text, at most ``OUTPUT_TAIL_BYTES``;
            bytes that are not UTF-8 are replaced.
        stderr: The same for standard error; empty when the streams were merged.
        duration_sec: Wall clock in seconds.
        timed_out: The limit was reached; the command and everything that it started
            are dead.
        output_bytes: How many bytes the command wrote in all.
        out_of_memory: The environment's memory limit was hit while the command ran.
    """

    exit_code: int | None
    stdout: str
    stderr: str
    duration_sec: float
    timed_out: bool = False
    output_bytes: int = 0
    out_of_memory: bool = False

    @property
    def output(self) -> str:
        """Both streams, standard output first."""
        return self.stdout + self.stderr


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """Bounds for what is taken out of an environment, whose content is hostile.

    Attributes:
        total_bytes: Over all files.
        files: Number of files and folders.
    """

    total_bytes: int = 2 * 1024**3
    files: int = 100_000


DEFAULT_LIMITS = DownloadLimits()


@dataclass(frozen=True, slots=True)
class DownloadReport:
    """What a download left behind.

    Attributes:
        files: Paths that were written, relative to the target, sorted.
        skipped: Relative path to the reason why it was not written.
        complete: False when a limit ended the download early.
    """

    files: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs from the image.

    Attributes:
        path: Absolute, in the box.
        kind: ``added``, ``changed`` (content, mode, owner or time; or what lies in a
            folder) or ``deleted``.
        type: What is there now: ``file``, ``folder``, ``link`` or ``other``; empty where
            nothing is or the backend cannot tell.
        target: Where a link leads, as it is written; empty for anything else, or where the
            backend cannot tell.
    """

    path: str
    kind: Literal["added", "changed", "deleted"]
    type: Literal["file", "folder", "link", "other", ""] = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process of the box, as it is seen from outside.

    Attributes:
        pid: On the engine's machine.
        parent: The same of its parent.
        command: Its command line, as it tells itself; anything may stand there.
    """

    pid: int
    parent: int
    command: str
