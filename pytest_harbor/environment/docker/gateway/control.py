"""Runs as the first process of a gateway, where Python has no more than its smallest library.

It is handed over as text, so nothing here may be imported from this package. A request on
standard input is a line of a verb and lengths, then the texts; an answer is a line
of ``ok`` or ``error`` and a length, then the text.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import IO

START_SEC = 10.0
LOG_SEC = 0.01
LOOK_UP_SEC = 5.0
MAX_NAMES = 1000
MAX_LINE = 4096

# Questions for services, which apt asks of every name, are no wish to go anywhere else.
_DNS_REFUSED = re.compile(rb"config ([^\s_]\S{0,254}) is NXDOMAIN")
_PROXY_REFUSED = re.compile(rb"harbor-refused 0 ([0-9A-F]*)-? (\d+)")


class Refusals:
    """Names that were refused: the first thousand, and how many tries of further ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str, str], int] = {}
        self._more = 0

    def note(self, line: bytes) -> None:
        """Take one line of a log."""
        key = _refused_name(line)
        if key is None:
            return
        with self._lock:
            if key in self._counts or len(self._counts) < MAX_NAMES:
                self._counts[key] = self._counts.get(key, 0) + 1
            else:
                self._more += 1

    def take(self) -> str:
        """Lines of protocol, port, count and name; the last one counts the rest. Forgets them."""
        with self._lock:
            counts, more = self._counts, self._more
            self._counts, self._more = {}, 0
        lines = [f"{how} {port} {count} {name}" for (how, port, name), count in counts.items()]
        return "\n".join([*lines, f"more - {more} -"])


def _refused_name(line: bytes) -> tuple[str, str, str] | None:
    if found := _DNS_REFUSED.search(line):
        return "dns", "-", _printable(found[1])
    if found := _PROXY_REFUSED.search(line):
        if len(found[1]) % 2 or not found[1]:
            return None
        return "tcp", found[2].decode(), _printable(bytes.fromhex(found[1].decode()))
    return None


def _printable(name: bytes) -> str:
    return re.sub(r"[^!-~]", "?", name[:253].decode("ascii", "replace"))


