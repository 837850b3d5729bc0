"""The configurations that a policy becomes: nothing that a task names adds a line of its own."""

from dataclasses import replace

import pytest

from pytest_harbor.environment.docker.gateway.control import MAX_NAMES, Control, Refusals, Service
from pytest_harbor.environment.docker.gateway.dnsmasq import dnsmasq_config
from pytest_harbor.environment.docker.gateway.firewall import firewall
from pytest_harbor.environment.docker.gateway.guard import guard_rules
from pytest_harbor.environment.docker.gateway.haproxy import haproxy_config
from pytest_harbor.environment.docker.gateway.recipe import Place, recipe_for
from pytest_harbor.environment.docker.gateway.refusals import ALLOWED_NAME, parse_refusals
from pytest_harbor.errors import EnvironmentFault
from pytest_harbor.task.network import Endpoint, NetworkPolicy

PLACE = Place("172.30.0.1", "172.30.0.0/16", "eth1", "eth0", "172.31.0.1", "172.31.0.0/16", 100)

HOSTILE = [
    "good.example\nserver=1.1.1.1",
    "good.example/1.1.1.1",
    "a b",
    'a"b',
    "a;b",
    "a{b",
    "*.*",
    "#",
    "",
    "a.example\r",
    "a.example\n",
]


@pytest.mark.parametrize("entry", HOSTILE)
@pytest.mark.parametrize("where", ["hosts", "denied", "endpoints"])
def test_a_hostile_entry_is_refused(entry, where):
    value = (Endpoint(entry, 80),) if where == "endpoints" else (entry,)
    with pytest.raises(EnvironmentFault):
        recipe_for(NetworkPolicy("allowlist", **{where: value}))


@pytest.mark.parametrize("port", [0, 65536, "80 accept"])
def test_an_endpoint_has_a_port(port):
    with pytest.raises(EnvironmentFault, match="port"):
        recipe_for(NetworkPolicy(endpoints=(Endpoint("a.example", port),)))


def test_ipv6_entries_are_named_as_unreachable():
    recipe = recipe_for(NetworkPolicy("allowlist", ("2001:db8::1", "a.example")))
    assert recipe.unreachable == ("2001:db8::1",)


def test_no_question_is_forwarded_under_a_restriction():
    recipe = recipe_for(NetworkPolicy("allowlist", ("a.example", "*.b.example")))
    assert "server=" not in dnsmasq_config(recipe, PLACE, 10000)
    assert "server=" in dnsmasq_config(recipe_for(NetworkPolicy()), PLACE, 10000)


def test_a_denied_name_is_not_answered_though_it_is_allowed():
    policy = NetworkPolicy("allowlist", ("a.example",), denied=("a.example",))
    assert "host-record=a.example" not in dnsmasq_config(recipe_for(policy), PLACE, 10000)


def test_lines_of_the_proxy_stay_short_however_long_the_list():
    hosts = tuple(f"{'x' * 60}{number}.example" for number in range(500))
    text = haproxy_config(recipe_for(NetworkPolicy("allowlist", hosts)), PLACE, 20000)
    assert max(map(len, text.splitlines())) < 1000


def test_the_guard_speaks_of_its_own_bridges():
    rules = guard_rules("t", "abc123", owned=True)
    assert 'incoming iifname "phg' not in rules.replace('"phgabc123-*"', "")


def test_a_flood_of_names_is_counted_and_not_kept():
    refusals = Refusals()
    for number in range(MAX_NAMES + 500):
        refusals.note(b"dnsmasq[1]: config n%d.example is NXDOMAIN\n" % number)
    lines = refusals.take().splitlines()
    assert len(lines) == MAX_NAMES + 1
    assert lines[-1] == "more - 500 -"


def test_refusals_are_read_with_their_counts():
    listing = (
        '{"nftables": [{"set": {"name": "refused_udp", "elem": [{"elem": {"val": {"concat": '
        '["9.9.9.9", 53]}, "counter": {"packets": 3, "bytes": 9}}}]}}, '
        '{"counter": {"name": "refused_udp_all", "packets": 5}}]}'
    )
    found = parse_refusals(f"{listing}\ndns - 2 a.example\nmore - 1 -")
    counts = {(one.destination, one.protocol, one.port): one.count for one in found}
    assert counts[("9.9.9.9", "udp", 53)] == 3
    assert counts[("a.example", "dns", None)] == 2
    assert sum(counts.values()) == 3 + 2 + 2 + 1


def test_a_server_ends_with_its_children():
    service = Service(["sh", "-c", "sleep 60 & echo begun; wait"], Refusals())
    while not service.last:
        service._thread.join(0.01)
    service.end()
    assert not service._thread.is_alive()  # a child would hold the output open


