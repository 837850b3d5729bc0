"""A gateway between a box and servers of the test's own, tried as root in the box."""

import secrets
import time

import pytest

from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.gateway import (
    close_gateways,
    ensure_gateway_image,
    gateways,
    guard_bridges,
)
from pytest_harbor.errors import EnvironmentFault
from pytest_harbor.task.network import Endpoint, NetworkPolicy

SUBNET, ROUTER = "192.0.2.64/26", "192.0.2.65"
SERVER, NEIGHBOUR = "198.51.100.20", "192.0.2.70"

# At home at every address: answers whatever it is sent on two TCP ports and on one UDP port,
# and for every name with its address, or with another for names that say so.
SERVE = """\
import socket, struct, sys, threading
def tcp(port):
    listening = socket.socket(); listening.setsockopt(1, 2, 1)
    listening.bind(("", port)); listening.listen(20)
    while True:
        threading.Thread(target=talk, args=(listening.accept()[0],), daemon=True).start()
def talk(one):
    try:
        while data := one.recv(4096):
            one.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello")
    except OSError: pass
def udp(port, answer):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", port))
    s.setsockopt(0, 8, 1)
    while True:
        data, about, _, who = s.recvmsg(999, 99)
        me = struct.pack("i", 0) + about[0][2][8:12] + bytes(4)
        s.sendmsg([answer(data)], [(0, 8, me)], 0, who)
def name(asked):
    end = asked.index(0, 12) + 5
    given = sys.argv[2] if b"neighbour" in asked else sys.argv[1]
    wanted = asked[end - 3] == 1
    answer = struct.pack(">HHHIH", 0xC00C, 1, 1, 9, 4) + socket.inet_aton(given)
    head = asked[:2] + struct.pack(">HHHHH", 0x8180, 1, wanted, 0, 0)
    return head + asked[12:end] + answer * wanted
threading.Thread(target=udp, args=(53, name), daemon=True).start()
for port in (80, 8443): threading.Thread(target=tcp, args=(port,), daemon=True).start()
udp(9000, lambda data: b"hello")
"""
AT_HOME = f"""\
ip addr add {ROUTER}/26 dev eth0
ip route replace local default dev lo table main
exec python3 -c "$0" {SERVER} {NEIGHBOUR}
"""

CLIENT = """\
import socket, struct, sys
def hello(name):
    n = name.encode()
    sni = struct.pack(">HHHBH", 0, len(n) + 5, len(n) + 3, 0, len(n)) + n
    body = (b"\\3\\3" + b"r" * 32 + b"\\0" + b"\\0\\2\\x13\\1" + b"\\1\\0"
            + struct.pack(">H", len(sni)) + sni)
    return b"\\x16\\3\\1" + struct.pack(">HBBH", len(body) + 4, 1, 0, len(body)) + body
def say(kind, name): return hello(name) if kind == "tls" else (
    b"GET / HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % name.encode())
kind, where, port, name = sys.argv[1:5]
try:
    if kind == "udp":
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
        s.connect((where, int(port))); s.send(b"x")
    else:
        s = socket.create_connection((where, int(port)), 5); s.sendall(say(kind, name))
    print("reached" if b"hello" in s.recv(999) else "refused")
    if len(sys.argv) > 5:
        sys.stdout.flush(); sys.stdin.readline()
except OSError as error:
    print("refused", error)
"""


class Box:
    def __init__(self, engine, gateway, image):
        self.engine, self.name = engine, f"gwtest-{secrets.token_hex(4)}"
        host = {"NetworkMode": gateway.network, "Dns": [gateway.dns]}
        _run(engine, self.name, image, ["sleep", "600"], host)

    def sh(self, *argv):
        made = self.engine.api.exec_create(self.name, list(argv))
        return self.engine.api.exec_start(made["Id"]).decode()

    def reaches(self, kind, where, port=80, name=""):
        said = self.sh("python3", "-c", CLIENT, kind, where, str(port), name or where)
        assert said.startswith(("reached", "refused")), said
        return said.startswith("reached")


