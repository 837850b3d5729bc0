#!/bin/bash
set -u

reward=0
trap 'echo "$reward" >/logs/verifier/reward.txt' EXIT

# Proof that the policy holds: a container without a network has no route, not
# even to its neighbours. (The first line of the table is its heading.)
if [ "$(wc -l </proc/net/route)" -gt 1 ]; then
    echo 'There is a network, but task.toml says no-network:'
    cat /proc/net/route
    exit
fi

if diff -u /tests/expected.txt /app/findings.txt; then
    reward=1
fi
