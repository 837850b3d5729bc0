"""The same escapes where nothing holds them: the probes and the servers can tell the difference."""

import pytest

from .attack import Attack
from .table import ESCAPES

# What no ordinary bridge lets out either: it needs another phase's box, capabilities that a
# container does not have, or is meant for a gateway.
ROWS = [row for row in ESCAPES]
AT_LEAST = 100


@pytest.fixture(scope="module")
def control(lab):
    attack = Attack(ROWS)
    table = attack.table(lab.place)
    box = lab.run_box("outside", lab.outside)
    opened = lab.run_in(box, table, "hold")
    said = lab.run_in(box, table)
    plain = lab.run_box("plain", lab.plain)
    machine = lab.run_in(plain, table | {"held": []})
    events = lab.events()
    return opened, said, machine, attack.proofs(events, said, allowed=["allowed.test"])


def test_an_ordinary_bridge_lets_most_of_them_out(control):
    opened, said, machine, proofs = control
    out = [name for name, proof in proofs.items() if proof]
    for row in ROWS:
        print("OUT " if proofs[row.name] else "in  ", row.name, "::", said.get(row.name), "::", machine.get(row.name,"")[:100], "::", proofs[row.name][:2])
    print(opened)
    assert len(out) >= AT_LEAST, sorted(set(proofs) - set(out))
