"""Tries to get out; runs inside a container, as root, with nothing but Python.

``probe.py run FILE`` tries the rows of a JSON file at once and prints what this side saw
of each; ``probe.py hold FILE`` opens connections, answers, and lives on in the background
until ``run`` tells it to use them. What really got out, only the servers know.
"""

import concurrent.futures
import contextlib
import ctypes
import fcntl
import json
import os
import random
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

PATIENCE_SEC = 1.5
PROBES_AT_ONCE = 64
GO, HELD = "/tmp/go.json", "/tmp/held.json"
WAYS = {}


def way(function):
    WAYS[function.__name__.rstrip("_")] = function
    return function


class Place:
    """Where everything is: addresses by name, and the texts that rows are made of."""

    def __init__(self, values):
        self.values = values

    def address(self, name):
        """``@name``: an address of the table; ``=name``: as this box resolves it."""
        if name.startswith("@"):
            return self.values[name[1:]]
        if name.startswith("="):
            host = self.text(name[1:])
            with contextlib.suppress(OSError):
                return socket.gethostbyname(host)
            return self.values["front_address"]
        return name

    def number(self, port):
        return int(self.values[port[1:]]) if isinstance(port, str) else port

    def text(self, template, token=""):
        for key in ("front", "alike"):
            template = template.replace(f"<{key}>", self.values[key])
        return template.replace("<token>", token).replace("\n", "\r\n").replace("<lf>", "\n")


# --- TCP, HTTP, TLS -----------------------------------------------------------------


def listen(connection, seconds=0.4):
    """What comes back soon; an empty text where nothing does."""
    connection.settimeout(seconds)
    try:
        return connection.recv(4096).decode("latin-1")
    except TimeoutError:
        return ""


def reach(address, port):
    return socket.create_connection((address, port), PATIENCE_SEC)


@way
def talk(token, place, to, port, parts, pause=0.0):
    """Send the parts one after another, and listen after each."""
    heard = []
    with reach(place.address(to), place.number(port)) as connection:
        for part in parts:
            connection.sendall(place.text(part, token).encode("latin-1"))
            heard.append(listen(connection, pause or 0.5))
            time.sleep(pause)
        heard.append(listen(connection, PATIENCE_SEC / 2))
    return "sent, heard " + "|".join(heard)[:600]


class Tls:
    """A TLS client that decides how its first flight is cut."""

    def __init__(self, connection, sni, cut="", alpn=()):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if alpn:
            context.set_alpn_protocols(alpn)
        self.connection, self.cut = connection, cut
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=sni or None)
        self.connection.settimeout(PATIENCE_SEC)
        self.until_done(self.tls.do_handshake)

    def until_done(self, step, *args):
        while True:
            try:
                result = step(*args)
                self.flush()
                return result
            except ssl.SSLWantReadError:
                self.flush()
                data = self.connection.recv(65536)
                if not data:
                    raise EOFError("closed during TLS") from None
                self.incoming.write(data)

    def flush(self):
        data = self.outgoing.read()
        if not data:
            return
        cut, self.cut = self.cut, ""
        if cut == "records":
            body = data[5:]
            for piece in (body[:20], body[20:90], body[90:]):
                self.connection.sendall(data[:3] + struct.pack("!H", len(piece)) + piece)
        elif cut == "pause":
            self.connection.settimeout(PATIENCE_SEC + 2.5)
            self.connection.sendall(data[:1])
            time.sleep(2.5)
            self.connection.sendall(data[1:])
        elif cut == "segments":
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start in range(0, len(data), 40):
                self.connection.sendall(data[start : start + 40])
                time.sleep(0.02)
        else:
            self.connection.sendall(data)

    def say(self, text):
        self.until_done(self.tls.write, text.encode("latin-1"))
        with contextlib.suppress(TimeoutError):
            return self.until_done(self.tls.read, 4096).decode("latin-1")
        return ""


