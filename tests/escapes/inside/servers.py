"""Servers that write down what reaches them, one JSON line each; runs inside containers.

As ``world`` it is the whole outside: it takes the router's address of its network and
answers for every address there is, so nothing that a probe sends leaves the machine. As
``host`` it listens on the engine's machine, on ports of its own. As ``neighbour`` it is a
container like any other.
"""

import contextlib
import itertools
import json
import re
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
import time

TOKEN = re.compile(rb"esc[0-9a-f]{13}", re.IGNORECASE)
WORLD_PORTS = (22, 25, 53, 80, 443, 853, 2375, 5000, 8080, 8443, 9999)
ODD_PORTS = {8080}
"""Ports whose server believes Content-Length before chunks, and the last of two."""
IP_PKTINFO = 8  # not in the socket module of this Python
IDLE_SEC = 20.0
ZONE_FILE = "/run/zone.json"
CERTIFICATE, KEY = "/opt/escapes/cert.pem", "/opt/escapes/key.pem"


def log(via, data=b"", **facts):
    """One event, with the tokens found in ``data``."""
    tokens = sorted({found.decode().lower() for found in TOKEN.findall(data)})
    line = json.dumps({"via": via, "tokens": tokens, **facts})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Conversation:
    """One TCP connection: every byte is looked at, HTTP is answered, forgivingly."""

    def __init__(self, connection, via, **facts):
        self.connection, self.via, self.facts = connection, via, facts
        self.data = b""
        self.seen = b""

    def more(self):
        piece = self.connection.recv(65536)
        if not piece:
            raise EOFError
        self.data += piece
        before = self.seen[-32:]
        self.seen += piece
        if TOKEN.search(before + piece):
            log(self.via, before + piece, **self.facts)

    def run(self):
        while True:
            self.begin_tls()
            self.data = self.data.lstrip(b"\r\n")
            while b"\n\r\n" not in self.data and b"\n\n" not in self.data:
                self.more()
            head, self.data = re.split(rb"\r?\n\r?\n", self.data, maxsplit=1)
            self.answer(head)

    def begin_tls(self):
        """TLS where the client begins with it now, be it after other things."""
        if self.data or isinstance(self.connection, ssl.SSLSocket):
            return
        if self.connection.recv(6, socket.MSG_PEEK) == b"PROXY ":
            while self.connection.recv(1) != b"\n":
                pass
        if self.connection.recv(1, socket.MSG_PEEK) != b"\x16":
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE, KEY)

        def named(_socket, name, _context):
            self.facts["sni"] = name or ""

        context.sni_callback = named
        self.connection = context.wrap_socket(self.connection, server_side=True)
        self.via = "tls"
        log("tls", self.facts.get("sni", "").encode(), **self.facts)

    def answer(self, head):
        first, *rest = [line.decode("latin-1") for line in head.splitlines()]
        fields = [
            (n.strip().lower(), v.strip()) for n, _, v in (line.partition(":") for line in rest)
        ]
        method, _, target = first.partition(" ")
        target = target.rsplit(" ", 1)[0]
        hosts = [value for name, value in fields if name == "host"]
        named = [target.split("/")[2]] if "://" in target else hosts
        if method == "CONNECT":
            named = [target]
        log("http", head, hosts=[host.lower() for host in named], **self.facts)
        if method == "PRI":
            self.raw()
        if method == "CONNECT":
            self.connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            return
        if any(name == "upgrade" for name, _ in fields):
            self.connection.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: any\r\n\r\n"
            )
            self.raw()
        self.skip_body(dict(fields if self.facts["port"] in ODD_PORTS else reversed(fields)))
        body = f"hello from {self.facts['dst']}:{self.facts['port']} to {','.join(named)}".encode()
        self.connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )

    def raw(self):
        while True:
            self.more()

    def skip_body(self, fields):
        chunked = "chunked" in fields.get("transfer-encoding", "").lower()
        length = int(fields.get("content-length", "0") or 0)
        if chunked and not (length and self.facts["port"] in ODD_PORTS):
            while True:
                while b"\r\n" not in self.data:
                    self.more()
                size, self.data = self.data.split(b"\r\n", 1)
                count = int(size.split(b";")[0] or b"0", 16)
                while len(self.data) < count + 2:
                    self.more()
                self.data = self.data[count + 2 :]
                if not count:
                    return
        while len(self.data) < length:
            self.more()
        self.data = self.data[length:]


def serve_tcp(connection):
    """TLS where the client begins so; DNS on its ports; else anything, read as HTTP."""
    connection.settimeout(IDLE_SEC)
    dst, port = connection.getsockname()[:2]
    dst = dst.removeprefix("::ffff:")
    facts = {"dst": dst, "port": port, "src": connection.getpeername()[0]}
    log("connection", **facts)
    with contextlib.suppress(OSError, EOFError, ValueError), connection:
        if port == 22:
            connection.sendall(b"SSH-2.0-escapes\r\n")
        if port == 53:
            serve_dns_stream(connection, facts)
        Conversation(connection, "tcp", **facts).run()


def serve_dns_stream(connection, facts):
    while True:
        (size,) = struct.unpack("!H", read_exactly(connection, 2))
        question = read_exactly(connection, size)
        log("dns", question, **facts)
        answer = dns_answer(question)
        connection.sendall(struct.pack("!H", len(answer)) + answer)


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


