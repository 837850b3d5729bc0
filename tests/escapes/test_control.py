"""The same escapes where nothing holds them: probes and servers can tell the difference.

What an ordinary bridge does not let out either needs something that it lacks: a gateway, a
trial's neighbour, IPv6, or an engine that is in the container's reach.
"""

import pytest

from .attack import Attack
from .table import ESCAPES, Escape

AT_LEAST = 150
PROTOCOLS = ("dns", "frame", "http", "icmp", "tcp", "tls", "udp")
MACHINE = ("@host", "@bridge", "@neighbour", "@published")


def is_about_the_machine(row: Escape) -> bool:
    return any(place in str(row.args) for place in MACHINE)


@pytest.fixture(scope="module")
def got_out(lab) -> set[str]:
    """Names of the rows that a server saw, from two ordinary containers.

    The machine has no address on the network whose router is the lab's world, so what is
    meant for the machine is tried from a second one.
    """
    attack = Attack(ESCAPES)
    table = attack.table(lab.place)
    rows = {row.name for row in ESCAPES if is_about_the_machine(row) and not row.held}
    about_machine = {**table, "held": [], "rows": [r for r in table["rows"] if r["name"] in rows]}
    box = lab.run_box("outside", lab.outside)
    lab.run_in(box, table, "hold")
    said = lab.run_in(box, table)
    lab.run_in(lab.run_box("plain", lab.plain), about_machine)
    proofs = attack.proofs(lab.events(), said, allowed=["allowed.test"])
    return {name for name, proof in proofs.items() if proof}


def test_an_ordinary_bridge_lets_most_of_them_out(got_out):
    kept_in = {row.name for row in ESCAPES} - got_out
    assert len(got_out) >= AT_LEAST, sorted(kept_in)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_some_of_each_protocol_get_out(got_out, protocol: str):
    assert {row.name for row in ESCAPES if row.protocol == protocol} & got_out


def test_connections_that_are_held_get_out(got_out):
    assert {row.name for row in ESCAPES if row.held} <= got_out


def test_the_machine_itself_is_reached(got_out):
    assert {
        "tcp to the machine's main address",
        "udp to the machine's bridge address",
        "another container's published port",
        "limited broadcast",
    } <= got_out
