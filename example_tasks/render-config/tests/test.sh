#!/bin/bash
set -u

reward=0
trap 'echo "$reward" >/logs/verifier/reward.txt' EXIT

if python3 -I /tests/check.py; then
    reward=1
fi