def _run(engine, name, image, command, host, networking=None):
    config = {"Image": image, "Cmd": command, "HostConfig": host, "Labels": engine.labels()}
    if networking:
        config["NetworkingConfig"] = {"EndpointsConfig": networking}
    engine.api.create_from(config, name)
    engine.api.start(name)


@pytest.fixture(scope="module")
def image(engine):
    return ensure_gateway_image(engine, Deadline(300))


@pytest.fixture(scope="module")
def pool(engine, image, one_at_a_time):
    name = f"gwtest-{secrets.token_hex(4)}"
    options = {
        "com.docker.network.bridge.inhibit_ipv4": "true",
        "com.docker.network.bridge.enable_ip_masquerade": "false",
    }
    ipam = {"Config": [{"Subnet": SUBNET, "Gateway": ROUTER}]}
    engine.api.create_network(
        name, driver="bridge", ipam=ipam, options=options, labels=engine.labels()
    )
    host = {"NetworkMode": name, "CapAdd": ["NET_ADMIN"]}
    ends = {name: {"IPAMConfig": {"IPv4Address": NEIGHBOUR}}}
    _run(engine, f"{name}-s", image, ["sh", "-c", AT_HOME, SERVE], host, ends)
    yield gateways(engine, name)
    engine.api.remove_container(f"{name}-s", force=True)
    close_gateways(engine)
    engine.api.remove_network(name)


@pytest.fixture(scope="module")
def gateway(pool):
    made = pool.acquire(Deadline(120))
    yield made
    pool.discard(made)


@pytest.fixture(scope="module")
def box(engine, gateway, image):
    made = Box(engine, gateway, image)
    yield made
    engine.api.remove_container(made.name, force=True)


def allow(*hosts, **more):
    return NetworkPolicy("allowlist", hosts, **more)


def test_nothing_passes_before_a_policy_and_all_under_public(gateway, box):
    assert not box.reaches("http", SERVER)
    gateway.enforce(NetworkPolicy())
    assert box.reaches("http", "good.example")
    assert box.reaches("udp", SERVER, 9000)


def test_an_allowed_name_is_judged_on_every_port(gateway, box):
    gateway.enforce(allow("good.example"))
    assert box.reaches("tls", "good.example", 8443)
    assert box.reaches("http", "good.example", 80)
    assert box.reaches("http", "good.example", 8443)
    assert not box.reaches("tls", "good.example", 8443, "other.example")
    assert not box.reaches("http", "good.example", 80, "other.example")
    assert not box.reaches("http", "other.example")
    assert not box.reaches("http", SERVER, 80, "good.example")
    assert not box.reaches("udp", SERVER, 9000)
    found = {(one.destination, one.protocol, one.port) for one in gateway.refused()}
    assert {
        ("other.example", "tcp", 8443),
        ("other.example", "tcp", 80),
        ("other.example", "dns", None),
        (SERVER, "tcp", 80),
        (SERVER, "udp", 9000),
    } <= found
    assert "good.example" not in {one.destination for one in gateway.refused()}


@pytest.mark.parametrize(
    "host",
    [
        "good.example:80@other.example",
        "good.example:80 other.example",
        "good.example:80/other.example",
        "good.example:80,other.example",
        "good.example:80:other.example",
        "other.example@good.example",
        "good.example\\r\\nHost: other.example",
    ],
)
def test_a_host_that_may_be_read_in_two_ways_is_refused(gateway, box, host):
    gateway.enforce(allow("good.example"))
    assert not box.reaches("http", "good.example", 80, host)
    gateway.enforce(NetworkPolicy(denied=("other.example",)))
    assert not box.reaches("http", SERVER, 80, host)


def test_a_final_dot_changes_no_verdict(gateway, box):
    gateway.enforce(allow("good.example"))
    assert box.reaches("http", "good.example", 80, "Good.Example.:80")
    gateway.enforce(NetworkPolicy(denied=("other.example",)))
    assert not box.reaches("http", SERVER, 80, "other.example.")
    assert not box.reaches("tls", SERVER, 8443, "other.example.")