LISTING = (
    '{"nftables": [{"set": {"name": "refused_udp", "elem": [{"elem": {"val": {"concat": '
    '["9.9.9.9", 53]}, "counter": {"packets": %d, "bytes": 9}}}]}}, '
    '{"counter": {"name": "refused_udp_all", "packets": %d}}]}\nmore - 0 -'
)


def test_a_refusal_is_told_once():
    told = {}
    assert sum(one.count for one in parse_refusals(LISTING % (3, 5), told)) == 5
    assert parse_refusals(LISTING % (3, 5), told) == []
    again = parse_refusals(LISTING % (4, 8), told)
    assert {one.destination: one.count for one in again} == {
        "9.9.9.9": 1,
        "(further destinations)": 2,
    }


def test_names_below_a_denied_one_resolve_where_a_wildcard_allows_them():
    policy = NetworkPolicy("allowlist", ("*.e.example",), denied=("bad.e.example",))
    lines = dnsmasq_config(recipe_for(policy), PLACE, 10000).splitlines()
    assert "address=/bad.e.example/" in lines
    assert "address=/*.bad.e.example/198.18.0.1" in lines


@pytest.mark.parametrize("denied", ["*.e.example", "*.bad.e.example"])
def test_names_below_a_denied_one_do_not_resolve_where_they_are_denied(denied):
    policy = NetworkPolicy("allowlist", ("*.e.example",), denied=("bad.e.example", denied))
    text = dnsmasq_config(recipe_for(policy), PLACE, 10000)
    assert "address=/*.bad.e.example/198.18.0.1" not in text


def rules(policy, resolved=()):
    return firewall(
        replace(recipe_for(policy), resolved=resolved),
        PLACE,
        dns_port=10000,
        proxy_port=20000,
        host_addresses=["192.0.2.1"],
        neighbours=[PLACE.uplink_subnet, "172.29.0.0/16"],
    )


def elements(text, name):
    (line,) = [line for line in text.splitlines() if line.startswith(f"set {name} ")]
    return line


def test_servers_on_the_uplink_are_reached_by_name_under_public():
    text = rules(NetworkPolicy(denied=("denied.example",)))
    for name in ("special", "neighbours"):
        assert PLACE.uplink_subnet not in elements(text, name)
    assert PLACE.uplink_gateway in elements(text, "special")
    restricted = rules(NetworkPolicy("allowlist", ("a.example",)))
    assert PLACE.uplink_subnet in elements(restricted, "special")


def test_questions_for_services_are_no_refusals():
    refusals = Refusals()
    refusals.note(b"dnsmasq[1]: config _http._tcp.deb.example is NXDOMAIN\n")
    assert refusals.take() == "more - 0 -"


NAMED = (Endpoint("172.31.0.1", 8080),)


def test_a_named_endpoint_is_reached_wherever_it_is():
    policy = NetworkPolicy("no-network", (), ("172.31.0.0/16",), (Endpoint("a.example", 8080),))
    text = rules(policy, NAMED)
    assert "172.31.0.1 . 8080" in elements(text, "named")
    assert "172.31.0.1 . 8080" not in elements(text, "endpoints")  # not without its name
    assert text.index("@named accept") < text.index("@special jump") < text.rindex("@denied jump")


def test_a_named_endpoint_in_a_denied_network_is_reached_directly_where_all_is_open():
    policy = NetworkPolicy("public", (), ("172.31.0.0/16",), (Endpoint("a.example", 8080),))
    text = rules(policy, NAMED)
    assert "172.31.0.1 . 8080" in elements(text, "endpoints")
    assert "ct reply ip saddr 172.31.0.1 ct reply proto-src 8080 accept" in text


def test_where_a_name_may_not_lead_is_counted():
    text = rules(NetworkPolicy("allowlist", ("a.example",)))
    outgoing = text[text.index("chain outgoing") : text.index("chain refuse")]
    assert "reject" not in outgoing
    for name in ("special", "denied", "neighbours"):
        assert f"@{name} jump refuse" in outgoing


def test_what_says_no_name_is_told_of_without_the_stand_in():
    (found,) = parse_refusals((LISTING % (3, 3)).replace("9.9.9.9", "198.18.0.1"))
    assert (found.destination, found.protocol, found.port) == (ALLOWED_NAME, "udp", 53)


def test_the_guard_outlives_its_process_while_there_are_bridges():
    control = Control("127.0.0.1")
    assert not control.is_needed()
    control.linger("lo")
    assert control.is_needed()
    control.linger("phgnone-")
    assert not control.is_needed()
