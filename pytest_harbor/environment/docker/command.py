"""What runs around a command inside the container, and what it tells.

Every command runs below a few lines of shell that write two marked lines to standard
error: one before the command, with the shell's own ``/proc/PID/stat``, and one after
it, with its status. The first is what killing needs to know; the second tells that the
command has ended while a process it left behind still holds the output open. The mark
is random, and the lines are taken out of the output again.

The engine is asked only where the second line is missing. It is late with its answer:
engine 20.10 waits two seconds for an output that is held open, and takes no notice of
any other command's end meanwhile. A command that prints the line itself gains nothing
that it could not have by exiting and leaving a child behind.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

# Every file descriptor but the command's own is closed to it, and the shell's own remarks
# ("Killed") go nowhere. `exec` in a subshell keeps the shell's builtins from being run
# in place of programs, and from ending the wrapper.
_WRAPPER = """\
exec 3>&2 2>/dev/null
_harbor_mark=$1 _harbor_dir=$2 _harbor_kind=$3
shift 3
IFS= read -r _harbor_stat <"/proc/$$/stat"
printf '%s start %s\\n' "$_harbor_mark" "$_harbor_stat" >&3
if cd -- "$_harbor_dir"; then
  if [ "$_harbor_kind" = text ]; then
    if command -v bash >/dev/null; then set -- bash -c "$1"; else set -- sh -c "$1"; fi
  fi
  (exec "$@") {streams} 3>&-
  _harbor_status=$?
else
  printf 'cannot enter the working folder %s\\n' "$_harbor_dir" >&3
  _harbor_status=126
fi
printf '%s end %s\\n' "$_harbor_mark" "$_harbor_status" >&3
exit "$_harbor_status"
"""

_SEPARATE = _WRAPPER.replace("{streams}", "2>&3")
_MERGED = _WRAPPER.replace("{streams}", "2>&1")

MAX_MARKED_LINE = 1024
"""Longer than any line of ours: a process's name has at most 15 bytes."""


def new_mark() -> bytes:
    """A mark that no output holds by chance."""
    return b"\x1e" + secrets.token_hex(12).encode()


def wrapped(
    shell: str, mark: bytes, directory: str, command: str | Sequence[str], *, merge: bool
) -> list[str]:
    """The argument list that runs ``command`` below the marking shell."""
    kind, rest = ("text", [command]) if isinstance(command, str) else ("list", list(command))
    script = _MERGED if merge else _SEPARATE
    return [shell, "-c", script, shell, mark.decode(), directory, kind, *rest]


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """The wrapper, as the container's other processes see it.

    Attributes:
        pid: Process id in the container.
        start_time: In clock ticks since the machine's boot.
    """

    pid: int
    start_time: int


class MarkFilter:
    """Takes the marked lines out of standard error, however they are cut into pieces.

    Attributes:
        process: What the first marked line said; None before it came.
        exit_code: What the second one said; None before it came.
    """

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._line = re.compile(re.escape(mark) + rb" (start|end) ([^\n]*)\n")
        self._held = b""
        self.process: StartedProcess | None = None
        self.exit_code: int | None = None

    def feed(self, data: bytes) -> bytes:
        """The command's own part of ``data``, and of what was held back before it."""
        pending = self._held + data
        clean = self._line.sub(self._note, pending) if self._mark in pending else pending
        keep = self._hold_from(clean)
        self._held = clean[keep:]
        return clean[:keep]

    def finish(self) -> bytes:
        """What was held back, once the stream has ended."""
        held, self._held = self._held, b""
        return held

    def _note(self, match: re.Match[bytes]) -> bytes:
        kind, text = match[1], match[2].decode(errors="replace")
        if kind == b"end":
            self.exit_code = int(text) if text.isdecimal() else None
        elif self.process is None:
            self.process = _started_process(text)
        return b""

    def _hold_from(self, clean: bytes) -> int:
        """Where an unfinished marked line may begin; the length if there is none."""
        begin = clean.rfind(self._mark)
        if begin < 0:
            begin = clean.rfind(self._mark[:1], -len(self._mark))
            if begin < 0 or not self._mark.startswith(clean[begin:]):
                return len(clean)
        return begin if len(clean) - begin < MAX_MARKED_LINE else len(clean)


def _started_process(stat: str) -> StartedProcess | None:
    """Read a ``/proc/PID/stat`` line; the name in parentheses may hold spaces."""
    head, _, tail = stat.rpartition(") ")
    fields = tail.split()
    try:
        return StartedProcess(int(head.split()[0]), int(fields[19]))
    except (IndexError, ValueError):
        return None