class Service:
    """One server program, its output read to the end and kept only where it tells a refusal."""

    def __init__(self, arguments: list[str], refusals: Refusals) -> None:
        self.process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.name = arguments[0]
        self.last = b""
        self._refusals = refusals
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        output: IO[bytes] | None = self.process.stdout
        assert output is not None
        with output:
            while line := output.readline(MAX_LINE):
                self.last = line
                self._refusals.note(line)

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def end(self) -> None:
        """Kill it and its children, such as those that hold a connection, and wait for it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._thread.join(1.0)


def listens(address: str, port: int, table: str) -> bool:
    """Whether a socket is bound there; ``table`` is a file of ``/proc/net``."""
    numbers = [int(part) for part in address.split(".")]
    if sys.byteorder == "little":
        numbers.reverse()
    wanted = "".join(f"{number:02X}" for number in numbers) + f":{port:04X}"
    with open(f"/proc/net/{table}", encoding="ascii") as lines:
        return any(line.split()[1] == wanted for line in lines)


class Control:
    """What the requests do."""

    def __init__(self, router: str) -> None:
        self._router = router
        self._refusals = Refusals()
        self._services: dict[str, list[Service]] = {}
        self._current = ""
        self._bridges = ""
        self.kept = False
        self.at_end: list[str] = []

    def prepare(self, number: str, dns_port: str, proxy_port: str, dns: str, proxy: str) -> str:
        """Start the servers of a configuration beside those that serve now."""
        started = self._services.setdefault(number, [])
        path = f"/run/{number}"
        if proxy:
            _write(f"{path}.haproxy", proxy)
            started.append(self._start(["haproxy", "-db", "-f", f"{path}.haproxy"]))
        _write(f"{path}.dnsmasq", dns)
        started.append(self._start(["dnsmasq", "--keep-in-foreground", "-C", f"{path}.dnsmasq"]))
        wanted = [(int(dns_port), "udp"), (int(dns_port), "tcp")]
        wanted += [(int(proxy_port), "tcp")] if proxy else []
        limit = time.monotonic() + START_SEC
        while not all(listens(self._router, port, table) for port, table in wanted):
            self._require_alive(number)
            if time.monotonic() > limit:
                raise RuntimeError(f"its servers do not listen after {START_SEC:g} s")
            time.sleep(0.003)
        return ""

    def _start(self, arguments: list[str]) -> Service:
        return Service(arguments, self._refusals)

    def _require_alive(self, number: str) -> None:
        services = self._services.get(number)
        if not services:
            raise RuntimeError("its servers were not started")
        for service in services:
            if not service.alive():
                raise RuntimeError(
                    f"{service.name} has ended: {service.last.decode(errors='replace')}"
                )

    def commit(self, number: str, rules: str, closed: str) -> str:
        """Make a prepared configuration hold, and end all others and what they let through.

        Where the one that holds has lost a server, that is told, and nothing passes any more.
        """
        if self._current:
            try:
                self._require_alive(self._current)
            except RuntimeError:
                self.close(closed)
                raise
        self._require_alive(number)
        _run(["nft", "-f", "-"], rules)
        self._current = number
        for other in [known for known in self._services if known != number]:
            self._end(other)
        _run(["conntrack", "-F"])
        self._refusals.take()
        self._require_alive(number)
        return ""

    def close(self, rules: str) -> str:
        """Let nothing through, and run nothing."""
        _run(["nft", "-f", "-"], rules)
        self._current = ""
        for number in list(self._services):
            self._end(number)
        _run(["conntrack", "-F"])
        self._refusals.take()
        return ""

    def drop(self, number: str) -> str:
        """End a configuration that is not to come into force."""
        self._end(number)
        return ""

    def _end(self, number: str) -> None:
        for service in self._services.pop(number, ()):
            service.end()
        for kind in ("haproxy", "dnsmasq"):
            if os.path.exists(f"/run/{number}.{kind}"):
                os.unlink(f"/run/{number}.{kind}")

    def refused(self, family: str, table: str) -> str:
        """The table's sets and counters as JSON, then the names; names are forgotten."""
        begun = time.monotonic()
        listing = _run(["nft", "-j", "list", "table", family, table])
        # What the servers have just logged is on its way here.
        time.sleep(max(0.0, begun + LOG_SEC - time.monotonic()))
        return f"{listing.strip()}\n{self._refusals.take()}"

    def keep(self) -> str:
        """Go on when standard input ends: a person wants what hangs on this."""
        self.kept = True
        return ""

    def addresses(self, *names: str) -> str:
        """Where names lead, as the engine's name server has it; lines of name and address."""
        lines: list[str] = []
        asking = [
            threading.Thread(target=_look_up, args=(name, lines), daemon=True) for name in names
        ]
        for thread in asking:
            thread.start()
        limit = time.monotonic() + LOOK_UP_SEC
        for thread in asking:
            thread.join(max(0.0, limit - time.monotonic()))
        return "\n".join(list(lines))

    # -- on the engine's machine ----------------------------------------------------

    def guard(self, rules: str) -> str:
        """Hand rules to a process whose tables go when it goes."""
        self._rules = subprocess.Popen(
            ["nft", "-i"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        return self.add(rules)

    def standing(self) -> str:
        """Fail unless the rules still have their process."""
        return self.add("")

    def add(self, rules: str) -> str:
        """More rules for the same process."""
        if self._rules.poll() is not None or self._rules.stdin is None:
            raise RuntimeError("the process that holds the rules has ended")
        self._rules.stdin.write(rules.encode())
        self._rules.stdin.flush()
        return ""

    def linger(self, bridges: str = "") -> str:
        """Outlive standard input while there are interfaces whose names begin so."""
        self._bridges = bridges
        return ""

    def is_needed(self) -> bool:
        """Whether it is to go on when standard input has ended."""
        if self.kept:
            return True
        if not self._bridges:
            return False
        return any(name.startswith(self._bridges) for name in os.listdir("/sys/class/net"))

    def finally_run(self, command: str) -> str:
        """A command for when this program ends."""
        self.at_end.append(command)
        return ""

    def run(self, command: str) -> str:
        """Run one command; its output."""
        return _run(command.split())


def _look_up(name: str, lines: list[str]) -> None:
    with suppress(OSError):
        found = socket.getaddrinfo(name + ".", None, socket.AF_INET, socket.SOCK_STREAM)
        lines += [f"{name} {entry[4][0]}" for entry in found]


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _run(arguments: list[str], text: str = "") -> str:
    done = subprocess.run(arguments, input=text.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip()[-2000:]
        raise RuntimeError(f"{' '.join(arguments)}: {words or done.returncode}")
    return done.stdout.decode(errors="replace")


def boot(router: str, length: str, uplink_gateway: str, uplink_address: str, rules: str) -> str:
    """Close the namespace, then take the router's address; gives the interfaces."""
    found = {}
    for line in _run(["ip", "-o", "-4", "addr"]).splitlines():
        fields = line.split()
        found[fields[3].partition("/")[0]] = fields[1]
    uplink = found[uplink_address]
    (task,) = (name for name in found.values() if name not in ("lo", uplink))
    _run(["nft", "-f", "-"], rules)
    address = f"addr add {router}/{length} dev {task}"
    route = f"route replace default via {uplink_gateway} dev {uplink}"
    _run(["ip", "-batch", "-"], f"{address}\n{route}\n")
    with open("/etc/passwd", encoding="utf-8") as users:
        user = next(line.split(":")[2] for line in users if line.startswith("haproxy:"))
    return f"{task} {uplink} {user}"


def serve(control: Control) -> None:
    """Answer requests until standard input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while head := requests.readline():
        verb, words, lengths = head.decode().rstrip("\n").split("|")
        texts = [requests.read(int(length)).decode() for length in lengths.split()]
        try:
            act = boot if verb == "boot" else getattr(control, verb)
            state, text = "ok", str(act(*words.split(), *texts))
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker is told
            state, text = "error", f"{type(error).__name__}: {error}"
        data = text.encode()
        answers.write(f"{state} {len(data)}\n".encode() + data)
        answers.flush()


if __name__ == "__main__":
    the_control = Control(sys.argv[1])
    # A later run's sweep asks it to end; as a container's first process it would not hear of it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        serve(the_control)
        while the_control.is_needed():
            time.sleep(1)
    finally:
        for last_command in the_control.at_end:
            subprocess.run(last_command.split(), check=False)
