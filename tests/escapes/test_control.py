"""The same escapes where nothing holds them: the probes and the servers can tell the difference."""

import pytest

from .attack import Attack
from .table import ESCAPES, Escape

AT_LEAST = 150
MACHINE = ("@host", "@bridge", "@neighbour", "@published")


def is_about_the_machine(row: Escape) -> bool:
    return any(place in str(row.args) for place in MACHINE)


@pytest.fixture(scope="module")
def control(lab):
    attack = Attack(ESCAPES)
    table = attack.table(lab.place)
    rows = {row.name for row in ESCAPES if is_about_the_machine(row) and not row.held}
    about_machine = {**table, "held": [], "rows": [r for r in table["rows"] if r["name"] in rows]}
    box = lab.run_box("outside", lab.outside)
    opened = lab.run_in(box, table, "hold")
    said = lab.run_in(box, table)
    plain = lab.run_box("plain", lab.plain)
    machine = lab.run_in(plain, about_machine)
    events = lab.events()
    return opened, said, machine, attack.proofs(events, said, allowed=["allowed.test"])


def test_an_ordinary_bridge_lets_most_of_them_out(control):
    opened, said, machine, proofs = control
    out = [name for name, proof in proofs.items() if proof]
    for row in ESCAPES:
        print("OUT " if proofs[row.name] else "in  ", row.name, "::", said.get(row.name), "::", machine.get(row.name,"")[:100], "::", proofs[row.name][:2])
    print(opened)
    assert len(out) >= AT_LEAST, sorted(set(proofs) - set(out))