@way
def tls(token, place, to, port, sni, parts, cut="", first="", alpn=()):
    with reach(place.address(to), place.number(port)) as connection:
        if first:
            connection.sendall(place.text(first, token).encode("latin-1"))
            listen(connection)
        secure = Tls(connection, place.text(sni, token), cut, [place.text(a, token) for a in alpn])
        heard = [secure.say(place.text(part, token)) for part in parts]
    return "sent, heard " + "|".join(heard)[:600]


@way
def syn_with_data(token, place, to, port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        # A socket that Python waits for would give up before the handshake is over.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 2, 0))
        connection.sendto(
            token.encode(), socket.MSG_FASTOPEN, (place.address(to), place.number(port))
        )
        return "sent, heard " + listen(connection)


@way
def every_port(token, place, to, ports):
    """A line to each port; tells which of them took it."""
    taken = []
    for port in place.values[ports[1:]]:
        with contextlib.suppress(OSError), reach(place.address(to), port) as connection:
            taken.append(port)
            request = f"GET /{token} HTTP/1.1\nHost: other.test\n\n"
            connection.sendall(place.text(request).encode())
            listen(connection)
    return f"REACHED {taken}" if taken else "none"


# --- UDP, ICMP and other protocols --------------------------------------------------


def datagram(options=()):
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for level, option, value in options:
        connection.setsockopt(level, option, value)
    return connection


@way
def udp(token, place, to, port, size=0, broadcast=False, mark=False, source_route="", family=4):
    options = [(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)] if broadcast else []
    if mark:
        options.append((socket.SOL_SOCKET, 36, 0x1))
    address = place.address(to)
    if source_route:
        hops = socket.inet_aton(router()) + socket.inet_aton(place.address(to))
        kind = {"loose": 131, "strict": 137, "record": 7, "alert": 148}[source_route]
        text = bytes([kind, 3 + len(hops), 4]) + hops + b"\0"
        options.append(
            (socket.IPPROTO_IP, socket.IP_OPTIONS, text if kind != 148 else b"\x94\4\0\0")
        )
    data = token.encode() + b"." * size
    if family == 6:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as connection:
            index = socket.if_nametoindex(interface())
            connection.sendto(data, (address, place.number(port), 0, index))
        return "sent"
    with datagram(options) as connection:
        connection.sendto(data, (address, place.number(port)))
        return "sent, heard " + listen(connection, 0.3)


@way
def tcp6(token, place, to, port):
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE_SEC)
        connection.connect((to, port, 0, socket.if_nametoindex(interface()) if "fe80" in to else 0))
        connection.sendall(token.encode())
    return "sent"