def test_an_allowed_name_leads_to_no_network_of_the_engine(gateway, box, engine):
    gateway.enforce(allow("neighbour.example"))  # on the uplink itself
    assert not box.reaches("http", "neighbour.example")
    gateway.enforce(allow("good.example"))
    assert box.reaches("http", "good.example")
    name = f"gwtest-{secrets.token_hex(4)}"
    ipam = {"Config": [{"Subnet": "198.51.100.16/28"}]}
    engine.api.create_network(name, driver="bridge", ipam=ipam, labels=engine.labels())
    try:
        gateway.enforce(allow("good.example", "192.0.2.9"))
        assert not box.reaches("http", "good.example")
        gateway.enforce(allow("good.example", "198.51.100.16/28"))
        assert box.reaches("http", "good.example")
    finally:
        engine.api.remove_network(name)


def test_a_wildcard_covers_what_is_below_it_alone(gateway, box):
    gateway.enforce(allow("*.wild.example"))
    assert box.reaches("tls", "a.wild.example", 8443)
    assert not box.reaches("tls", "a.wild.example", 8443, "wild.example")
    assert not box.reaches("tls", "good.example", 8443)


def test_a_network_is_allowed_for_all_protocols(gateway, box):
    gateway.enforce(allow("198.51.100.16/28"))
    assert box.reaches("http", SERVER, 80, "any.example")
    assert box.reaches("udp", SERVER, 9000)
    assert not box.reaches("http", "good.example")


@pytest.mark.parametrize("mode", ["no-network", "allowlist"])
def test_an_endpoint_opens_its_port_alone(gateway, box, mode):
    gateway.enforce(NetworkPolicy(mode, endpoints=(Endpoint(SERVER, 8443),)))
    assert box.reaches("http", SERVER, 8443)
    assert not box.reaches("http", SERVER, 80)
    gateway.enforce(NetworkPolicy(mode, endpoints=(Endpoint("good.example", 8443),)))
    assert box.reaches("tls", "good.example", 8443)
    assert not box.reaches("http", "good.example", 80)


# "neighbour" is on the uplink itself, where a task's name may not lead.
@pytest.mark.parametrize("mode", ["no-network", "allowlist", "public"])
def test_an_endpoint_is_reached_by_its_name_wherever_it_is(gateway, box, mode):
    end = Endpoint("neighbour.example", 8443)
    gateway.enforce(NetworkPolicy(mode, denied=(SUBNET,), endpoints=(end,)))
    assert box.reaches("tls", "neighbour.example", 8443)
    assert not box.reaches("http", "neighbour.example", 80)


def test_a_refusal_is_told_once_and_by_its_address_where_no_name_was_judged(gateway, box):
    gateway.enforce(allow("neighbour.example"))
    assert not box.reaches("http", "neighbour.example")
    assert not box.reaches("udp", SERVER, 9000)
    told = {one.destination: one.protocol for one in gateway.refused()}
    assert told[NEIGHBOUR] == "tcp"
    assert told[SERVER] == "udp"
    assert gateway.refused() == []


def test_a_server_on_the_uplink_is_reached_by_name_while_others_are_denied(gateway, box):
    gateway.enforce(NetworkPolicy(denied=("other.example",)))
    assert box.reaches("http", "neighbour.example")


def test_a_denied_name_is_refused_under_public(gateway, box):
    gateway.enforce(NetworkPolicy(denied=("other.example",)))
    assert box.reaches("http", "good.example")
    assert box.reaches("tls", "good.example", 8443)
    assert not box.reaches("http", "other.example")
    assert not box.reaches("http", SERVER, 80, "other.example")
    assert not box.reaches("tls", SERVER, 8443, "other.example")


def test_a_denied_address_is_refused_under_public(gateway, box):
    gateway.enforce(NetworkPolicy(denied=(SERVER,)))
    assert not box.reaches("http", SERVER)
    assert not box.reaches("udp", SERVER, 9000)


