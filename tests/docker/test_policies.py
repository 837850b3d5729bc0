"""Boxes whose network opens and closes, seen from a server outside that knows who came."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_harbor.environment.docker import ContainerSpec, DockerEnvironment, Engine
from pytest_harbor.environment.docker.compose import ComposeEnvironment, ComposeSource
from pytest_harbor.environment.docker.gateway.pool import close_gateways
from pytest_harbor.environment.docker.policies import means_for
from pytest_harbor.environment.docker.spec import DEFAULT_PIDS_LIMIT
from pytest_harbor.errors import (
    EnvironmentFault,
    EnvironmentStartError,
    OptionError,
    UnsupportedError,
)
from pytest_harbor.task.network import Endpoint, NetworkPolicy

OPEN, CLOSED = NetworkPolicy(), NetworkPolicy("no-network")
LISTED = NetworkPolicy("allowlist", ("192.0.2.135",))
SERVER = "192.0.2.135"

# Greets, then tells each client that stays what it sends; one line of its log per visit.
SERVE = """\
use IO::Socket::INET;
$| = 1; $SIG{CHLD} = "IGNORE";
my $server = IO::Socket::INET->new(LocalPort => 8099, Listen => 9, ReuseAddr => 1) or die;
my $names = IO::Socket::INET->new(LocalPort => 53, Proto => "udp") or die;
if (!fork) { while ($names->recv(my $asked, 999)) { print "name\\n" } exit }
while (my $client = $server->accept) {
  print "visit\\n";
  next if fork; print $client "hi\\n"; while (<$client>) { print "data\\n"; print $client $_ } exit
}
"""
ASK = "timeout 3 bash -c 'read -r word </dev/tcp/192.0.2.135/8099; echo $word'"

MakeBox = Callable[..., DockerEnvironment]
MakeProject = Callable[..., ComposeEnvironment]


class Server:
    """A container on a network of the test's own."""

    def __init__(self, engine: Engine, network: str, name: str) -> None:
        self.network, self._engine, self._name = network, engine, name

    def log(self) -> list[str]:
        return self._engine.api.logs(self._name).decode().split()


@pytest.fixture(scope="module")
def server(engine: Engine, one_at_a_time: None) -> Iterator[Server]:
    name = f"harbor-test-outside-{engine.run_id}"
    engine.api.create_network(
        name,
        ipam={"Config": [{"Subnet": "192.0.2.128/25", "Gateway": "192.0.2.129"}]},
        labels=engine.labels(),
    )
    try:
        config = {
            "Image": "debian:bookworm-slim",
            "Cmd": ["perl", "-e", SERVE],
            "Labels": engine.labels(),
            "HostConfig": {"NetworkMode": name},
            "NetworkingConfig": {
                "EndpointsConfig": {name: {"IPAMConfig": {"IPv4Address": SERVER}}}
            },
        }
        engine.api.create_from(config, name)
        engine.api.start(name)
        yield Server(engine, name, name)
    finally:
        close_gateways(engine)  # they are on the network that goes
        engine.api.remove_container(name, force=True)
        engine.api.remove_network(name)


@pytest.mark.parametrize(
    ("policies", "means"),
    [
        ((OPEN,), "public"),
        ((CLOSED, NetworkPolicy("allowlist")), "none"),
        ((OPEN, CLOSED), "switched"),
        ((CLOSED, OPEN), "switched"),
        ((OPEN, LISTED), "gateway"),
        ((NetworkPolicy(denied=("example.test",)),), "gateway"),
        ((NetworkPolicy("no-network", endpoints=(Endpoint("example.test", 1),)),), "gateway"),
    ],
)
def test_the_cheapest_means_that_holds(policies: tuple[NetworkPolicy, ...], means: str) -> None:
    assert means_for(policies) == means


@pytest.mark.parametrize("first", [OPEN, CLOSED])
def test_a_box_reaches_the_outside_in_open_phases_alone(
    make_box: MakeBox, server: Server, first: NetworkPolicy
) -> None:
    second = CLOSED if first is OPEN else OPEN
    box = make_box(network=(first, second), uplink=server.network)
    box.start()
    answers = []
    for policy in (first, second, first):
        box.set_network_policy(policy)
        before = len(server.log())
        answers.append((policy.is_open, box.exec(ASK).stdout.strip(), len(server.log()) - before))
    assert answers == [
        (p.is_open, *(("hi", 1) if p.is_open else ("", 0))) for p in (first, second, first)
    ]


