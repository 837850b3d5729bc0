"""The processes of a container, read where the kernel keeps them.

The engine starts a program of its machine's to tell of them. Where that machine is this one,
they are read in a tenth of that time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.errors import EnvironmentFault

_FIELDS_BEFORE_COMMAND = 8
_GROUPS = Path("/sys/fs/cgroup")
_PROCESSES = Path("/proc")
_LOOKS = 10
_MAX_COMMAND = 64 * 1024

# Places in /proc/PID/stat, behind the name.
_STATE, _PARENT, _THREADS, _STARTED = 0, 1, 17, 19


@dataclass(frozen=True, slots=True)
class Seen:
    """One process; ids are used again, so the start time belongs to the identity.

    Attributes:
        pid: Its id on the engine's machine.
        parent: Its parent's.
        started: When, in the words of whoever was asked.
        state: As ``ps`` writes it.
        command: With its arguments.
    """

    pid: int
    parent: int
    started: str
    state: str
    command: str

    @classmethod
    def parse(cls, line: str) -> Seen:
        """Read one line of ``ps``."""
        pid, parent, *started, state = line.split(maxsplit=_FIELDS_BEFORE_COMMAND)[:8]
        command = line.split(maxsplit=_FIELDS_BEFORE_COMMAND)[8:]
        return cls(int(pid), int(parent), " ".join(started), state, "".join(command))

    @property
    def is_dead(self) -> bool:
        """Nothing of it runs: where the first thread has ended others (``l``) may go on."""
        return self.state.startswith(("Z", "X")) and "l" not in self.state

    @property
    def key(self) -> tuple[int, str]:
        """Its identity."""
        return self.pid, self.started


def find_group(engine: Engine, container: str) -> Path | None:
    """The folder of a container's control group; None where it is not on this machine."""
    if not engine.endpoint.address.startswith("unix://") or not _GROUPS.is_dir():
        return None
    with engine.errors(f"looking at {container}", EnvironmentFault):
        inspected = engine.api.inspect_container(container)
    try:
        text = (_PROCESSES / str(inspected["State"]["Pid"]) / "cgroup").read_text()
    except OSError:
        return None
    return group_in(text, inspected["Id"])


def group_in(text: str, container: str) -> Path | None:
    """The group of the container with this id, from what the kernel says of one of its processes.

    The id is in the group's name. A process of another machine's number has another group.
    """
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        parts = path.strip("/").split("/")
        named = [number for number, part in enumerate(parts) if container in part]
        if controllers not in ("", "pids") or not named or ".." in parts:
            continue
        # A process may have made a group within for itself.
        folder = _GROUPS.joinpath(controllers, *parts[: named[0] + 1])
        if (folder / "cgroup.procs").is_file():
            return folder
    return None


def processes_in(group: Path) -> dict[int, Seen]:
    """All that live in a group, by id; also what was started during the look.

    Raises:
        OSError: The group is gone, or does not tell.
    """
    for _ in range(_LOOKS):
        found = {pid: seen for pid in _members(group) if (seen := see(pid))}
        # Whoever ended before it was looked at may have left a child.
        missed = _members(group) - found.keys()
        if not missed:
            break
    # What always ends before it is looked at lives all the same.
    return {**found, **{pid: Seen(pid, 0, "", "R", "[gone]") for pid in missed}}


def _members(group: Path) -> set[int]:
    files = [Path(folder) / "cgroup.procs" for folder, _, _ in os.walk(group)]
    members = {int(word) for file in files for word in file.read_text().split()}
    if not files or 0 in members:  # a process that has no number here
        raise OSError(f"{group} does not tell of its processes")
    return members


def see(pid: int) -> Seen | None:
    """One process; None if there is none of this id."""
    folder = _PROCESSES / str(pid)
    try:
        before, _, after = (folder / "stat").read_text(errors="replace").rpartition(")")
        with (folder / "cmdline").open("rb") as file:
            words = file.read(_MAX_COMMAND).rstrip(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = after.split()
    command = words.replace(b"\0", b" ").decode(errors="replace")
    return Seen(
        pid=pid,
        parent=int(fields[_PARENT]),
        started=fields[_STARTED],
        state=fields[_STATE] + ("l" if int(fields[_THREADS]) > 1 else ""),
        command=command or f"[{before.partition('(')[2]}]",
    )