def test_an_open_connection_dies_when_the_policy_tightens(gateway, box):
    gateway.enforce(NetworkPolicy())
    script = (
        "import socket,time\n"
        f"s=socket.create_connection(('{SERVER}',80)); s.sendall(b'x'); s.recv(999)\n"
        "open('/tmp/open','w').close()\n"
        "import os\n"
        "while not os.path.exists('/tmp/go'): time.sleep(0.02)\n"
        "s.settimeout(3)\n"
        "try:\n s.sendall(b'x'); said=s.recv(999)\n"
        "except OSError: said=b''\n"
        "open('/tmp/said','w').write('alive' if said else 'dead')\n"
    )
    box.sh("sh", "-c", f"python3 -c \"$(cat <<'E'\n{script}\nE\n)\" >/dev/null 2>&1 &")
    _await(lambda: "yes" in box.sh("sh", "-c", "test -e /tmp/open && echo yes"))
    gateway.enforce(allow("good.example"))
    box.sh("touch", "/tmp/go")
    _await(lambda: box.sh("sh", "-c", "cat /tmp/said 2>/dev/null"))
    assert box.sh("cat", "/tmp/said") == "dead"


def test_a_policy_that_cannot_be_made_changes_nothing(gateway, box):
    gateway.enforce(allow("good.example"))
    with pytest.raises(EnvironmentFault, match="nothing was let through"):
        gateway.enforce(allow("198.51.100.0/24", "x\nserver=1.1.1.1"))
    assert not box.reaches("udp", SERVER, 9000)
    assert box.reaches("tls", "good.example", 8443)


def test_a_released_gateway_is_closed_and_used_again(pool, engine, image):
    first = pool.acquire(Deadline(60))
    first.enforce(NetworkPolicy())
    pool.release(first)
    assert pool.acquire(Deadline(60)) is first
    box = Box(engine, first, image)
    try:
        assert not box.reaches("http", SERVER)
        first.enforce(NetworkPolicy())
        assert box.reaches("http", SERVER)
        pool.release(first)  # a box is still on it
    finally:
        engine.api.remove_container(box.name, force=True)
    other = pool.acquire(Deadline(60))
    assert other is not first
    pool.discard(other)


def test_a_dead_gateway_is_told(pool, engine):
    gateway = pool.acquire(Deadline(60))
    gateway.enforce(NetworkPolicy())
    engine.api.kill(gateway.name)
    with pytest.raises(EnvironmentFault):
        gateway.enforce(NetworkPolicy("no-network"))
    pool.discard(gateway)


@pytest.mark.parametrize("server", ["haproxy", "dnsmasq"])
def test_a_lost_server_is_told_and_nothing_passes(pool, engine, image, server):
    gateway = pool.acquire(Deadline(60))
    box = Box(engine, gateway, image)
    kill = (
        "import os, pathlib\n"
        "for each in pathlib.Path('/proc').glob('[0-9]*/comm'):\n"
        f"    if each.read_text().strip() == '{server}': os.kill(int(each.parts[2]), 9)\n"
    )
    try:
        gateway.enforce(allow("good.example", "198.51.100.16/28"))
        assert box.reaches("udp", SERVER, 9000)
        made = engine.api.exec_create(gateway.name, ["python3", "-c", kill])
        assert engine.api.exec_start(made["Id"]) == b""
        with pytest.raises(EnvironmentFault, match=server):
            gateway.enforce(allow("198.51.100.16/28"))
        assert not box.reaches("udp", SERVER, 9000)
    finally:
        engine.api.remove_container(box.name, force=True)
        pool.discard(gateway)


def test_the_guard_goes_with_its_container(engine, pool, image):
    guard = guard_bridges(engine)
    guard.require(Deadline(60))
    table = f"pytest_harbor_{guard.token}"

    def listing():
        name = f"gwtest-{secrets.token_hex(4)}"
        _run(
            engine,
            name,
            image,
            ["nft", "list", "tables"],
            {"NetworkMode": "host", "CapAdd": ["NET_ADMIN"]},
        )
        engine.api.wait(name)
        said = engine.api.logs(name).decode()
        engine.api.remove_container(name)
        return said

    assert table in listing()
    guard.close()
    assert table not in listing()


def _await(true):
    limit = time.monotonic() + 20
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.05)