@way
def protocol(token, place, to, number):
    """A raw IP packet of some protocol."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, number) as connection:
        connection.sendto(
            struct.pack("!HHI", 9999, 9999, 0) + token.encode(), (place.address(to), 0)
        )
    return "sent"


@way
def udplite(token, place, to, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136) as connection:
        connection.sendto(token.encode(), (place.address(to), port))
    return "sent"


@way
def sctp(token, place, to, port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132) as connection:
        connection.settimeout(PATIENCE_SEC)
        connection.connect((place.address(to), port))
        connection.sendall(token.encode())
    return "sent"


def echo_request(token, number=77, sequence=1):
    body = struct.pack("!BBHHH", 8, 0, 0, number, sequence) + token.encode() + b"." * 16
    return body[:2] + struct.pack("!H", checksum(body)) + body[4:]


@way
def ping(token, place, to, raw=False):
    kind = socket.SOCK_RAW if raw else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP) as connection:
        connection.settimeout(0.6)
        connection.sendto(echo_request(token), (place.address(to), 0))
        return "sent, heard " + listen(connection, 0.6)


@way
def ping_program(token, place, to):
    pattern = token.encode().hex()[:32]
    done = subprocess.run(
        ["ping", "-c1", "-W1", "-s", "64", "-p", pattern, place.address(to)],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.returncode} {done.stdout[-200:]}"


# --- DNS ----------------------------------------------------------------------------

KINDS = {"A": 1, "NS": 2, "CNAME": 5, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28,
         "SRV": 33, "HTTPS": 65, "ANY": 255}  # fmt: skip


def question(name, kind="A", *, option="", words=1, extra=""):
    labels = b"".join(bytes([len(p)]) + p.encode() for p in name.split(".") if p) + b"\0"
    data = labels + struct.pack("!HH", KINDS[kind], words) + extra.encode()
    additional = b""
    if option:
        text = struct.pack("!HH", 65001, len(option)) + option.encode()
        additional = b"\0" + struct.pack("!HHIH", 41, 4096, 0, len(text)) + text
    head = struct.pack("!HHHHHH", random.randrange(65536), 0x0100, 1, 0, 0, bool(additional))
    return head + data + additional


def nameserver():
    with open("/etc/resolv.conf") as file:
        for line in file:
            if line.startswith("nameserver"):
                return line.split()[1]
    return "127.0.0.11"


def server_address(place, server):
    return (
        nameserver()
        if server == "own"
        else router()
        if server == "router"
        else place.address(server)
    )


@way
def dns(token, place, server, name, kind="A", over="udp", option="", words=1, extra=""):
    texts = [place.text(text, token) for text in (name, option, extra)]
    data = question(texts[0], kind, option=texts[1], words=words, extra=texts[2])
    address = server_address(place, server)
    if over == "udp":
        with datagram() as connection:
            connection.sendto(data, (address, 53))
            return verdict(listen(connection, 1.0).encode("latin-1"))
    framed = struct.pack("!H", len(data)) + data
    port = 853 if over == "tls" else 53
    with reach(address, port) as connection:
        if over == "tls":
            return "sent, heard " + Tls(connection, "dns.test").say(framed.decode("latin-1"))[:100]
        connection.sendall(framed)
        return verdict(listen(connection, 1.0).encode("latin-1")[2:])


def verdict(answer):
    if len(answer) < 12:
        return "no answer"
    _, flags, _, answers, _, _ = struct.unpack("!HHHHHH", answer[:12])
    return f"answer: status {flags & 15}, records {answers}"


@way
def resolve(token, place, name):
    return "resolved " + str(socket.gethostbyname(place.text(name, token)))


# --- frames -------------------------------------------------------------------------


def interface():
    names = [name for name in os.listdir("/sys/class/net") if name.startswith("eth")]
    if not names:
        raise OSError("no interface")
    return sorted(names)[0]


def ioctl_address(number):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        packed = struct.pack("256s", interface().encode())
        return socket.inet_ntoa(fcntl.ioctl(connection.fileno(), number, packed)[20:24])


def own_address():
    return ioctl_address(0x8915)


def broadcast_address():
    return ioctl_address(0x8919)


def router():
    with open("/proc/net/route") as file:
        for line in list(file)[1:]:
            fields = line.split()
            if fields[1] == "00000000":
                return socket.inet_ntoa(struct.pack("<I", int(fields[2], 16)))
    raise OSError("no router")


def own_mac():
    with open(f"/sys/class/net/{interface()}/address") as file:
        return bytes.fromhex(file.read().strip().replace(":", ""))


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(source, target, number, payload, *, fragment=0, options=b""):
    words = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, words * 4 + len(payload), 7, fragment, 64,
                       number, 0, socket.inet_aton(source), socket.inet_aton(target))  # fmt: skip
    head += options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def udp_part(source_port, port, data):
    return struct.pack("!HHHH", source_port, port, 8 + len(data), 0) + data


def tcp_part(source, target, port, flags, data):
    head = struct.pack("!HHIIBBHHH", 40001, port, 1000, 1000, 0x50, flags, 8192, 0, 0)
    pseudo = socket.inet_aton(source) + socket.inet_aton(target)
    pseudo += struct.pack("!BBH", 0, 6, len(head) + len(data))
    return head[:16] + struct.pack("!H", checksum(pseudo + head + data)) + head[18:] + data


def frames():
    connection = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
    connection.bind((interface(), 0))
    return connection


def hardware_address(connection, address):
    """Who says that an address is theirs; None where nobody does."""
    mine = own_mac()
    request = b"\xff" * 6 + mine + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1)
    request += mine + socket.inet_aton(own_address()) + bytes(6) + socket.inet_aton(address)
    connection.send(request)
    connection.settimeout(0.4)
    with contextlib.suppress(TimeoutError):
        while True:
            data = connection.recv(2048)
            if data[12:14] == b"\x08\x06" and data[28:32] == socket.inet_aton(address):
                return data[22:28]
    return None


BROADCAST = b"\xff" * 6


@way
def frame(token, place, to, port=9999, via="broadcast", what="udp", source="", type=0x0800):
    """A packet inside a frame that this program makes itself."""
    with frames() as connection:
        target = place.address(to)
        hardware = BROADCAST
        if via != "broadcast":
            hardware = hardware_address(
                connection, router() if via == "router" else place.address(via)
            )
        if hardware is None:
            return "nobody answers for " + via
        mine = place.address(source) if source else own_address()
        data = token.encode()
        port = place.number(port)
        parts = {
            "udp": lambda: packet(mine, target, 17, udp_part(40000, port, data)),
            "icmp": lambda: packet(mine, target, 1, echo_request(token)),
            "syn": lambda: packet(mine, target, 6, tcp_part(mine, target, port, 2, data)),
            "ack": lambda: packet(mine, target, 6, tcp_part(mine, target, port, 24, data)),
            "route": lambda: packet(
                mine, router(), 17, udp_part(40000, port, data),
                options=b"\x83\x07\x04" + socket.inet_aton(target) + b"\0",
            ),
            "fragment": lambda: packet(
                mine, target, 17, udp_part(40000, port, data)[:24], fragment=0x2000
            ),
            "later": lambda: packet(mine, target, 17, data, fragment=3),
            "plain": lambda: data,
            "vlan": lambda: struct.pack("!HH", 5, 0x0800)
            + packet(mine, target, 17, udp_part(40000, port, data)),
            "dns": lambda: packet(
                mine, target, 17, udp_part(40000, 53, question(f"{token}.other.test"))
            ),
        }  # fmt: skip
        connection.send(hardware + own_mac() + struct.pack("!H", type) + parts[what]())
        time.sleep(0.1)
    return "sent"


@way
def frame6(token, place, port, to="ff02::1"):
    """IPv6 without an IPv6 stack: UDP to all nodes of the link."""
    with frames() as connection:
        mine = own_mac()
        source = b"\xfe\x80" + bytes(6) + bytes([mine[0] ^ 2]) + mine[1:3] + b"\xff\xfe" + mine[3:]
        target = socket.inet_pton(socket.AF_INET6, to)
        body = udp_part(40000, place.number(port), token.encode())
        pseudo = source + target + struct.pack("!II", len(body), 17)
        body = body[:6] + struct.pack("!H", checksum(pseudo + body)) + body[8:]
        packed = struct.pack("!IHBB", 6 << 28, len(body), 17, 64) + source + target + body
        connection.send(b"\x33\x33" + target[-4:] + mine + b"\x86\xdd" + packed)
        time.sleep(0.1)
    return "sent"


@way
def own_header(token, place, to, source, port=9999, what="udp"):
    """A packet whose header this program makes, by a raw IP socket."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as connection:
        mine, target = place.address(source) if source else own_address(), place.address(to)
        number, part = {
            "udp": lambda: (17, udp_part(40000, port, token.encode())),
            "syn": lambda: (6, tcp_part(mine, target, port, 2, token.encode())),
            "ack": lambda: (6, tcp_part(mine, target, port, 24, token.encode())),
        }[what]()
        connection.sendto(packet(mine, target, number, part), (target, 0))
    return "sent"


