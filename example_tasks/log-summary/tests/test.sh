#!/bin/bash
# The answer lies beside this script: tests/ is uploaded after the agent has
# finished, so it was never there to be read.
set -u

# Whatever happens below, a reward is written: a verifier that dies without one
# counts as broken, not as a failed agent. For the same reason there is no set -e.
reward=0
trap 'echo "$reward" >/logs/verifier/reward.txt' EXIT

if diff -u /tests/expected.csv /app/report.csv; then
    reward=1
fi
