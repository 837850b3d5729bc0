"""Which process on which machine made something, and whether it still lives."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, so that no other can be taken for it.

    Attributes:
        host: Digest of the machine's id and name.
        boot: Id of the machine's boot; empty where the system has none.
        pid_namespace: Process ids mean something only within it; empty where there is none.
        pid: Process id.
        started: When the process started, in the system's own notation: ids are reused.
    """

    host: str
    boot: str
    pid_namespace: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> Owner:
        """This process."""
        pid = os.getpid()
        return cls(_host_id(), _boot_id(), _pid_namespace(), pid, _start_time(pid))

    @classmethod
    def parse(cls, label: str) -> Owner | None:
        """The owner in a label's text; None if it is not one of ours."""
        try:
            return cls(**json.loads(label))
        except (ValueError, TypeError):
            return None

    def label(self) -> str:
        """Text for a label; :meth:`parse` reads it."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def is_dead(self) -> bool:
        """Whether the process is gone for certain; False wherever that cannot be known."""
        if self.host != _host_id():
            return False
        if self.boot != _boot_id():
            return bool(self.boot and _boot_id())
        if self.pid_namespace != _pid_namespace():
            return False
        return _start_time(self.pid) != self.started

    def is_alive(self) -> bool:
        """Whether the process lives for certain; False wherever that cannot be known."""
        seen_from = (_host_id(), _boot_id(), _pid_namespace())
        return (self.host, self.boot, self.pid_namespace) == seen_from and not self.is_dead()


@cache
def _host_id() -> str:
    machine = ""
    for path in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        try:
            machine = path.read_text().strip()
        except OSError:
            continue
        break
    # Cloned machines share the id, so the name belongs to it as well.
    return hashlib.sha256(f"{machine}\n{platform.node()}".encode()).hexdigest()[:16]


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """Start time of a process; empty if there is no such process."""
    if Path("/proc/self/stat").exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            return ""
        # The name in parentheses may hold anything; field 22 counts from behind it.
        fields = stat.rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    return listing.stdout.strip()