@way
def broadcast(token, place, to, port):
    target = broadcast_address() if to == "subnet" else to
    return udp(token, place, target, port, broadcast=True)


@way
def poisoned(token, place, victim):
    """Tell the router that an address of its own side is ours, then use that address."""
    with frames() as connection:
        hardware = hardware_address(connection, router()) or BROADCAST
        mine, address = own_mac(), place.address(victim)
        claim = (
            struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 2) + mine + socket.inet_aton(address)
        )
        connection.send(hardware + mine + claim + hardware + socket.inet_aton(router()))
        body = packet(address, place.address("@other"), 17, udp_part(40000, 9999, token.encode()))
        connection.send(hardware + mine + b"\x08\x00" + body)
        time.sleep(0.1)
    return "sent"


# --- changes inside the box; each is taken back ---------------------------------------


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"{done.returncode} {(done.stdout + done.stderr).strip()[:200]}"


@way
def command_first(token, place, commands, undo, then):
    """Change the box, try the plain way again, take the change back."""
    values = {**place.values, "interface": "eth0"}
    with contextlib.suppress(OSError):
        values.update(interface=interface(), router=router(), own=own_address())
    said = [run(*(word.format(**values) for word in command)) for command in commands]
    try:
        said.append(WAYS[then[0]](token, place, **then[1]))
    except (OSError, EOFError) as error:
        said.append(repr(error))
    finally:
        for command in undo:
            run(*(word.format(**values) for word in command))
    return " | ".join(said)


