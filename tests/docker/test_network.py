"""The network of a run: outside and itself, never its neighbours."""

from collections.abc import Callable

from pytest_harbor.environment.docker import DockerEnvironment, Engine, remove_run
from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.network import (
    begin_run_network,
    ensure_network,
    run_network_name,
)
from pytest_harbor.task.network import NetworkPolicy

MakeBox = Callable[..., DockerEnvironment]

SERVER = """\
use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalPort => 8099, Listen => 5, ReuseAddr => 1);
while (my $client = $server->accept) { print $client "hi\\n"; close $client }
"""
FETCH = "timeout 3 bash -c 'cat </dev/tcp/{}/8099'"


def address(box: DockerEnvironment) -> str:
    networks = box._engine.api.inspect_container(box.name)["NetworkSettings"]["Networks"]
    (network,) = networks.values()
    return str(network["IPAddress"])


def test_boxes_of_a_run_share_a_network_and_cannot_reach_each_other(
    make_box: MakeBox, engine: Engine
):
    one, two = make_box(network=(NetworkPolicy(),)), make_box(network=(NetworkPolicy(),))
    one.start()
    two.start()
    one.write("/server.pl", SERVER)
    one.exec("setsid perl /server.pl >/dev/null 2>&1 &")
    own = one.exec(FETCH.format("127.0.0.1"))
    for _ in range(20):
        if own.exit_code == 0:
            break
        own = one.exec("sleep 0.1; " + FETCH.format("127.0.0.1"))
    assert own.stdout == "hi\n"
    other = two.exec(FETCH.format(address(one)))
    assert (other.stdout, other.exit_code) == ("", 124)
    networks = engine.api.networks(names=[f"^{run_network_name(engine.run_id)}$"])
    assert [network["Labels"]["pytest-harbor.run"] for network in networks] == [engine.run_id]


def test_without_network_there_is_loopback_only(make_box: MakeBox):
    box = make_box(network=(NetworkPolicy("no-network"),))
    box.start()
    interfaces = box.exec("cat /proc/net/dev | tail -n +3 | cut -d: -f1").stdout.split()
    assert interfaces == ["lo"]
    result = box.exec("timeout 3 bash -c '</dev/tcp/192.0.2.1/80'")
    assert result.exit_code != 0
    assert "unreachable" in result.stderr


def test_a_network_that_was_removed_is_made_again(make_box: MakeBox):
    own = Engine.connect()
    try:
        from pytest_harbor.environment.docker import ContainerSpec

        spec = ContainerSpec("net", docker_image="debian:bookworm-slim")
        first, second = DockerEnvironment(spec, own), DockerEnvironment(spec, own)
        try:
            first.start()
            first.stop()
            own.api.remove_network(run_network_name(own.run_id))
            second.start()
            assert second.exec(["true"]).exit_code == 0
        finally:
            second.stop()
        removed = remove_run(own, own.run_id)
        assert removed.networks == (run_network_name(own.run_id),)
    finally:
        own.close()


def test_the_outside_is_reachable(make_box: MakeBox, listener):
    box = make_box(network=(NetworkPolicy(),))
    box.start()
    result = box.exec(f"timeout 10 bash -c '</dev/tcp/{listener.address}/{listener.port}'")
    assert result.exit_code == 0
    assert listener.visits() == 1


def test_without_a_network_nothing_outside_is_reachable(make_box: MakeBox, listener):
    box = make_box(network=(NetworkPolicy("no-network"),))
    box.start()
    result = box.exec(f"timeout 10 bash -c '</dev/tcp/{listener.address}/{listener.port}'")
    assert result.exit_code != 0
    assert listener.visits() == 0


def test_a_network_made_in_the_background_is_the_one_that_boxes_wait_for(engine: Engine):
    own = Engine.connect()
    try:
        begin_run_network(own)
        begin_run_network(own)
        name = ensure_network(own, "box", Deadline(None))
        assert name == run_network_name(own.run_id)
        assert [each["Name"] for each in engine.api.networks(names=[f"^{name}$"])] == [name]
    finally:
        remove_run(own, own.run_id)
        own.close()
