#!/bin/bash
# Probes the service that the agent left running; starts nothing by itself.
set -u

reward=0
trap 'echo "$reward" >/logs/verifier/reward.txt' EXIT

if python3 -I /tests/probe.py; then
    reward=1
fi
