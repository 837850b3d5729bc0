#!/bin/bash
# Grades what the agent left, and is brought into the container after the agent.
# Without a reward file there is no verdict: so it is written on every way out.
set -u

reward=0
trap 'echo "$reward" >/logs/verifier/reward.txt' EXIT

found=$(cat /app/sum.txt)
if [ "$found" = 42 ]; then
    reward=1
else
    echo "/app/sum.txt: expected 42, found '$found'"
fi