COUNTS = {}


def addresses_of(name):
    """What the zone has for a name; a list of lists is given out in turns."""
    with contextlib.suppress(FileNotFoundError), open(ZONE_FILE) as file:
        zone = json.load(file)
        suffixes = ["*." + name.split(".", n)[-1] for n in range(1, name.count(".") + 1)]
        for key in (name, *suffixes):
            found = zone.get(key)
            if found and isinstance(found[0], list):
                turn = COUNTS.setdefault(key, itertools.count())
                return found[min(next(turn), len(found) - 1)]
            if found:
                return found
    return []


def dns_answer(question):
    labels, place = [], 12
    while question[place]:
        labels.append(question[place + 1 : place + 1 + question[place]].decode("latin-1").lower())
        place += 1 + question[place]
    (kind,) = struct.unpack_from("!H", question, place + 1)
    name = ".".join(labels)
    found = addresses_of(name)
    log("question", question[: place + 5], name=name, kind=kind)
    records = b"".join(
        b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 0, 4) + socket.inet_aton(address)
        for address in (found if kind == 1 else [])
    )
    flags = 0x8580 if found else 0x8583
    counts = struct.pack("!HHHHH", flags, 1, len(found) if kind == 1 else 0, 0, 0)
    return question[:2] + counts + question[12 : place + 5] + records


def serve_udp(port, ready=None):
    """Answer on one port: DNS on 53, elsewhere the same bytes again."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    server.bind(("", port))
    bound = server.getsockname()[1]
    if ready:
        ready(bound)
    while True:
        data, extra, _, sender = server.recvmsg(65536, 256)
        info = [value for _, kind, value in extra if kind == IP_PKTINFO]
        dst = socket.inet_ntoa(info[0][8:12])
        facts = {"dst": dst, "port": bound, "src": sender[0]}
        log("udp", data, **facts)
        with contextlib.suppress(OSError, IndexError, struct.error):
            reply = dns_answer(data) if port == 53 else data
            # From the address that was asked, else the client takes it for a stranger's.
            asked = bytes(4) + info[0][8:12] + bytes(4)
            server.sendmsg([reply], [(socket.IPPROTO_IP, IP_PKTINFO, asked)], 0, sender)


def serve_icmp():
    server = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    while True:
        data, sender = server.recvfrom(65536)
        if TOKEN.search(data):
            log("icmp", data, src=sender[0], dst=socket.inet_ntoa(data[16:20]))


def sniff(interface, *, outgoing=False):
    """Every frame that comes in, or that goes out, whatever it is."""
    server = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
    server.bind((interface, 0))
    while True:
        data, (_, kind, packet_type, _, _) = server.recvfrom(65536)
        if (packet_type == socket.PACKET_OUTGOING) == outgoing and TOKEN.search(data):
            is_ip = kind == 0x0800 and len(data) >= 34
            log(
                "frame",
                data,
                type=hex(kind),
                protocol=data[23] if is_ip else None,
                dst=socket.inet_ntoa(data[30:34]) if is_ip else None,
            )


class Threads(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def finish_request(self, request, client_address):
        serve_tcp(request)

    def shutdown_request(self, request):
        request.close()


class ThreadsOfBothFamilies(Threads):
    address_family = socket.AF_INET6


def main_interface():
    """Where this machine's own packets to the outside go; all where that is not known."""
    with open("/proc/net/route") as file:
        for line in file:
            fields = line.split()
            if fields[1] == "00000000":
                return fields[0]
    return ""


def background(target, *args, **kwargs):
    threading.Thread(target=target, args=args, kwargs=kwargs, daemon=True).start()


def listen_tcp(port, server=Threads, address=""):
    listening = server((address, port), None)
    background(listening.serve_forever)
    return listening.server_address[1]


def become_the_world(router):
    """Take the router's address and be at home at every address."""
    for command in (
        f"ip address add {router} dev eth0",
        "ip route replace local default dev lo",
    ):
        subprocess.run(command.split(), check=True)


def main():
    role = sys.argv[1]
    ports = {}
    if role == "world":
        become_the_world(sys.argv[2])
        for port in {*WORLD_PORTS, *map(int, sys.argv[3:])}:
            listen_tcp(port)
            background(serve_udp, port)
        background(sniff, "eth0")
        background(serve_icmp)
    elif role == "host":
        ports["tcp"] = listen_tcp(0, ThreadsOfBothFamilies)
        seen = threading.Event()

        def ready(port):
            ports["udp"] = port
            seen.set()

        background(serve_udp, 0, ready=ready)
        seen.wait(5)
        background(serve_udp6, ports["udp"])
        background(sniff, main_interface(), outgoing=True)
        background(serve_icmp)
    else:
        for port in (80, 9999):
            listen_tcp(port)
        background(serve_udp, 9999)
        background(serve_icmp)
    time.sleep(0.05)
    log("ready", **ports)
    while True:
        time.sleep(3600)


def serve_udp6(port):
    """The same port in the second family, where the machine has that."""
    with contextlib.suppress(OSError):
        server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        server.bind(("::", port))
        while True:
            data, sender = server.recvfrom(65536)
            log("udp6", data, src=sender[0], port=port)


if __name__ == "__main__":
    main()