def test_a_connection_ends_when_the_network_closes(make_box: MakeBox, server: Server) -> None:
    box = make_box(network=(OPEN, CLOSED), uplink=server.network)
    box.start()
    before = server.log().count("data")
    box.exec(
        "(exec 3<>/dev/tcp/192.0.2.135/8099; read -u 3 -r word; echo one >&3; read -u 3 -r word;"
        " touch /opened; while sleep 0.05; do echo two >&3; done) >/dev/null 2>&1 &"
    )
    box.exec("until [ -e /opened ]; do sleep 0.05; done", timeout_sec=10)
    box.set_network_policy(CLOSED)
    box.exec("sleep 0.3")
    sent = server.log().count("data")
    assert sent > before
    box.exec("sleep 0.5")
    assert server.log().count("data") == sent


def test_no_name_leaves_a_closed_box(
    make_box: MakeBox, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = make_box(network=(OPEN, CLOSED), uplink=server.network)
    monkeypatch.setattr(box._engine.cache, "resolvers", (SERVER,))
    box.start()
    box.exec("timeout 2 getent hosts open.example.test")
    asked = server.log().count("name")
    assert asked > 0
    box.set_network_policy(CLOSED)
    box.exec("timeout 2 getent hosts closed.example.test")
    assert server.log().count("name") == asked


def test_a_policy_that_was_not_asked_for_changes_nothing(make_box: MakeBox, server: Server) -> None:
    box = make_box(network=(CLOSED, OPEN), uplink=server.network)
    box.start()
    with pytest.raises(UnsupportedError, match="made for other network policies"):
        box.set_network_policy(LISTED)
    assert box.exec(ASK).stdout.strip() == ""


def test_a_missing_uplink_is_named(make_box: MakeBox) -> None:
    box = make_box(network=(OPEN,), uplink="no-such-network")
    with pytest.raises(EnvironmentStartError, match=r"'no-such-network'.*docker network ls"):
        box.start()


def test_an_unknown_runtime_is_refused_with_what_there_is(make_box: MakeBox) -> None:
    box = make_box(runtime="no-such-runtime")
    with pytest.raises(OptionError, match=r"'no-such-runtime'.*it has .*runc.*runsc install"):
        box.start()


@pytest.mark.parametrize("policies", [(OPEN,), (CLOSED,), (OPEN, CLOSED)])
@pytest.mark.parametrize("hardened", [False, True])
def test_what_a_container_may_do(
    make_box: MakeBox, engine: Engine, policies: tuple[NetworkPolicy, ...], hardened: bool
) -> None:
    box = make_box(network=policies, hardened=hardened, runtime="runc")
    box.start()
    host = engine.api.inspect_container(box.name)["HostConfig"]
    assert host["PidsLimit"] == ContainerSpec("x").pids_limit
    assert host["Runtime"] == "runc"
    assert (host["SecurityOpt"] or []) == (["no-new-privileges"] if hardened else [])
    assert not host["Privileged"]
    assert not host["Binds"]
    assert (host["CapDrop"] or []) == ([] if policies == (OPEN,) else ["NET_RAW"])
    status = Path("/proc/self/status")
    words = dict(
        line.split(":\t") for line in box.exec(["cat", str(status)]).stdout.splitlines() if line
    )
    assert words["Seccomp"].strip() == "2"
    assert words["NoNewPrivs"].strip() == str(int(hardened))
    assert bool(int(words["CapEff"], 16) >> 13 & 1) == (policies == (OPEN,))


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_echoes_work_without_raw_frames(make_box: MakeBox, server: Server, user: str) -> None:
    box = make_box(network=(OPEN, CLOSED), uplink=server.network)
    box.start()
    ping = (
        "use Socket; socket(S, PF_INET, SOCK_DGRAM, 1) or die;"
        " send(S, pack('CCnnn', 8, 0, 0, 0, 1), 0, sockaddr_in(0, inet_aton($ARGV[0]))) or die;"
        " alarm 3; recv(S, $b, 99, 0); print unpack('C', $b)"
    )
    assert box.exec(["perl", "-e", ping, SERVER], user=user).stdout == "0"
    box.set_network_policy(CLOSED)
    assert box.exec(["perl", "-e", ping, "127.0.0.1"], user=user).stdout == "0"
    assert box.exec(["perl", "-e", ping, SERVER], user=user).stdout == ""


PROJECT = r"""
services:
  main: {image: debian:bookworm-slim}
  side:
    image: debian:bookworm-slim
    command:
      - perl
      - -e
      - |
        use IO::Socket::INET;
        my $$s = IO::Socket::INET->new(LocalPort => 8099, Listen => 5) or die;
        while (my $$c = $$s->accept) { print $$c "side\n"; close $$c }
"""


@pytest.fixture
def make_project(engine: Engine, server: Server, tmp_path: Path) -> Iterator[MakeProject]:
    """Start a compose file's project, whose way out is the server's network."""
    with ExitStack() as stack:

        def make(
            *policies: NetworkPolicy, file: str = PROJECT, **settings: bool
        ) -> ComposeEnvironment:
            path = tmp_path / "docker-compose.yaml"
            path.write_text(file)
            spec = ContainerSpec(
                "project",
                docker_image="debian:bookworm-slim",
                network=policies,
                uplink=server.network,
                **settings,
            )
            box = ComposeEnvironment(spec, ComposeSource(path, tmp_path, tmp_path), engine)
            stack.callback(box.stop)
            box.start(timeout_sec=120)
            return box

        yield make


@pytest.mark.parametrize("first", [OPEN, pytest.param(CLOSED, marks=pytest.mark.long)])
def test_a_project_opens_and_closes_and_its_services_reach_each_other(
    engine: Engine, make_project: MakeProject, server: Server, first: NetworkPolicy
) -> None:
    second = CLOSED if first is OPEN else OPEN
    box = make_project(first, second, hardened=True)
    side = box.service("side")
    for policy in (first, second, first):
        box.set_network_policy(policy)
        before, there = len(server.log()), "hi" if policy.is_open else ""
        assert box.exec(ASK).stdout.strip() == there
        assert side.exec(["bash", "-c", ASK]).stdout.strip() == there
        assert len(server.log()) - before == (2 if policy.is_open else 0)
        asked = box.exec(ASK.replace(SERVER, "side")).stdout.strip()
        assert asked == "side"
    for name in (box.name, side.name):
        host = engine.api.inspect_container(name)["HostConfig"]
        assert host["CapDrop"] == ["NET_RAW"]
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["PidsLimit"] == DEFAULT_PIDS_LIMIT


@pytest.mark.parametrize("first", [OPEN, CLOSED])
def test_a_gateway_lets_through_what_the_phase_allows(
    make_box: MakeBox, server: Server, first: NetworkPolicy
) -> None:
    other = NetworkPolicy("allowlist", ("203.0.113.9",))
    box = make_box(network=(first, LISTED, other), uplink=server.network)
    box.start()
    answers = []
    for policy in (first, LISTED, other, LISTED):
        box.expect_network_policy(policy)
        box.set_network_policy(policy)
        before = len(server.log())
        answers.append((box.exec(ASK).stdout.strip(), len(server.log()) - before))
    assert answers == [("hi", 1) if first is OPEN else ("", 0), ("hi", 1), ("", 0), ("hi", 1)]
    box.set_network_policy(other)
    box.exec(ASK)
    refused = {(one.destination, one.protocol, one.port) for one in box.refused_connections()}
    assert (SERVER, "tcp", 8099) in refused


def test_a_project_behind_a_gateway(make_project: MakeProject) -> None:
    box = make_project(CLOSED, LISTED)
    side = box.service("side")
    for policy, there in ((CLOSED, ""), (LISTED, "hi"), (CLOSED, "")):
        box.set_network_policy(policy)
        assert box.exec(ASK).stdout.strip() == there
        assert side.exec(["bash", "-c", ASK]).stdout.strip() == there
        assert box.exec(ASK.replace(SERVER, "side")).stdout.strip() == "side"


LISTEN = """\
use IO::Socket::INET; $| = 1;
my $server = IO::Socket::INET->new(LocalPort => 20000 + int rand 9999, Proto => "udp") or die;
print "port ", $server->sockport, "\\n";
while ($server->recv(my $said, 99)) { print "heard $said\\n" }
"""
SHOUT = """\
use Socket; socket(S, PF_INET, SOCK_DGRAM, 0) or die; setsockopt(S, SOL_SOCKET, SO_BROADCAST, 1);
send(S, $ARGV[1], 0, sockaddr_in($ARGV[0], inet_aton($_))) for "255.255.255.255", "224.0.0.1";
"""


@pytest.fixture
def on_the_machine(engine: Engine) -> Iterator[Callable[[], list[str]]]:
    """Logs of a server on the engine's machine; the first line has its port."""
    name = f"harbor-test-machine-{engine.run_id}"
    config = {
        "Image": "debian:bookworm-slim",
        "Cmd": ["perl", "-e", LISTEN],
        "Labels": engine.labels(),
        "HostConfig": {"NetworkMode": "host"},
    }
    engine.api.create_from(config, name)
    try:
        engine.api.start(name)
        yield lambda: engine.api.logs(name).decode().splitlines()
    finally:
        engine.api.remove_container(name, force=True)


@pytest.mark.parametrize("policies", [(CLOSED,), (OPEN, CLOSED), (CLOSED, LISTED)])
def test_no_broadcast_of_a_project_reaches_the_machine(
    engine: Engine,
    make_project: MakeProject,
    on_the_machine: Callable[[], list[str]],
    policies: tuple[NetworkPolicy, ...],
) -> None:
    box = make_project(*policies)
    for policy in policies:
        box.set_network_policy(policy)
    port = on_the_machine()[0].split()[1]
    for place in (box, box.service("side")):
        assert place.exec(["perl", "-e", SHOUT, port, "broadcast"]).exit_code == 0
    own = "$ARGV[0] > 0 or die; " + SHOUT.replace("255.255.255.255", "127.0.0.1")
    made = engine.api.exec_create(
        f"harbor-test-machine-{engine.run_id}", ["perl", "-e", own, port, "own"]
    )
    engine.api.exec_start(made["Id"])
    limit = time.monotonic() + 20
    while "heard own" not in on_the_machine():
        assert time.monotonic() < limit
        time.sleep(0.05)
    assert "heard broadcast" not in on_the_machine()
    assert box.exec(ASK.replace(SERVER, "side")).stdout.strip() == "side"


@pytest.mark.long
def test_a_closing_that_fails_half_way_closes_the_rest(
    engine: Engine, make_project: MakeProject, server: Server
) -> None:
    zone = PROJECT.partition("main: {image: debian:bookworm-slim}\n")[2].replace("side:", "zone:")
    box = make_project(OPEN, CLOSED, file=PROJECT + zone)
    zone = box.service("zone")
    engine.api.remove_container(box.service("side").name, force=True)
    with pytest.raises(EnvironmentFault):
        box.set_network_policy(CLOSED)
    before = len(server.log())
    assert box.exec(ASK).stdout.strip() == ""
    assert zone.exec(["bash", "-c", ASK]).stdout.strip() == ""
    assert len(server.log()) == before


def test_a_kept_box_keeps_its_gateway_and_is_told_how_to_go(
    engine: Engine, make_box: MakeBox, server: Server
) -> None:
    close_gateways(engine)
    before = set(threading.enumerate())
    box = make_box(network=(LISTED, CLOSED), uplink=server.network)
    box.start()
    told = str(box.keep())
    box.stop()
    remove = next(line for line in told.splitlines() if line.startswith("remove:"))
    words = remove.partition(":")[2].split()
    assert len(words) > 9, words  # the box, its gateway, the guard; the gateway's network
    try:
        made = engine.api.exec_create(box.name, ["bash", "-c", ASK])
        assert engine.api.exec_start(made["Id"]).decode().strip() == "hi"
        # The run ends, and nobody listens on its connections any more: what is kept needs none.
        close_gateways(engine)
        assert set(threading.enumerate()) <= before
        made = engine.api.exec_create(box.name, ["bash", "-c", ASK])
        assert engine.api.exec_start(made["Id"]).decode().strip() == "hi"
    finally:
        subprocess.run(remove.partition(":")[2], shell=True, check=True, capture_output=True)
    left = [one["Names"][0][1:] for one in engine.api.containers(all=True)]
    left += [one["Name"] for one in engine.api.networks()]
    assert not {word.rstrip(";") for word in words} & set(left)