@way
def edited(token, place, file, text, then):
    """Write a file of the box, try, write it back."""
    with open(file) as old:
        before = old.read()
    try:
        with open(file, "w") as new:
            new.write(place.text(text).replace("\r", "").format(**place.values))
        return WAYS[then[0]](token, place, **then[1])
    finally:
        with open(file, "w") as new:
            new.write(before)


@way
def user_namespace(token, place, flags, then):
    """A namespace of one's own, for capabilities in it; in a child, as it cannot be left."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        said = "?"
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            done = libc.unshare(flags)
            said = f"unshare {done} {os.strerror(ctypes.get_errno())} | "
            said += str(WAYS[then[0]](token, place, **then[1]))
        except BaseException as error:  # noqa: BLE001
            said += repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    return os.read(reading, 4096).decode()


@way
def unix_socket(token, place, paths):
    found = []
    for path in paths:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            found.append(path)
    return f"REACHED {found}" if found else "none"


# --- connections that are opened in one phase and used in the next ---------------------


class Held:
    """One connection, opened early."""

    def __init__(self, place, kind, **args):
        self.place, self.kind, self.args = place, kind, args
        self.connection, self.opened = None, ""
        try:
            getattr(self, "open_" + kind)(**args)
        except (OSError, EOFError) as error:
            self.opened = repr(error)

    def open_tcp(self, to, port, greeting, **_):
        self.connection = reach(self.place.address(to), port)
        self.connection.sendall(self.place.text(greeting).encode())
        self.opened = listen(self.connection, 1.0)

    def open_tls(self, to, port, sni, greeting, **_):
        self.connection = Tls(reach(self.place.address(to), port), self.place.text(sni))
        self.opened = self.connection.say(self.place.text(greeting))

    def open_udp(self, to, port, **_):
        self.connection = datagram([(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)])
        self.connection.connect((self.place.address(to), port))
        first = question("other.test") if port == 53 else b"hello"
        self.connection.send(first)
        self.opened = listen(self.connection, 1.0)

    def open_icmp(self, to, **_):
        self.connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
        self.connection.connect((self.place.address(to), 0))
        self.connection.send(echo_request("first"))
        self.opened = listen(self.connection, 1.0)

    def use(self, token):
        text = self.place.text(self.args.get("then", "<token>"), token)
        try:
            if self.kind == "tls":
                return self.connection.say(text)
            if self.kind == "icmp":
                self.connection.send(echo_request(token, sequence=2))
            elif self.args.get("port") == 53 and self.kind == "udp":
                self.connection.send(question(f"{token}.other.test"))
            else:
                self.connection.sendall(text.encode())
            return "sent, heard " + listen(self.connection)
        except (OSError, EOFError, AttributeError) as error:
            return repr(error)


def hold(rows, place):
    """Open them all; a child keeps them. Gives what opening each of them brought."""
    ready, done = os.pipe()
    if os.fork():
        os.close(done)
        with os.fdopen(ready) as answer:
            return json.loads(answer.read())
    os.setsid()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        kept = dict(
            pool.map(lambda row: (row["name"], Held(place, row["way"], **row["args"])), rows)
        )
    with os.fdopen(done, "w") as answer:
        json.dump({name: held.opened for name, held in kept.items()}, answer)
    for stream in (0, 1, 2):
        os.dup2(os.open("/dev/null", os.O_RDWR), stream)
    for _ in range(1200):
        time.sleep(0.05)
        if os.path.exists(GO):
            break
    with open(GO) as file:
        tokens = json.load(file)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        said = dict(pool.map(lambda item: (item[0], item[1].use(tokens[item[0]])), kept.items()))
    with open(HELD + ".new", "w") as file:
        json.dump(said, file)
    os.rename(HELD + ".new", HELD)
    time.sleep(1)
    os._exit(0)


def use_held(tokens):
    """Tell the keeper to use its connections; gives what it saw."""
    with open(GO + ".new", "w") as file:
        json.dump(tokens, file)
    os.rename(GO + ".new", GO)
    for _ in range(120):
        time.sleep(0.05)
        if os.path.exists(HELD):
            with open(HELD) as file:
                return json.load(file)
    return {}


# --- what must work -------------------------------------------------------------------


@way
def get(token, place, to, port, secure=False, host=""):
    """An ordinary request by name, or by address."""
    host = place.text(host or to).lstrip("@=")
    address = place.address(to) if to[0] in "@" else socket.gethostbyname(place.text(to))
    request = place.text(f"GET /{token} HTTP/1.1\nHost: {host}:{port}\nConnection: close\n\n")
    with reach(address, place.number(port)) as connection:
        if secure:
            return Tls(connection, host).say(request)
        connection.sendall(request.encode())
        return listen(connection, PATIENCE_SEC)


@way
def curl(token, place, url):
    command = ["curl", "-sk", "--max-time", "5", place.text(url, token)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"{done.returncode} {done.stdout}"


@way
def loopback(token, place):
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        reach("127.0.0.1", server.getsockname()[1]) as client,
        server.accept()[0] as accepted,
    ):
        client.sendall(token.encode())
        return listen(accepted, 1.0)


# --------------------------------------------------------------------------------------


def attempt(row, place):
    try:
        return WAYS[row["way"]](row["token"], place, **row["args"])
    except (OSError, EOFError, KeyError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def main():
    # A name server that does not answer is not worth the half minute of the default.
    os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"
    with open(sys.argv[2]) as file:
        table = json.load(file)
    place = Place(table["place"])
    if sys.argv[1] == "hold":
        sys.stdout.write(json.dumps(hold(table["held"], place)))
        return
    said = {}
    keeper = None
    if table.get("held"):
        tokens = {row["name"]: row["token"] for row in table["held"]}
        keeper = threading.Thread(target=lambda: said.update(use_held(tokens)))
        keeper.start()
    together = [row for row in table["rows"] if not row.get("alone")]
    with concurrent.futures.ThreadPoolExecutor(PROBES_AT_ONCE) as pool:
        answers = pool.map(lambda row: attempt(row, place), together)
        said.update(zip((row["name"] for row in together), answers, strict=True))
    for row in table["rows"]:
        if row.get("alone"):
            said[row["name"]] = attempt(row, place)
    if keeper:
        keeper.join()
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
